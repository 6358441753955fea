"""Drivers' answers as plain facts, and whether they keep the contracts of CSI, KEP-5925 and KEP-4876. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, code_name
from tonnage.driver_check.results import PASSED, CheckVerdict, failed, passed, skipped
from tonnage.quantity import Quantity

Segments = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CallRefused:
    code: Code
    told: str = ""

    def __str__(self) -> str:
        return f"{code_name(self.code)} ({self.told})" if self.told else code_name(self.code)


@dataclass(frozen=True, slots=True)
class Capacity:
    available: int = 0
    pools: tuple[int, ...] = ()
    maximum: int | None = None

    @classmethod
    def of(cls, answer: csi.GetCapacityResponse) -> Self:
        maximum = answer.maximum_volume_size.value if answer.HasField("maximum_volume_size") else None
        return cls(answer.available_capacity, tuple(answer.available_capacities), maximum)

    def __str__(self) -> str:
        return amounts(self.pools) if self.pools else amount(self.available)

    @property
    def free_bytes(self) -> int:
        return sum(self.pools) if self.pools else self.available

    @property
    def largest_bytes(self) -> int:
        most = max(self.pools) if self.pools else self.available
        return most if self.maximum is None else min(most, self.maximum)


@dataclass(frozen=True, slots=True)
class CheckedVolume:
    volume_id: str
    size_bytes: int
    topology: tuple[Segments, ...] = ()

    @classmethod
    def of(cls, answer: csi.Volume) -> Self:
        topology = tuple(dict(each.segments) for each in answer.accessible_topology)
        return cls(answer.volume_id, answer.capacity_bytes, topology)

    def reaches(self, node: Segments) -> bool:
        """True if it can be used on a node of this topology; without topology it can everywhere."""
        return not self.topology or any(each.items() <= node.items() for each in self.topology)


@dataclass(frozen=True, slots=True)
class NodeInfo:
    node_id: str
    limit: int
    topology: Segments

    @classmethod
    def of(cls, answer: csi.NodeGetInfoResponse) -> Self:
        return cls(answer.node_id, answer.max_volumes_per_node, dict(answer.accessible_topology.segments))

    def __str__(self) -> str:
        return f"node_id {self.node_id}, {self.limit} volumes, topology {dict(self.topology)}"


def amount(number: int) -> str:
    return str(Quantity.from_bytes(number)) if number >= 0 else str(number)


def amounts(numbers: Sequence[int]) -> str:
    return ", ".join(map(amount, numbers)) or "none"


def kept(holds: bool, otherwise: str) -> CheckVerdict:
    return PASSED if holds else failed(otherwise)


def answers(found: Sequence[tuple[str, Capacity | CallRefused]]) -> CheckVerdict:
    """Judge the figures of all segments; `found` has (segment as text, answer)."""
    for where, each in found:
        if isinstance(each, CallRefused):
            return failed(f"GetCapacity for {where} was refused: {each}")
        figures = [each.available, *each.pools, *([] if each.maximum is None else [each.maximum])]
        if min(figures) < 0:
            return failed(f"GetCapacity for {where} has a figure below 0: {amounts(figures)}")
    return passed(f"{len(found)} segment(s)") if found else skipped("no segment is known: give --topology")


def lists_pools(found: Capacity) -> CheckVerdict:
    if found.pools:
        return passed(f"pools {amounts(found.pools)}")
    return skipped("available_capacities is empty: schedulers see one number for each segment")


def sums_up(found: Capacity) -> CheckVerdict:
    if not found.pools:
        return skipped("no pools are listed")
    return kept(
        sum(found.pools) == found.available,
        f"the pools {amounts(found.pools)} are {amount(sum(found.pools))} together, "
        f"and available_capacity is {amount(found.available)}",
    )


def maximum_fits(found: Capacity) -> CheckVerdict:
    if found.maximum is None:
        return skipped("maximum_volume_size is not reported")
    most, what = (max(found.pools), "the largest pool") if found.pools else (found.available, "available_capacity")
    return kept(found.maximum <= most, f"maximum_volume_size is {amount(found.maximum)}, and {what} is {amount(most)}")


def stays_in_order(first: Capacity, second: Capacity) -> CheckVerdict:
    if sorted(first.pools) == sorted(second.pools) and first.pools != second.pools:
        return failed(f"the pools came in another order: {amounts(first.pools)}, then {amounts(second.pools)}")
    return kept(
        first == second,
        f"with nothing done in between, the figures went from {first} to {second}; "
        "if something else creates volumes, check when nothing does",
    )


def knows_its_segments(everywhere: Capacity, nowhere: Capacity | CallRefused) -> CheckVerdict:
    """`nowhere` is the answer for a segment that does not exist."""
    if isinstance(nowhere, CallRefused) or nowhere.free_bytes <= 0:
        return PASSED
    if everywhere.free_bytes <= 0:
        return skipped("there is no capacity anywhere")
    return failed(f"a segment that does not exist has {nowhere}")


def shrank(before: Capacity, after: Capacity, size_bytes: int) -> CheckVerdict:
    """Judge the figures before and after a volume of this size was created."""
    if not before.pools or not after.pools:
        less = before.available - after.available
        if less >= size_bytes:
            return passed("by available_capacity; no pools are listed")
        return failed(
            f"a volume of {amount(size_bytes)} was made, and available_capacity went from "
            f"{amount(before.available)} to {amount(after.available)}"
        )
    told = f"a volume of {amount(size_bytes)} was made: {before} became {after}"
    if len(before.pools) != len(after.pools):
        return failed(f"{told}, which is another number of pools")
    # A driver may sort its pools by size: then the changed pool is elsewhere in the list.
    was, now = Counter(before.pools) - Counter(after.pools), Counter(after.pools) - Counter(before.pools)
    if not was:
        return failed(f"{told}, and no pool has less")
    if was.total() > 1:
        return failed(f"{told}: {was.total()} pools changed, and a volume is in one")
    less = sum(was) - sum(now)
    return kept(less >= size_bytes, f"{told}: its pool has {amount(less)} less")


def came_back(before: Capacity, after: Capacity) -> CheckVerdict:
    """Judge the figures before a volume was created and after it was deleted."""
    is_as_before = (sorted(before.pools), before.available) == (sorted(after.pools), after.available)
    return kept(is_as_before, f"before the volume was made: {before}; after it was deleted: {after}")


def is_true(largest_bytes: int, made: int | CallRefused) -> CheckVerdict:
    """A volume of the largest pool's size was requested; `made` is the result."""
    told = f"a volume of {amount(largest_bytes)}, as large as the figures say, was refused: {made}"
    return kept(not isinstance(made, CallRefused), told)


