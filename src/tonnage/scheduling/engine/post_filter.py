"""PostFilter: when nothing fits, plugins may know how to make room. Who is asked, and what is made of their answers.

They are asked in order. The first that makes room is taken at its word, one that says nothing can help ends the matter,
and what the others say is told together. A plugin that breaks makes no room, and a nomination stays as it is. Mirrors
RunPostFilterPlugins.
"""

from __future__ import annotations

from tonnage.scheduling.decision.diagnosis import Diagnosis
from tonnage.scheduling.decision.explain import PreemptionAnswer
from tonnage.scheduling.engine.attempt import PostFilterOutcome, broken
from tonnage.scheduling.engine.profiles import Assembled
from tonnage.scheduling.framework import Code, Cycle, PostFilterPlugin, PostFilterResult, Status, unschedulable


def run_post_filter(profile: Assembled, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterOutcome:
    """Ask the PostFilter plugins of a profile. Does not raise."""
    if not profile.post_filter or not cycle.cluster.count:
        return PostFilterOutcome(PostFilterResult(unschedulable(), withdraws_nomination=True))
    reasons: list[str] = []
    withdraws = False
    for plugin in profile.post_filter:
        found = _asked(plugin, cycle, diagnosis)
        if found.status.is_success:
            return PostFilterOutcome(found, plugin)
        if found.status.code is not Code.UNSCHEDULABLE:
            return PostFilterOutcome(found)
        reasons += found.status.reasons
        withdraws = withdraws or found.withdraws_nomination
    return PostFilterOutcome(PostFilterResult(unschedulable(*reasons), withdraws_nomination=withdraws))


def preemption_answer(outcome: PostFilterOutcome) -> PreemptionAnswer | None:
    """For `explain`: who would have to go; None when nobody can make room, or nobody has to go for it."""
    found = outcome.result
    if not found.status.is_success or not found.victims:
        return None
    victims = tuple(each.key for each in found.victims)
    return PreemptionAnswer(found.nominated_node, victims, found.budget_violations)


def _asked(plugin: PostFilterPlugin, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
    try:
        found = plugin.post_filter(cycle, diagnosis)
        if not isinstance(found, PostFilterResult):
            raise TypeError(f"the answer is to be a PostFilterResult, not {found!r}")
        return found
    except Exception:  # this runs on the scheduling loop, which must not end because of a plugin
        broken(plugin.name, cycle.pod)
        return PostFilterResult(Status(Code.ERROR, (f"a plugin failed: {plugin.name}",)))
