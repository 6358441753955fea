"""Pods that wait as a page shows them: causes first, each with its pods, the nearest miss and what would help.

`PendingAnswer.document` tells of every pod all that `explain` tells, node by node: megabytes on a large cluster. Here
is what stands on the first page, with the same words; a pod's own explanation is asked for when somebody wants it.
"""

from __future__ import annotations

from typing import Any

from tonnage.clock import rfc3339
from tonnage.whatif.explain_report import preemption_sentence
from tonnage.whatif.pending.pending import PendingAnswer, PendingGroup, PendingPod


def summary(answer: PendingAnswer) -> dict[str, Any]:
    """The causes, the most common first, and the changes that let pods in, the most of them first."""
    return {
        "partial": answer.is_partial,
        "decided": len(answer.pods),
        "groups": [_group(each) for each in answer.groups],
        "wouldHelp": [each.document() for each in answer.helps],
    }


def _group(group: PendingGroup) -> dict[str, Any]:
    node, miss = group.nearest_miss
    found: dict[str, Any] = {
        "cause": group.cause.document(),
        "message": group.message,
        "fits": group.pods[0].fits,
        "pods": [_pod(each) for each in group.pods],
        "wouldHelp": [{"change": each.change, "pods": group.helped_by(each)} for each in group.helps],
    }
    if miss:
        found["nearestMiss"] = {"node": node, "told": miss}
    return found


def _pod(each: PendingPod) -> dict[str, Any]:
    found: dict[str, Any] = {"pod": each.key, "state": each.state.value}
    if each.pod.metadata.creation_timestamp is not None:
        found["since"] = rfc3339(each.pod.metadata.creation_timestamp)
    if each.workload:
        found["workload"] = each.workload
    if each.node:
        found["node"] = each.node
    if each.explanation is not None and each.explanation.preemption is not None:
        found["preemption"] = preemption_sentence(each.explanation.preemption)
    return found
