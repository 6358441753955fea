"""The small file beside each mount: what is mounted there, for whoever comes after us.

A record is written before the driver is asked to mount and removed after it has unmounted, both to disk for good. So
after `kill -9` everything that may be mounted has a record; what has one is mounted, or can be unmounted once more,
since every CSI call may be repeated. Keys are those of a kubelet's vol_data.json.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from tonnage import logs
from tonnage.errors import TonnageError
from tonnage.node.mounts.mount_paths import MountPaths, MountRecord
from tonnage.private_files import own_folder, read_own, write_private

_log = logs.logger(__name__)


def save(path: Path, record: MountRecord, *, node: str, attachment: str) -> None:
    """Write a record, all at once; nothing when it is there already."""
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
        if read_own(path) == text.encode():
            return
    own_folder(path.parent, mode=0o750)
    write_private(path, text.encode())


def load(path: Path) -> MountRecord | None:
    """A record; None for a file that is none, which is logged and left alone."""
    try:
        said = json.loads(read_own(path))
        return MountRecord(
            driver=said["driverName"],
            handle=said["volumeHandle"],
            name=said["specVolID"],
            pod_uid=said.get("podUID", ""),
            is_block=said.get("volumeMode") == "Block",
            is_attachable=said.get("attachRequired") != "false",
            is_inline=said.get("volumeLifecycleMode") == "Ephemeral",
        )
    except (TonnageError, OSError, ValueError, KeyError, TypeError) as exc:
        _log.warning("A record of a mount cannot be read", path=str(path), error=str(exc))
        return None


def scan(paths: MountPaths) -> list[MountRecord]:
    """Every record below a node's root, in the order of their paths."""
    found = sorted(path for pattern in paths.record_patterns() for path in paths.root.glob(pattern))
    return [record for path in found if (record := load(path)) is not None]


def sweep(paths: MountPaths) -> None:
    """Take away what a process left that was killed while it wrote or removed a record."""
    for pattern in paths.leftover_patterns():
        for path in sorted(paths.root.glob(pattern)):
            if path.is_dir() and not path.is_symlink():
                remove_empty(path, upto=paths.root)
            elif path.name.startswith("."):
                remove(path, upto=paths.root)


def remove(path: Path, *, upto: Path) -> None:
    """Remove a record, then the folders above it that are empty, below `upto`. Never anything with content in it."""
    path.unlink(missing_ok=True)
    remove_empty(path.parent, upto=upto)


def remove_empty(folder: Path, *, upto: Path) -> None:
    """Remove a folder and those above it while they are empty. A volume's content is never touched."""
    while folder != upto and upto in folder.parents:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return
        folder = folder.parent
