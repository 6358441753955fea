"""A class's parameters: those for the driver, and those for us alone (`csi.storage.k8s.io/…`).

Templates name Secrets, such as `${pvc.name}-key`; a template for a namespace knows only `pv.name` and `pvc.namespace`.
Mirrors external-provisioner's getSecretReference and removePrefixedParameters, messages included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal

from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import PersistentVolumeClaim, SecretReference
from tonnage.objects.names import dns_label, dns_subdomain

PREFIX: Final = "csi.storage.k8s.io/"
FSTYPE: Final = f"{PREFIX}fstype"
CLAIM_NAME: Final = f"{PREFIX}pvc/name"
CLAIM_NAMESPACE: Final = f"{PREFIX}pvc/namespace"
VOLUME_NAME: Final = f"{PREFIX}pv/name"
"""What --extra-create-metadata adds for the driver."""


class InvalidParameters(TonnageError):
    """Parameters that contradict each other, or a template that cannot be filled in."""


class SecretKind(Enum):
    """The Secret of one call: its name in messages, its key without the prefix, and its older key, if any."""

    DEFAULT = "Default", "secret", ""
    PROVISIONER = "Provisioner", "provisioner-secret", "csiProvisionerSecret"
    CONTROLLER_PUBLISH = "ControllerPublish", "controller-publish-secret", "csiControllerPublishSecret"
    NODE_STAGE = "NodeStage", "node-stage-secret", "csiNodeStageSecret"
    NODE_PUBLISH = "NodePublish", "node-publish-secret", "csiNodePublishSecret"
    CONTROLLER_EXPAND = "ControllerExpand", "controller-expand-secret", ""
    NODE_EXPAND = "NodeExpand", "node-expand-secret", ""
    CONTROLLER_MODIFY = "ControllerModify", "controller-modify-secret", ""

    def keys(self, part: Literal["name", "namespace"]) -> tuple[str, ...]:
        """The parameters that may hold this part of the reference, the current one first."""
        _, key, old_key = self.value
        return (f"{PREFIX}{key}-{part}", *((f"{old_key}{part.capitalize()}",) if old_key else ()))


_OURS: Final = frozenset(
    (FSTYPE, *(key for kind in SecretKind for key in (*kind.keys("name"), *kind.keys("namespace"))))
)
# Go's os.Expand: ${anything}, $word, and the shell's one-letter names; a "$" before anything else stays.
_TOKEN: Final = re.compile(r"\$(?:\{([^}]*)\}|([*#$@!?\-0-9])|([A-Za-z_][A-Za-z0-9_]*))")


def for_driver(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters without ours. Raises InvalidParameters for an unknown key with our prefix."""
    for key in parameters:
        if key.startswith(PREFIX) and key not in _OURS:
            raise InvalidParameters(
                "failed to strip CSI Parameters of prefixed keys: "
                f'found unknown parameter key "{key}" with reserved namespace {PREFIX}'
            )
    return {key: value for key, value in parameters.items() if not key.startswith(PREFIX)}


def fstype_of(parameters: Mapping[str, str], default: str) -> str:
    """The requested file system, by the new key or the old one. Raises InvalidParameters for both at once."""
    found = [value for key, value in parameters.items() if key.lower() == "fstype" or key == FSTYPE]
    if len(found) > 1:
        raise InvalidParameters(f'fstype specified in parameters with both "fstype" and "{FSTYPE}" keys')
    return (found[0] if found else "") or default


def secret_reference(
    kind: SecretKind, parameters: Mapping[str, str], volume_name: str, claim: PersistentVolumeClaim
) -> SecretReference | None:
    """The Secret for a kind of call, else the class's default one, else None. Raises InvalidParameters."""
    for asked, word in ((kind, ""), (SecretKind.DEFAULT, "default ")):
        try:
            templates = _templates(asked, parameters)
        except InvalidParameters as exc:
            told = f"failed to get {word}name and namespace template from params: {exc.message}"
            raise InvalidParameters(told) from exc
        if templates is not None:
            break
    else:
        return None
    name, namespace = templates
    values = {"pv.name": volume_name, "pvc.namespace": claim.namespace}
    annotations = {f"pvc.annotations['{key}']": value for key, value in claim.metadata.annotations.items()}
    return SecretReference(
        namespace=_filled(namespace, values, "namespace"),
        name=_filled(name, {**values, "pvc.name": claim.name, **annotations}, "secret"),
    )


def resolved(template: str, values: Mapping[str, str]) -> str:
    """A template with its tokens filled in. Raises InvalidParameters for an unknown token."""
    missing: set[str] = set()

    def fill(token: re.Match[str]) -> str:
        name = token[1] if token[1] is not None else token[2] or token[3]
        if name and name not in values:
            missing.add(name)
        return values.get(name, "")

    text = _TOKEN.sub(fill, template)
    if missing:
        listed = " ".join(f'"{name}"' for name in sorted(missing))
        raise InvalidParameters(f"invalid tokens: [{listed}]")
    return text


def _templates(kind: SecretKind, parameters: Mapping[str, str]) -> tuple[str, str] | None:
    """Templates of name and namespace; None if the class has neither. Raises InvalidParameters."""
    called = kind.value[0]
    names = [parameters[key] for key in kind.keys("name") if key in parameters]
    namespaces = [parameters[key] for key in kind.keys("namespace") if key in parameters]
    if len(names) > 1 or len(namespaces) > 1:
        raise InvalidParameters(f'{called} secrets specified in parameters with both "csi" and "{PREFIX}" keys')
    if len(names) != len(namespaces):
        raise InvalidParameters(f"either name and namespace for {called} secrets specified, Both must be specified")
    if not names:
        return None
    if not names[0] or not namespaces[0]:
        raise InvalidParameters(
            f"{called} secrets specified in parameters but value of either namespace or name is empty"
        )
    return names[0], namespaces[0]


def _filled(template: str, values: Mapping[str, str], what: str) -> str:
    try:
        text = resolved(template, values)
    except InvalidParameters as exc:
        raise InvalidParameters(f'error resolving value "{template}": {exc.message}') from exc
    if (dns_label if what == "namespace" else dns_subdomain)(text):
        became = f' resolved to "{text}" which' if text != template else ""
        raise InvalidParameters(f'"{template}"{became} is not a valid {what} name')
    return text
