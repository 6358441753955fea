"""CreateVolume, DeleteVolume and publishing: idempotency, sizes, places, and the codes that callers go by."""

from __future__ import annotations

from tonnage.csi.errors import Code
from tonnage.driver_check.answers import CallRefused, CheckedVolume, Segments
from tonnage.driver_check.contracts.capacity import amount
from tonnage.driver_check.results import PASSED, CheckVerdict, failed, passed, skipped

NO_ROOM = (Code.RESOURCE_EXHAUSTED, Code.OUT_OF_RANGE)
"""What CreateVolume says for want of room: the provisioner gives the node back to the scheduler."""


def same_again(first: CheckedVolume, second: CheckedVolume | CallRefused) -> CheckVerdict:
    if isinstance(second, CallRefused):
        return failed(f"asked again for the same volume, the driver refused: {second}")
    if first.volume_id != second.volume_id:
        return failed(f'the second answer is another volume: "{first.volume_id}", then "{second.volume_id}"')
    return PASSED


def incompatible(answer: CheckedVolume | CallRefused, asked_bytes: int) -> CheckVerdict:
    if isinstance(answer, CheckedVolume):
        return failed(f"a volume of the name and another size was given for {amount(asked_bytes)}")
    if answer.code is Code.ALREADY_EXISTS:
        return PASSED
    if answer.code in NO_ROOM:
        return passed(f"refused for want of room first: {answer}")
    return failed(f"refused with {answer}, not with AlreadyExists")


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
        return skipped("no segment is known: say --topology")
    if not found.topology:
        return failed("accessible_topology is empty, so that the volume seems to be reachable from everywhere")
    if found.reaches(asked):
        return PASSED
    return failed(f"asked for {segments_told(asked)}, it can be reached from {topology_told(found)}")


def too_large(answer: CheckedVolume | CallRefused, asked_bytes: int) -> CheckVerdict:
    if isinstance(answer, CheckedVolume):
        return failed(f"a volume of {amount(asked_bytes)} was made, more than any pool is said to have")
    if answer.code in NO_ROOM:
        return passed(f"refused: {answer}")
    return failed(f"a volume of {amount(asked_bytes)}, more than any pool has, was refused with {answer}")


def undone(*answers: CallRefused | None) -> CheckVerdict:
    """Each of them asked for what was done already, or for something that is not there; None is OK."""
    for each in answers:
        if each is not None:
            return failed(f"refused: {each}")
    return PASSED


def unknown_refused(what: str, answer: CallRefused | None) -> CheckVerdict:
    if answer is None:
        return failed(f"{what} was published")
    if answer.code is Code.NOT_FOUND:
        return PASSED
    return failed(f"{what} was refused with {answer}, not with NotFound")


def segments_told(found: Segments) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(found.items())) or "everywhere"


def topology_told(found: CheckedVolume) -> str:
    return " or ".join(segments_told(each) for each in found.topology) or "everywhere"
