"""When nothing fits, PostFilter plugins may know how to make room: who is asked, and what is made of their answers.

They are asked in order. The first that makes room is taken at its word, one that says nothing can help ends the matter,
and what the others say is told together. A plugin that breaks makes no room, and a nomination stays as it is. Mirrors
RunPostFilterPlugins.
"""

from __future__ import annotations

from typing import NamedTuple

from tonnage import logs
from tonnage.scheduler.metrics import Meter
from tonnage.scheduling.decision.diagnosis import Diagnosis
from tonnage.scheduling.engine.profiles import Assembled
from tonnage.scheduling.framework import Code, Cycle, PostFilterPlugin, PostFilterResult, Status, unschedulable
from tonnage.scheduling.plugins.default_preemption import DefaultPreemption

_log = logs.logger("tonnage.scheduler")


class Relief(NamedTuple):
    """What can be done for a pod, and who found it; nobody, when nothing can."""

    found: PostFilterResult
    by: PostFilterPlugin | None = None


def sought(profile: Assembled, cycle: Cycle, diagnosis: Diagnosis, meter: Meter) -> Relief:
    """Ask the PostFilter plugins of a profile. Does not raise."""
    if not profile.post_filter or not cycle.cluster.count:
        return Relief(PostFilterResult(unschedulable(), withdraws_nomination=True))
    told: list[str] = []
    withdraws = False
    for plugin in profile.post_filter:
        found = _asked(plugin, cycle, diagnosis, meter)
        if found.status.is_success:
            return Relief(found, plugin)
        if found.status.code is not Code.UNSCHEDULABLE:
            return Relief(found)
        told += found.status.reasons
        withdraws = withdraws or found.withdraws_nomination
    return Relief(PostFilterResult(unschedulable(*told), withdraws_nomination=withdraws))


def _asked(plugin: PostFilterPlugin, cycle: Cycle, diagnosis: Diagnosis, meter: Meter) -> PostFilterResult:
    if isinstance(plugin, DefaultPreemption):
        meter.preemption_attempt()
    try:
        return plugin.post_filter(cycle, diagnosis)
    except Exception:  # this runs on the loop, which must not end because of a plugin
        _log.exception("A plugin failed", plugin=plugin.name, pod=cycle.pod.key)
        return PostFilterResult(Status(Code.ERROR, (f"a plugin failed: {plugin.name}",)))
