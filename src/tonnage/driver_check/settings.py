"""What is asked of a driver: the class of volumes, where, how large, and with which secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tonnage.driver_check.contracts import Segments
from tonnage.errors import TonnageError
from tonnage.objects.texts import yaml_text

CALLS_WITH_SECRETS: Final = (
    "CreateVolume",
    "DeleteVolume",
    "ControllerPublishVolume",
    "ControllerUnpublishVolume",
    "NodeStageVolume",
    "NodePublishVolume",
    "ListVolumes",
    "ControllerGetVolume",
)
_SUFFIX: Final = "Secret"
DEFAULT_SIZE_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    prefix: str
    """Prefix of volumes' names, with a random part, so that it never means somebody else's volume."""
    work_dir: Path
    """Our own folder, for the paths where volumes are staged and published."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    segments: tuple[Segments, ...] = ()
    """Topologies to ask about; none: those of the nodes."""
    size_bytes: int = DEFAULT_SIZE_BYTES
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """Secrets by call."""
    cordoned_node: str = ""
    with_attach: bool = True
    """Whether ControllerPublishVolume is used; without it NodeStageVolume takes a slot and moves a volume."""
    fills: bool = False
    measures: bool = False
    most_volumes: int = 32
    settle_s: float = 5.0


class UnreadableSecrets(TonnageError):
    """A file is not a file of secrets. The message never shows a value."""


def read_secrets(text: str, *, source: str) -> dict[str, dict[str, str]]:
    """Secrets by call, from csi-sanity's YAML, or one map of `key: value` for all calls. Raises UnreadableSecrets."""
    try:
        found: list[Any] = [document.value for document in yaml_text.documents(text)]
    except TonnageError:
        # `from None`: the cause may show the line, and so a value.
        raise UnreadableSecrets(f"{source} is not YAML", hint="write CreateVolumeSecret: {key: value}") from None
    maps = [each for each in found if each is not None]
    if len(maps) != 1 or not isinstance(maps[0], dict):
        raise UnreadableSecrets(f"{source} is not a map", hint="write CreateVolumeSecret: {key: value}")
    (values,) = maps
    names_calls = any(str(name).removesuffix(_SUFFIX) in CALLS_WITH_SECRETS for name in values)
    if not names_calls and all(isinstance(value, str) for value in values.values()):
        return {call: dict(values) for call in CALLS_WITH_SECRETS}
    secrets: dict[str, dict[str, str]] = {}
    for name, each in values.items():
        call = str(name).removesuffix(_SUFFIX)
        if call not in CALLS_WITH_SECRETS:
            known = ", ".join(f"{each}{_SUFFIX}" for each in CALLS_WITH_SECRETS)
            raise UnreadableSecrets(
                f'{source}: "{name}" is not a call with secrets', hint=f"the calls with secrets are {known}"
            )
        if not isinstance(each, dict) or not all(isinstance(value, str) for value in each.values()):
            raise UnreadableSecrets(
                f"{source}: {name} is not a map of text to text", hint=f"write {name}: {{key: value}}"
            )
        secrets[call] = dict(each)
    return secrets
