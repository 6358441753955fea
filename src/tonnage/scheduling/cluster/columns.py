"""Columns: one array per fact, one entry per node, so that a question is answered for all nodes at once.

`LabelColumn` interns the values of one label key to small integers; 0 means that the node lacks the label. A
requirement is answered once per distinct value, then looked up for every node. `Interner` does the same for any value.
Unused numbers are given out again, so numbers are valid only until the cluster changes. `Changes` says which rows
changed since a tick: so a decision knows what it may reuse. `Images` and `HostPorts` are facts of few rows, kept by
name.

A `Judgement` is a filter's answer by row: the bits of an integer say which reasons apply to a node. There are 63;
further reasons share one name, so that a node is never admitted because its reason had no bit.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import ContainerImage, Pod
from tonnage.objects.requirements import InvalidSelector, Requirement

Ids = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Rows = slice | npt.NDArray[np.intp]
"""The nodes in question: a slice with both ends, or an array of row numbers."""

MOST = (1 << 63) - 1
"""The largest number in a column. Sums stop there; an overflow would make the fullest node the emptiest."""
LARGE = 1 << 55
"""Two amounts below this (32 PiB) can be added, and the sum multiplied by 100, within 64 bits."""

T = TypeVar("T", bound=Hashable)
Scalar = TypeVar("Scalar", bound=np.generic)


def grown(array: npt.NDArray[Scalar], capacity: int) -> npt.NDArray[Scalar]:
    """The array with `capacity` rows in its last axis; new rows are zero."""
    wider = np.zeros((*array.shape[:-1], capacity), dtype=array.dtype)
    wider[..., : array.shape[-1]] = array
    return wider


def count(mask: Mask | Ints) -> int:
    """How many are True, or not 0. For a single row, which most questions are about, any() and all() of an array take
    five times as long."""
    return int(np.count_nonzero(mask))


def row_numbers(rows: Rows) -> npt.NDArray[np.intp]:
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows


def row_count(rows: Rows) -> int:
    return int(rows.stop - rows.start) if isinstance(rows, slice) else len(rows)


def only_row(rows: Rows) -> int:
    """The row number if there is exactly one row, else -1."""
    if isinstance(rows, slice):
        return int(rows.start) if rows.stop - rows.start == 1 else -1
    return int(rows[0]) if len(rows) == 1 else -1


def among(members: Collection[int], rows: Rows, size: int) -> Mask:
    """A mask over `rows`: True where the row is one of `members`, which are row numbers below `size`."""
    found = np.zeros(size, dtype=np.bool_)
    found[list(members)] = True
    return found[rows]


class Interner(Generic[T]):
    """Maps values to small integers. A value keeps its number while it is held; then another value may get it."""

    def __init__(self) -> None:
        self._ids: dict[T, int] = {}
        self._holders: list[int] = []
        self._free: list[int] = []
        self.things: list[T] = []
        """By number. An unused number keeps its last value until it is given out again."""

    def __len__(self) -> int:
        return len(self.things)

    @property
    def held(self) -> int:
        """How many values have a number now."""
        return len(self._ids)

    def find(self, thing: T) -> int | None:
        return self._ids.get(thing)

    def id_of(self, thing: T) -> int:
        """The number of a value; a new value is held for ever."""
        found = self._ids.get(thing)
        return self.hold(thing) if found is None else found

    def hold(self, thing: T) -> int:
        """The number of a value, valid until it is released as often as it was held."""
        found = self._ids.get(thing)
        if found is not None:
            self._holders[found] += 1
            return found
        if self._free:
            found = self._free.pop()
            self.things[found], self._holders[found] = thing, 1
        else:
            found = len(self.things)
            self.things.append(thing)
            self._holders.append(1)
        self._ids[thing] = found
        return found

    def release(self, number: int) -> None:
        self._holders[number] -= 1
        if not self._holders[number]:
            del self._ids[self.things[number]]
            self._free.append(number)


class LabelColumn:
    """The values of one label key over all nodes."""

    def __init__(self, capacity: int) -> None:
        self.ids: Ids = np.zeros(capacity, dtype=np.int32)
        self._values: Interner[str | None] = Interner()
        self._values.id_of(None)  # id 0 is absence; the empty value is a value
        self.texts = self._values.things

    @property
    def is_empty(self) -> bool:
        """True if no node has the label."""
        return self._values.held == 1

    def id_of(self, value: str) -> int:
        """The id of a value; 0 if no node has it."""
        return self._values.find(value) or 0

    def set(self, row: int, value: str | None) -> None:
        before = int(self.ids[row])
        self.ids[row] = self._values.hold(value) if value is not None else 0
        if before:
            self._values.release(before)

    def table(self, requirement: Requirement) -> Mask:
        """By id, whether its value meets the requirement; all False for an invalid requirement."""
        size = len(self.texts)
        try:
            for_none = requirement.holds(None)
        except InvalidSelector:
            return np.zeros(size, dtype=np.bool_)
        match requirement.operator:
            case "In" | "NotIn":  # the values name few of many ids: no need to ask about each
                answer = np.full(size, requirement.operator == "NotIn")
                answer[[self.id_of(value) for value in requirement.values]] = requirement.operator == "In"
            case _:
                answer = np.fromiter(map(requirement.holds, self.texts), np.bool_, size)
        answer[0] = for_none
        return answer


class LabelColumns:
    """All label keys of nodes. A key has a column while any node has it."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._columns: dict[str, LabelColumn] = {}
        self.tick = 0
        """Increases when the labels of a row change."""

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for column in self._columns.values():
            column.ids = grown(column.ids, capacity)

    def get(self, key: str) -> LabelColumn | None:
        return self._columns.get(key)

    def column(self, key: str) -> LabelColumn:
        """The column of a key; if there is none, a new one in which no node has the label."""
        label_column = self._columns.get(key)
        if label_column is None:
            label_column = self._columns[key] = LabelColumn(self._capacity)
        return label_column

    def replace(self, row: int, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """Write a row's labels, only the keys that changed. Returns True if any did."""
        if before == after:
            return False
        self.tick += 1
        for key in before.keys() - after.keys():
            column = self._columns[key]
            column.set(row, None)
            if column.is_empty:
                del self._columns[key]
        for key, value in after.items():
            if before.get(key) != value:
                self.column(key).set(row, value)
        return True

    def meets(self, requirement: Requirement, rows: Rows) -> Mask:
        """A mask over `rows`: True where the labels meet the requirement."""
        column = self._columns.get(requirement.key)
        if column is None:  # no node has the label: one answer for all
            return np.full(row_count(rows), LabelColumn(0).table(requirement)[0])
        if requirement.operator == "In" and len(requirement.values) == 1:
            wanted = column.id_of(requirement.values[0])
            return (column.ids[rows] == wanted) if wanted else np.zeros(row_count(rows), dtype=np.bool_)
        found: Mask = column.table(requirement)[column.ids[rows]]
        return found


_ASK_ALL_FROM = 0.2
"""If a larger share of rows changed, asking about all rows at once is cheaper."""


class Changes:
    """The changes of rows, in order."""

    def __init__(self, capacity: int) -> None:
        self.tick = 0
        """The number of changes."""
        self.version: Ints = np.zeros(capacity, dtype=np.int64)
        """By row, the tick of its last change."""
        self._log: list[int] = []  # rows; the last entry belongs to `tick`

    def grow(self, capacity: int) -> None:
        self.version = grown(self.version, capacity)

    def note(self, row: int) -> None:
        self.tick += 1
        self.version[row] = self.tick
        self._log.append(row)
        if len(self._log) > 2 * len(self.version):
            del self._log[: len(self.version)]

    def note_many(self, rows: npt.NDArray[np.intp]) -> None:
        self.tick += len(rows)
        self.version[rows] = self.tick
        self._log.extend(rows.tolist())
        if len(self._log) > 2 * len(self.version):
            del self._log[: -len(self.version)]

    def since(self, tick: int, size: int) -> Rows:
        """The rows below `size` that changed after a tick; all rows if many did."""
        missed = self.tick - tick
        if missed == 0:
            return slice(0, 0)
        if missed > len(self._log):
            found = np.flatnonzero(self.version[:size] > tick).tolist()
        else:
            found = sorted(set(self._log[-missed:]))
        if len(found) == 1:  # by far the most common: the row of the last pod, its holds, its capacity object
            return slice(found[0], found[0] + 1)
        return np.array(found, dtype=np.intp) if len(found) <= _ASK_ALL_FROM * size else slice(0, size)


def canonical(name: str) -> str:
    """The name under which images are listed; a colon before the last slash is a port, not a tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


class Images:
    """Images by canonical name. `tick` increases when an answer of `where` may change."""

    def __init__(self) -> None:
        self._holders: Shelf[str, int, int] = Shelf()
        self.tick = 0

    def replace(self, row: int, before: tuple[ContainerImage, ...], after: tuple[ContainerImage, ...]) -> bool:
        """Write a node's images. Returns True if anything changed."""
        old, new = _sizes(before), _sizes(after)
        if old == new:
            return False
        for name in old.keys() - new.keys():
            self._holders.take(name, row)
        for name, size in new.items():
            self._holders.put(name, row, size)
        self.tick += 1
        return True

    def where(self, name: str) -> Mapping[int, int]:
        """By row with the image of this canonical name, its size there."""
        return self._holders.at(name)


def _sizes(images: Iterable[ContainerImage]) -> dict[str, int]:
    return {canonical(name): image.size_bytes for image in images for name in image.names}


HostPort = tuple[str, str, int]
"""(protocol, address, port); the address "0.0.0.0" means all addresses."""

ANY_ADDRESS = "0.0.0.0"


def host_ports_of(pod: Pod) -> tuple[HostPort, ...]:
    """The host ports that a pod takes on its node: of containers and sidecars, not of other init containers."""
    spec = pod.spec
    sidecars = [container for container in spec.init_containers if container.is_sidecar] if spec.init_containers else ()
    ports = [port for container in (*spec.containers, *sidecars) for port in container.ports if port.host_port > 0]
    return tuple([(port.protocol or "TCP", port.host_ip or ANY_ADDRESS, port.host_port) for port in ports])


class HostPorts:
    """(protocol, port) -> address -> row -> number of pods."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, int], Shelf[str, int, int]] = {}

    def add(self, ports: Iterable[HostPort], row: int, pods: int = 1) -> None:
        """Count pods with these ports; `pods` is negative for pods that go."""
        for protocol, address, port in ports:
            by_address = self._taken.setdefault((protocol, port), Shelf())
            left = by_address.at(address).get(row, 0) + pods
            if left:
                by_address.put(address, row, left)
                continue
            by_address.take(address, row)
            if not len(by_address):
                del self._taken[protocol, port]

    def is_in_conflict(self, ports: Iterable[HostPort], row: int) -> bool:
        """True if any of these ports is taken on the row."""
        return any(row in rows for port in ports for rows in self._rows_with(port))

    def rows_in_conflict(self, ports: Iterable[HostPort]) -> set[int]:
        """The rows where any of these ports is taken. "All addresses" conflicts with every address."""
        found: set[int] = set()
        for port in ports:
            for rows in self._rows_with(port):
                found.update(rows)
        return found

    def _rows_with(self, wanted: HostPort) -> Iterator[Mapping[int, int]]:
        """The rows of each conflicting address; looked up, because a pod may name thousands of addresses."""
        protocol, address, port = wanted
        by_address = self._taken.get((protocol, port))
        if by_address is not None:
            yield from map(by_address.at, by_address if address == ANY_ADDRESS else (address, ANY_ADDRESS))


Bits = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A filter's answer for the rows it was asked about. Bit i of `bits[k]` is set if `reasons[i]` applies to row k; 0
    lets the row pass. `unresolvable`: the refused rows for which preemption cannot help: all, none, or a mask."""

    bits: Bits
    reasons: tuple[str, ...]
    unresolvable: bool | Mask = True


def refuse(refused: Mask, reason: str, *, unresolvable: bool) -> Judgement:
    """The most common answer: one reason, and the rows it applies to."""
    return Judgement(refused.astype(np.int64), (reason,), unresolvable)


MAX_REASONS = 63
"""The most reasons of a judgement: they are the bits of an integer."""
SEARCH_ENDED = "node(s) may have enough free storage, but the search for it ended at its limit of steps"
"""Not a final refusal: the pod is tried again, and the search continues."""

OTHER_REASONS = "node(s) were refused for other reasons"
"""Stands for all reasons without a bit."""


def with_reasons(known: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    """Reasons with more appended, without duplicates. `OTHER_REASONS` stands for those that do not fit."""
    found = dict.fromkeys(known)
    for reason in more:
        if reason not in found:
            found[reason if len(found) < MAX_REASONS - 1 else OTHER_REASONS] = None
    return tuple(found)


def reason_place(reasons: tuple[str, ...], reason: str) -> int:
    """The bit of a reason."""
    return reasons.index(reason if reason in reasons else OTHER_REASONS)