def moved(
    old: tuple[Capacity, Capacity], new: tuple[Capacity, Capacity], size_bytes: int, *, is_one_place: bool
) -> CheckVerdict:
    """A volume went from one segment to another: figures (before, after) of both."""
    if is_one_place:
        return skipped("both nodes draw from the same storage")
    if old[1].free_bytes < old[0].free_bytes + size_bytes:
        return failed(f"the old node has {old[1]} free, after {old[0]}: the volume still counts there")
    is_counted = new[1].free_bytes <= new[0].free_bytes - size_bytes
    return kept(is_counted, f"the new node has {new[1]} free, after {new[0]}: the volume does not count there")


NO_ROOM = (Code.RESOURCE_EXHAUSTED, Code.OUT_OF_RANGE)
"""CreateVolume's codes for lack of capacity: the provisioner gives the node back to the scheduler."""


def same_again(first: CheckedVolume, second: CheckedVolume | CallRefused) -> CheckVerdict:
    if isinstance(second, CallRefused):
        return failed(f"asked again for the same volume, the driver refused: {second}")
    told = f'the second answer is another volume: "{first.volume_id}", then "{second.volume_id}"'
    return kept(first.volume_id == second.volume_id, told)


def incompatible(answer: CheckedVolume | CallRefused, asked_bytes: int) -> CheckVerdict:
    if isinstance(answer, CheckedVolume):
        return failed(f"a volume of that name but another size was returned for {amount(asked_bytes)}")
    if answer.code in NO_ROOM:
        return passed(f"refused for want of room first: {answer}")
    return kept(answer.code is Code.ALREADY_EXISTS, f"refused with {answer}, not with AlreadyExists")


def large_enough(found: CheckedVolume, asked_bytes: int) -> CheckVerdict:
    if found.size_bytes >= asked_bytes:
        return PASSED
    if not found.size_bytes:
        return skipped("the driver does not say how large the volume is (capacity_bytes is 0)")
    return failed(f"{amount(asked_bytes)} were required, and {amount(found.size_bytes)} made")


def in_its_place(found: CheckedVolume, asked: Segments, *, has_topology: bool) -> CheckVerdict:
    if not has_topology:
        return skipped("the driver does not claim VOLUME_ACCESSIBILITY_CONSTRAINTS")
    if not asked:
        return skipped("no segment is known: give --topology")
    if not found.topology:
        return failed("accessible_topology is empty, so that the volume seems to be reachable from everywhere")
    told = f"asked for {segments_told(asked)}, it can be reached from {topology_told(found)}"
    return kept(found.reaches(asked), told)


def too_large(answer: CheckedVolume | CallRefused, asked_bytes: int) -> CheckVerdict:
    if isinstance(answer, CheckedVolume):
        return failed(f"a volume of {amount(asked_bytes)} was made, more than any pool is said to have")
    if answer.code in NO_ROOM:
        return passed(f"refused: {answer}")
    return failed(f"a volume of {amount(asked_bytes)}, more than any pool has, was refused with {answer}")


