"""Injected faults: which faults a cluster plays, for how long and where, kept in one small file.

`tonnage fault` writes the file; the driver and the nodes read it when they are called. There is at most one fault of a
kind (`KINDS`) per node, and one for all nodes. Writers take turns; a reader sees the file before or after a change.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tonnage.errors import TonnageError
from tonnage.private_files import NotOurs, open_lock, read_given, write_private

FAULT_FILE_NAME: Final = "faults.json"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: who plays it, what it does, and the meaning of its value (empty: it has none)."""

    played_by: str
    meaning: str
    value: str = ""
    is_whole: bool = False


KINDS: Final[dict[str, Kind]] = {
    "out-of-space": Kind("driver", "volumes are refused as if no pool had room"),
    "out-of-slots": Kind("driver", "no further volume can be attached or staged"),
    "slots-taken": Kind("driver", "this many attach slots are taken by others", value="slots", is_whole=True),
    "slow": Kind("driver", "every call takes this much longer", value="seconds"),
    "stale-figures": Kind("driver", "capacity is reported as it was when the fault began"),
    "dead": Kind("driver", "every call is answered with Unavailable"),
    "node-stopped": Kind("node", "the node does nothing and stops sending heartbeats"),
    "node-slow": Kind("node", "the node waits this long before each step of a pod", value="seconds"),
    "node-removed": Kind("node", "the node and its Node object are removed"),
}


class InvalidFault(TonnageError):
    """A fault that cannot be set as asked, or a file with other content."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. An empty node means every node; `value` is in the kind's unit. Raises InvalidFault."""

    kind: str
    node: str = ""
    value: float = 0.0

    def __post_init__(self) -> None:
        known = kind_of(self.kind)
        if known.value and not (math.isfinite(self.value) and self.value > 0):
            raise InvalidFault(f'the fault "{self.kind}" needs a number of {known.value}, and was given {self.value:g}')
        if known.is_whole and self.value != int(self.value):
            raise InvalidFault(f'the fault "{self.kind}" needs whole {known.value}, and was given {self.value:g}')
        if not known.value and self.value:
            raise InvalidFault(f'the fault "{self.kind}" takes no value, and was given {self.value:g}')


def kind_of(name: str) -> Kind:
    """Raises InvalidFault for an unknown kind."""
    known = KINDS.get(name)
    if known is None:
        raise InvalidFault(f'there is no fault "{name}"', hint=f"the faults are {', '.join(KINDS)}")
    return known


class FaultFile:
    """The current faults of a file. A missing file holds none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._faults: tuple[Fault, ...] = ()

    def all(self) -> tuple[Fault, ...]:
        """Every fault. An unchanged file costs one stat. Raises InvalidFault for a broken file."""
        try:
            found = self.path.stat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen != self._seen:
                self._faults = _read(self.path)
                self._seen = seen
        except FileNotFoundError:
            self._seen, self._faults = None, ()
        except OSError as exc:
            raise InvalidFault(f"{self.path} cannot be read: {exc.strerror}") from exc
        return self._faults

    def active(self, kind: str, node: str = "") -> Fault | None:
        """The fault of this kind for `node`; one that names the node wins over one for all nodes."""
        return active_fault(self.all(), kind, node)

    def put(self, fault: Fault) -> None:
        """Set a fault; it replaces the fault of the same kind and node."""
        same = (fault.kind, fault.node)
        self._change(lambda held: [*(each for each in held if (each.kind, each.node) != same), fault])

    def clear(self, kind: str = "", node: str = "") -> tuple[Fault, ...]:
        """End all faults of this kind and node; empty means any. Returns the ended faults."""
        return self._end(lambda fault: kind in ("", fault.kind) and node in ("", fault.node))

    def end(self, kind: str, node: str) -> tuple[Fault, ...]:
        """End the one fault of exactly this kind and node; an empty node is the fault for all nodes."""
        return self._end(lambda fault: (fault.kind, fault.node) == (kind, node))

    def _end(self, is_meant: Callable[[Fault], bool]) -> tuple[Fault, ...]:
        before = self._change(lambda held: [fault for fault in held if not is_meant(fault)])
        return tuple(fault for fault in before if is_meant(fault))

    def write(self, faults: Iterable[Fault]) -> None:
        self._change(lambda _: list(faults))

    def _change(self, change: Callable[[Iterable[Fault]], list[Fault]]) -> tuple[Fault, ...]:
        """Read, change and write under the lock. Returns the faults before the change. Raises InvalidFault."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _turn(self.path.with_name(f".{self.path.name}.lock")):
                before = self.all()
                changed = [asdict(fault) for fault in change(before)]
                write_private(self.path, json.dumps(changed, indent=1).encode())
                return before
        except OSError as exc:
            raise InvalidFault(f"{self.path} cannot be written: {exc.strerror}") from exc


def active_fault(faults: Iterable[Fault], kind: str, node: str) -> Fault | None:
    """The fault of this kind for `node`; one that names the node wins over one for all nodes."""
    found = [fault for fault in faults if fault.kind == kind and fault.node in ("", node)]
    return max(found, key=lambda fault: bool(fault.node), default=None)


@contextmanager
def _turn(lock: Path) -> Iterator[None]:
    """Hold the writers' lock; the kernel releases it if its holder is killed."""
    held = open_lock(lock)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _read(path: Path) -> tuple[Fault, ...]:
    try:
        entries = json.loads(read_given(path))
        if not isinstance(entries, list):
            raise ValueError("it is no list")
        return tuple(_fault_of(entry) for entry in entries)
    except (ValueError, TypeError) as exc:
        problem = str(exc)
    except NotOurs as exc:
        raise InvalidFault(exc.message, hint=exc.hint) from exc
    except InvalidFault as exc:
        problem = exc.message
    raise InvalidFault(f"{path} holds no list of faults: {problem}", hint="remove it, or use `tonnage fault`")


def _fault_of(entry: Any) -> Fault:
    if not isinstance(entry, dict) or not isinstance(entry.get("node", ""), str):
        raise ValueError("an entry has kind, node and value")
    return Fault(**entry)
