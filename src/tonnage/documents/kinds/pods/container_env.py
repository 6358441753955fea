"""Environment variables, and the references to a pod's own fields that variables and downward files share."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tonnage.documents.validation.type_rules import TypeRules
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, invalid, required, unsupported
from tonnage.quantity import Quantity

_OF_BOTH = ("metadata.name", "metadata.namespace", "metadata.uid")
_ENV_FIELDS = (
    *_OF_BOTH,
    *("spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
FILE_FIELDS = ("metadata.annotations", "metadata.labels", *_OF_BOTH)
# The paths that the conversion of field labels accepts, beside subscripted annotations and labels.
_KNOWN_FIELDS = {*_ENV_FIELDS, *FILE_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
_RESOURCE_FIELDS = tuple(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGE_FIELDS = ("requests.hugepages-", "limits.hugepages-")
_SUBSCRIPTED = re.compile(r"(.+?)\['(.*)'\]", re.DOTALL)
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def validate_env_from(sources: list[Doc], path: str) -> Wrong:
    """Whole ConfigMaps and Secrets as variables. Mirrors ValidateEnvFrom, which leaves the index out of some paths."""
    for idx, source in enumerate(sources):
        yield from _ENV_FROM(source, f"{path}[{idx}]")
        given = source.keys() & {"configMapRef", "secretRef"}
        if not given:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid(path, "", "may not have more than one field specified at a time")


def validate_field_ref(reference: Doc, path: str, allowed: Sequence[str] = _ENV_FIELDS) -> Errors:
    """A reference to a field of the pod. Mirrors validateObjectFieldSelector."""
    version, field = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        return [required(f"{path}.apiVersion")]
    if not field:
        return [required(f"{path}.fieldPath")]
    if version != "v1":
        told = f"unsupported pod version: {version}"
    elif subscripted := _SUBSCRIPTED.fullmatch(field):
        base, key = subscripted.groups()
        if base in ("metadata.annotations", "metadata.labels"):
            key = key.lower() if base == "metadata.annotations" else key
            return rules.sentences(path, key, names.qualified_name(key))
        told = f"field label does not support subscript: {field}"
    elif field in _KNOWN_FIELDS:
        return [] if field in allowed else [unsupported(f"{path}.fieldPath", field, allowed)]
    else:
        told = f"field label not supported: {field}"
    return [invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {told}")]


def validate_resource_field_ref(reference: Doc, path: str, *, needs_container: bool = False) -> Wrong:
    """A reference to a container's limit or request. Mirrors validateContainerResourceFieldSelector."""
    resource = reference.get("resource", "")
    if needs_container and not reference.get("containerName"):
        yield required(f"{path}.containerName")
    elif not resource:
        yield required(f"{path}.resource")
    elif resource not in _RESOURCE_FIELDS and not resource.startswith(_HUGE_PAGE_FIELDS):
        yield unsupported(f"{path}.resource", resource, _RESOURCE_FIELDS)
    divisor = Quantity.of(reference.get("divisor"))
    if not divisor.is_zero():
        yield from _validate_divisor(resource, str(divisor), f"{path}.divisor")


def _validate_divisor(resource: str, divisor: str, path: str) -> Errors:
    kind = resource.partition(".")[2]
    allowed: Sequence[str]
    if kind == "cpu":
        told, allowed = "1m and 1 are supported with the cpu resource", ("1m", "1")
    elif kind in ("memory", "ephemeral-storage") or kind.startswith("hugepages-"):
        spoken = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(kind, "hugepages")
        told, allowed = f"{', '.join(_BYTE_DIVISORS)} are supported with the {spoken} resource", _BYTE_DIVISORS
    else:
        return []
    return [] if divisor in allowed else [invalid(path, resource, f"only divisor's values {told}")]


def _validate_variable(variable: Doc, path: str) -> Wrong:
    yield from _VARIABLE(variable, path)
    source, path = variable.get("valueFrom"), f"{path}.valueFrom"
    if source is None:
        return
    if not source:
        told = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield invalid(path, "", told)
    elif variable.get("value"):
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


validate_env = rules.each(_validate_variable)
"""Names and sources of variables. Mirrors ValidateEnv."""
_ENV_FROM = TypeRules("core.EnvFromSource")
_SOURCE = TypeRules("core.EnvVarSource", fieldRef=validate_field_ref, resourceFieldRef=validate_resource_field_ref)
_VARIABLE = TypeRules("core.EnvVar", valueFrom=_SOURCE)
