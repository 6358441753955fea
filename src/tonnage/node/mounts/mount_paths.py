"""Where a node keeps its mounts, below the node's root, and the record (vol_data.json) beside every mount.

    plugins/kubernetes.io/csi/<driver>/<sha256 of handle>/{globalmount,vol_data.json}        staged, once a volume
    pods/<uid>/volumes/kubernetes.io~csi/<volume>/{mount,vol_data.json}                      published, once a pod

and for block volumes

    plugins/kubernetes.io/csi/volumeDevices/staging/<volume>
    plugins/kubernetes.io/csi/volumeDevices/publish/<volume>/<uid>
    plugins/kubernetes.io/csi/volumeDevices/<volume>/data/{vol_data,<uid>}.json
    pods/<uid>/volumeDevices/kubernetes.io~csi/<volume>                   a link to where it is published

A record is written before the driver mounts and removed after it has unmounted: after `kill -9` every possible mount
has one.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tonnage import errors, logs, private_files
from tonnage.objects.storage_v1 import unique_volume_name

RECORD: Final = "vol_data.json"
_PLUGIN: Final = Path("plugins/kubernetes.io/csi")
_DEVICES: Final = _PLUGIN / "volumeDevices"
_ESCAPED: Final = "kubernetes.io~csi"

_RECORDS: Final = (
    f"{_PLUGIN}/*/*/{RECORD}",
    f"{_DEVICES}/*/data/*.json",
    f"pods/*/volumes/{_ESCAPED}/*/{RECORD}",
)
"""Globs below the root that match every record."""
_LEFTOVERS: Final = (
    f"{_PLUGIN}/*/*/.{RECORD}.*",
    f"{_DEVICES}/*/data/.*.json.*",
    f"pods/*/volumes/{_ESCAPED}/*/.{RECORD}.*",
    f"{_PLUGIN}/*/*",
    f"{_DEVICES}/*/data",
    f"{_DEVICES}/publish/*",
    f"{_DEVICES}/*",
    f"pods/*/volumes/{_ESCAPED}/*",
    # Folders are removed from the innermost outwards; the process may have been killed in between.
    f"pods/*/volumes/{_ESCAPED}",
    f"pods/*/volumeDevices/{_ESCAPED}",
    "pods/*/*",
    "pods/*",
)
"""Globs below the root for what a killed process may leave: half-written records, empty folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountRecord:
    """One volume of one driver, staged (no `pod_uid`) or published for a pod. `name` is the PersistentVolume's."""

    driver: str
    handle: str
    name: str
    pod_uid: str = ""
    is_block: bool = False
    is_attachable: bool = True
    is_inline: bool = False

    @property
    def volume_id(self) -> str:
        """The same for all pods that use the volume on a node."""
        return f"{self.driver}^{self.handle}"

    @property
    def key(self) -> tuple[str, str]:
        """One mount of a node: staged once per volume, published once per pod."""
        return (self.pod_uid, self.name) if self.pod_uid else ("", self.volume_id)

    @property
    def unique_name(self) -> str:
        """The volume's name in Node.status.volumesInUse and volumesAttached."""
        return unique_volume_name(self.driver, self.handle)


@dataclass(frozen=True, slots=True)
class MountPaths:
    root: Path

    def mount(self, record: MountRecord) -> Path:
        """Where the record says that a volume is staged or published."""
        return self.target(record) if record.pod_uid else self.staging(record)

    def record(self, record: MountRecord) -> Path:
        if record.is_block:
            return (
                self.root / _DEVICES / record.name / "data" / (f"{record.pod_uid}.json" if record.pod_uid else RECORD)
            )
        return self.mount(record).with_name(RECORD)

    def staging(self, record: MountRecord) -> Path:
        """The path for NodeStageVolume."""
        if record.is_block:
            return self.root / _DEVICES / "staging" / record.name
        digest = hashlib.sha256(record.handle.encode()).hexdigest()
        return self.root / _PLUGIN / record.driver / digest / "globalmount"

    def target(self, record: MountRecord) -> Path:
        """The path for NodePublishVolume."""
        if record.is_block:
            return self.root / _DEVICES / "publish" / record.name / record.pod_uid
        return self.pod(record.pod_uid) / "volumes" / _ESCAPED / record.name / "mount"

    def device_link(self, record: MountRecord) -> Path:
        """The pod's path to a block volume."""
        return self.pod(record.pod_uid) / "volumeDevices" / _ESCAPED / record.name

    def pod(self, uid: str) -> Path:
        return self.root / "pods" / uid


_log = logs.logger(__name__)


def save(path: Path, record: MountRecord, *, node: str, attachment: str) -> None:
    """Write a record atomically; does nothing if it exists."""
    said = {
        "specVolID": record.name,
        "volumeHandle": record.handle,
        "driverName": record.driver,
        "nodeName": node,
        "attachmentID": attachment,
        "volumeLifecycleMode": "Ephemeral" if record.is_inline else "Persistent",
        "volumeMode": "Block" if record.is_block else "Filesystem",
        "attachRequired": "true" if record.is_attachable else "false",
        **({"podUID": record.pod_uid} if record.pod_uid else {}),
    }
    text = json.dumps(said)
    with suppress(OSError):
        if private_files.read_own(path) == text.encode():
            return
    private_files.own_folder(path.parent, mode=0o750)
    private_files.write_private(path, text.encode())


def load(path: Path) -> MountRecord | None:
    """Read a record; None for a file that is not one, which is logged and left alone."""
    try:
        said = json.loads(private_files.read_own(path))
        return MountRecord(
            driver=said["driverName"],
            handle=said["volumeHandle"],
            name=said["specVolID"],
            pod_uid=said.get("podUID", ""),
            is_block=said.get("volumeMode") == "Block",
            is_attachable=said.get("attachRequired") != "false",
            is_inline=said.get("volumeLifecycleMode") == "Ephemeral",
        )
    except (errors.TonnageError, OSError, ValueError, KeyError, TypeError) as exc:
        _log.warning("A record of a mount cannot be read", path=str(path), error=str(exc))
        return None


def scan(paths: MountPaths) -> list[MountRecord]:
    """Every record below a node's root, sorted by path."""
    found = sorted(path for pattern in _RECORDS for path in paths.root.glob(pattern))
    return [record for path in found if (record := load(path)) is not None]


def sweep(paths: MountPaths) -> None:
    """Remove what a process leaves that is killed while it writes or removes a record."""
    for pattern in _LEFTOVERS:
        for path in sorted(paths.root.glob(pattern)):
            if path.is_dir() and not path.is_symlink():
                remove_empty(path, upto=paths.root)
            elif path.name.startswith("."):
                remove(path, upto=paths.root)


def remove(path: Path, *, upto: Path) -> None:
    """Remove a record, then the empty folders above it, below `upto`. Folders with content stay."""
    path.unlink(missing_ok=True)
    remove_empty(path.parent, upto=upto)


def remove_empty(folder: Path, *, upto: Path) -> None:
    """Remove a folder and the folders above it while they are empty. A volume's content is never touched."""
    while folder != upto and upto in folder.parents:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return
        folder = folder.parent
