"""GetCapacity as it stands: pools, sums, order, segments."""

from __future__ import annotations

from tonnage.driver_check.answers import Capacity
from tonnage.driver_check.contracts import capacity as contract
from tonnage.driver_check.contracts.volumes import segments_told
from tonnage.driver_check.conversation import Conversation
from tonnage.driver_check.results import Results, skipped

STANDING = (
    "capacity-answers",
    "capacity-pools",
    "capacity-sum",
    "capacity-maximum",
    "capacity-order",
    "capacity-segment",
)
_ASKED_AGAIN = 3
NOT_CLAIMED = "the driver does not claim GET_CAPACITY"


async def check(talk: Conversation, results: Results) -> None:
    if not talk.can.get_capacity:
        results.skip(STANDING, NOT_CLAIMED)
        return
    answers = [(each, await talk.capacity(each)) for each in talk.segments]
    results.tell("capacity-answers", contract.answers([(segments_told(where), found) for where, found in answers]))
    for where, found in answers:
        if isinstance(found, Capacity):
            results.tell("capacity-pools", contract.lists_pools(found))
            results.tell("capacity-sum", contract.sums_up(found))
            results.tell("capacity-maximum", contract.maximum_fits(found))
            for _ in range(_ASKED_AGAIN):
                results.tell("capacity-order", contract.stays_in_order(found, await talk.figures(where)))
    await _check_segments(talk, results)
    results.skip(STANDING, "GetCapacity was refused everywhere")


async def _check_segments(talk: Conversation, results: Results) -> None:
    known = talk.segments[0]
    if not talk.has_topology or not known:
        why = (
            "no segment is known" if talk.has_topology else "the driver does not claim VOLUME_ACCESSIBILITY_CONSTRAINTS"
        )
        results.tell("capacity-segment", skipped(why))
        return
    nowhere = dict.fromkeys(known, f"{talk.settings.prefix}-nowhere")
    results.tell(
        "capacity-segment", contract.knows_its_segments(await talk.figures(known), await talk.capacity(nowhere))
    )
