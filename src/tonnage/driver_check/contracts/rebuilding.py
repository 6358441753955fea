"""Rebuilding (KEP-5925): a volume follows its pod to another node when its own is cordoned or gone."""

from __future__ import annotations

from tonnage.csi.errors import Code
from tonnage.driver_check.answers import CallRefused, CheckedVolume, Segments
from tonnage.driver_check.contracts.volumes import segments_told, topology_told
from tonnage.driver_check.results import PASSED, CheckVerdict, failed, passed, skipped


def refused_rightly(answer: CallRefused | None) -> CheckVerdict:
    """A volume was published on a node that its topology does not admit."""
    if answer is None:
        return passed("it was brought there")
    if answer.code is Code.RESOURCE_EXHAUSTED:
        return failed(f"refused with {answer}, which a kubelet takes for attach slots that are missing")
    return passed(f"refused: {answer}")


def moves(answer: CallRefused | None, *, is_out_of_use: bool) -> CheckVerdict:
    """`is_out_of_use`: the volume's node is said to be cordoned or gone."""
    if answer is None:
        return PASSED
    if is_out_of_use:
        return failed(f"its node is out of use, and publishing it elsewhere was refused: {answer}")
    told = "if the driver rebuilds volumes of nodes out of use, cordon one and say --cordoned-node"
    return skipped(f"it was not moved ({answer}); {told}")


def is_there(found: CheckedVolume | CallRefused | None, node: Segments) -> CheckVerdict:
    """What the driver tells of the volume after it was published on a node of this topology."""
    if found is None:
        return skipped("the driver claims neither GET_VOLUME nor LIST_VOLUMES")
    if isinstance(found, CallRefused):
        return failed(f"the volume cannot be looked up: {found}")
    if not node:
        return skipped("the new node has no topology")
    if not found.topology:
        return skipped("the driver tells no accessible_topology of its volumes")
    if found.reaches(node):
        return PASSED
    return failed(f"published on {segments_told(node)}, it is said to be reachable from {topology_told(found)}")


def kept_contents(written: bytes, read: bytes | str) -> CheckVerdict:
    """Bytes that were written on the old node, and what was read on the new one, or why nothing could be."""
    if isinstance(read, str):
        return failed(f"what was written on the old node cannot be read on the new one: {read}")
    return PASSED if written == read else failed("the contents are others than were written on the old node")


def refused_without_room(answer: CallRefused | None) -> CheckVerdict:
    """Nothing was free on the node that it was published on."""
    if answer is None:
        return failed("it was published on a node without room for it")
    if answer.code is Code.RESOURCE_EXHAUSTED:
        return failed(f"refused with {answer}, which a kubelet takes for attach slots that are missing")
    return passed(f"refused: {answer}")
