"""Attach limits (KEP-4876): what NodeGetInfo says, and that the driver keeps to it with the one code that means it."""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.csi.errors import Code
from tonnage.driver_check.answers import CallRefused, NodeInfo
from tonnage.driver_check.results import PASSED, CheckVerdict, failed, passed


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
    if first == second:
        return PASSED
    return failed(f"NodeGetInfo said {_told(first)}, then {_told(second)}")


def is_a_total(before: NodeInfo, after: NodeInfo | CallRefused) -> CheckVerdict:
    """A volume was attached in between."""
    if isinstance(after, CallRefused):
        return failed(f"NodeGetInfo was refused: {after}")
    if before.limit == after.limit:
        return PASSED
    return failed(f"max_volumes_per_node went from {before.limit} to {after.limit} when a volume was attached")


def enforced(limit: int, before: int, answers: Sequence[CallRefused | None]) -> CheckVerdict:
    """So many volumes were attached `before`; then one after the other until one was refused, or past the limit."""
    taken = sum(each is None for each in answers)
    last = answers[-1] if answers else None
    if last is None:
        return failed(f"the limit is {limit}, and {before + taken} volumes are attached")
    if last.code is not Code.RESOURCE_EXHAUSTED:
        return failed(f"volume {before + taken + 1}, of {limit} at most, was refused with {last}")
    if before + taken < limit:
        return failed(f"the limit is {limit}, and volume {before + taken + 1} was refused: {last}")
    return passed(f"{limit} were attached, the next refused")


def _told(found: NodeInfo | CallRefused) -> str:
    if isinstance(found, CallRefused):
        return str(found)
    return f"node_id {found.node_id}, {found.limit} volumes, topology {dict(found.topology)}"
