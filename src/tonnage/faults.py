"""Faults on request: what is made to go wrong in a cluster, for how long and where, kept in one small file.

    faults = FaultFile(folder / "faults.json")
    fault = faults.active("out-of-space", "node-1")        # None, or what was asked for

Whoever wants a fault writes the file (`tonnage fault`); the driver and the nodes look at it when they are asked to do
something. So a fault survives the death of the program that plays it, and needs no door of its own to come in by.
`KINDS` is the table of what there is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tonnage.errors import TonnageError


@dataclass(frozen=True, slots=True)
class Kind:
    """One thing that can go wrong: who plays it, what it does, and what its value means (empty: it takes none)."""

    played_by: str
    meaning: str
    value: str = ""


KINDS: Final[dict[str, Kind]] = {
    "out-of-space": Kind("driver", "volumes are refused as if no pool had room, whatever the figures say"),
    "out-of-slots": Kind("driver", "no further volume can be attached or staged, whatever the limit says"),
    "slots-taken": Kind("driver", "this many attach slots are taken by others", value="slots"),
    "slow": Kind("driver", "every call takes this much longer", value="seconds"),
    "stale-figures": Kind("driver", "capacity is answered as it was when the fault began"),
    "dead": Kind("driver", "every call is answered with Unavailable"),
    "node-stopped": Kind("node", "the node does nothing and no longer says that it lives"),
    "node-slow": Kind("node", "the node waits this long before each step of a pod", value="seconds"),
    "node-removed": Kind("node", "the node goes away, and its Node object with it"),
}


class InvalidFault(TonnageError):
    """A fault that cannot be had as asked."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. An empty node is every node; `value` is in the kind's unit."""

    kind: str
    node: str = ""
    value: float = 0.0

    def __post_init__(self) -> None:
        known = KINDS.get(self.kind)
        if known is None:
            raise InvalidFault(f'there is no fault "{self.kind}"', hint=f"there are {', '.join(KINDS)}")
        if known.value and self.value <= 0:
            raise InvalidFault(f'the fault "{self.kind}" needs a number of {known.value}, and was given {self.value:g}')
        if not known.value and self.value:
            raise InvalidFault(f'the fault "{self.kind}" takes no value, and was given {self.value:g}')


class FaultFile:
    """The faults of a file, as it is at this moment. A file that is not there holds none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._faults: tuple[Fault, ...] = ()

    def all(self) -> tuple[Fault, ...]:
        """Every fault. Reading costs one stat while nothing changes. Raises InvalidFault for a broken file."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._seen, self._faults = None, ()
            return ()
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        if seen != self._seen:
            self._faults = _read(self.path)
            self._seen = seen
        return self._faults

    def active(self, kind: str, node: str = "") -> Fault | None:
        """The fault of this kind that concerns `node`; one that names it comes before one for all."""
        found = [fault for fault in self.all() if fault.kind == kind and fault.node in ("", node)]
        return max(found, key=lambda fault: bool(fault.node), default=None)

    def write(self, faults: Iterable[Fault]) -> None:
        """Make these the faults, all at once: a reader sees the old file or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        aside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump([asdict(fault) for fault in faults], file, indent=1)
        aside.replace(self.path)


def _read(path: Path) -> tuple[Fault, ...]:
    try:
        return tuple(Fault(**entry) for entry in json.loads(path.read_text()))
    except (ValueError, TypeError) as exc:
        raise InvalidFault(f"{path} holds no list of faults: {exc}", hint="remove it, or use `tonnage fault`") from exc