def undone(*answers: CallRefused | None) -> CheckVerdict:
    """Judge calls for something already done or not there; None is OK."""
    refused = next((answer for answer in answers if answer is not None), None)
    return kept(refused is None, f"refused: {refused}")


def unknown_refused(what: str, answer: CallRefused | None) -> CheckVerdict:
    if answer is None:
        return failed(f"{what} was published")
    return kept(answer.code is Code.NOT_FOUND, f"{what} was refused with {answer}, not with NotFound")


def segments_told(found: Segments) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(found.items())) or "everywhere"


def topology_told(found: CheckedVolume) -> str:
    return " or ".join(segments_told(each) for each in found.topology) or "everywhere"


def sane(found: NodeInfo | CallRefused, *, has_topology: bool) -> CheckVerdict:
    if isinstance(found, CallRefused):
        return failed(f"NodeGetInfo was refused: {found}")
    if not found.node_id:
        return failed("NodeGetInfo has no node_id")
    if found.limit < 0:
        return failed(f"max_volumes_per_node is {found.limit}")
    if has_topology and not found.topology:
        return failed("the driver claims VOLUME_ACCESSIBILITY_CONSTRAINTS, and NodeGetInfo has no accessible_topology")
    return passed(f"{found.limit} volumes" if found.limit else "no limit")


def stable(first: NodeInfo, second: NodeInfo | CallRefused) -> CheckVerdict:
    return kept(first == second, f"NodeGetInfo said {first}, then {second}")


def is_a_total(before: NodeInfo, after: NodeInfo | CallRefused) -> CheckVerdict:
    """Judge the limit before and after a volume was attached."""
    if isinstance(after, CallRefused):
        return failed(f"NodeGetInfo was refused: {after}")
    told = f"max_volumes_per_node went from {before.limit} to {after.limit} when a volume was attached"
    return kept(before.limit == after.limit, told)


def enforced(limit: int, before: int, answers: Sequence[CallRefused | None]) -> CheckVerdict:
    """Judge the attaching of volumes to a node that had `before`, one by one until a refusal or past the limit."""
    taken = sum(answer is None for answer in answers)
    last = answers[-1] if answers else None
    if last is None:
        return failed(f"the limit is {limit}, and {before + taken} volumes are attached")
    if last.code is not Code.RESOURCE_EXHAUSTED:
        return failed(f"volume {before + taken + 1}, of {limit} at most, was refused with {last}")
    if before + taken < limit:
        return failed(f"the limit is {limit}, and volume {before + taken + 1} was refused: {last}")
    return passed(f"{limit} were attached, the next refused")


def refused_rightly(answer: CallRefused | None) -> CheckVerdict:
    """A volume was published on a node that its topology does not admit."""
    if answer is None:
        return passed("it was brought there")
    if answer.code is Code.RESOURCE_EXHAUSTED:
        return failed(f"refused with {answer}, which a kubelet takes for attach slots that are missing")
    return passed(f"refused: {answer}")


def moves(answer: CallRefused | None, *, is_out_of_use: bool) -> CheckVerdict:
    """`is_out_of_use`: the volume's node is cordoned or gone."""
    if answer is None:
        return PASSED
    if is_out_of_use:
        return failed(f"its node is out of use, and publishing it elsewhere was refused: {answer}")
    told = "if the driver rebuilds volumes of nodes out of use, cordon one and give --cordoned-node"
    return skipped(f"it was not moved ({answer}); {told}")


def is_there(found: CheckedVolume | CallRefused | None, node: Segments) -> CheckVerdict:
    """Judge the driver's data on a volume that was published on a node of this topology."""
    if found is None:
        return skipped("the driver claims neither GET_VOLUME nor LIST_VOLUMES")
    if isinstance(found, CallRefused):
        return failed(f"the volume cannot be looked up: {found}")
    if not node:
        return skipped("the new node has no topology")
    if not found.topology:
        return skipped("the driver reports no accessible_topology for its volumes")
    told = f"published on {segments_told(node)}, it is said to be reachable from {topology_told(found)}"
    return kept(found.reaches(node), told)


def kept_contents(written: bytes, read: bytes | str) -> CheckVerdict:
    """Compare the bytes written on the old node with those read on the new one; a text is why reading failed."""
    if isinstance(read, str):
        return failed(f"what was written on the old node cannot be read on the new one: {read}")
    return kept(written == read, "the contents differ from those written on the old node")


def refused_without_room(answer: CallRefused | None) -> CheckVerdict:
    """A volume was published on a node with no free capacity."""
    return failed("it was published on a node without room for it") if answer is None else refused_rightly(answer)
