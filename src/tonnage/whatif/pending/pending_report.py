"""Pods that wait as a person reads them: what each group waits for, who is in it, and what would help the most.

    17 pods are pending: 2 fit now, 15 do not

    14 pods of 3 workloads wait for 2Ti of class fast in zone b
      StatefulSet/shop/db  9  shop/db-3, shop/db-4, shop/db-5 and 6 more
      …
      nearest miss on node-b2: largest free pool 80Gi, needs 120Gi
      one more pool of 2Ti of class fast on node-b2 lets in all of them

    What would help, each tried by itself
    PODS  CHANGE
      14  one more pool of 2Ti of class fast on node-b2
       6  one more node like node-b1

The dashboard's page shows the same, in the same words. `PendingAnswer.document` tells of every pod all that `explain`
tells, node by node: megabytes on a large cluster. A page has the causes, each with its pods, the nearest miss and what
would help; a pod's own explanation is asked for when somebody wants it.
"""

from __future__ import annotations

from typing import Any

from tonnage.clock import rfc3339
from tonnage.printable import assembled, text
from tonnage.whatif.explain_report import preemption_sentence
from tonnage.whatif.page import FittedTable, TableColumn, TextPage, named
from tonnage.whatif.pending.pending import PendingAnswer, PendingGroup, PendingPod

_MOST_GROUPS, _MOST_OWNERS, _MOST_HELPS = 20, 8, 8
_INDENT = 2


def print_pending(answer: PendingAnswer, page: TextPage) -> None:
    """Write the answer; one that was interrupted says so elsewhere."""
    count, fitting = len(answer.pods), sum(each.fits for each in answer.pods)
    if not count:
        page.say(text("no pod is pending", style="bold green"))
        return
    pods = "1 pod is pending" if count == 1 else f"{count:,} pods are pending"
    told = [f"{fitting:,} {'needs' if fitting == 1 else 'need'} no help"] if fitting else []
    left = count - fitting
    told += [f"{left:,} {'does' if left == 1 else 'do'} not fit"] if left else []
    page.say(assembled((pods, "bold"), f": {', '.join(told)}"))
    for group in answer.groups[:_MOST_GROUPS]:
        page.blank()
        _print_group(group, page)
    if len(answer.groups) > _MOST_GROUPS:
        hidden = answer.groups[_MOST_GROUPS:]
        pods_hidden = sum(len(each.pods) for each in hidden)
        page.say(text(f"… and {pods_hidden:,} pods that wait for {len(hidden):,} more causes", style="dim"))
    if answer.helps:
        page.blank()
        page.say(text("What would help, each tried by itself", style="bold"))
        table = FittedTable([TableColumn("PODS", is_number=True), TableColumn("CHANGE")])
        for each in answer.helps[:_MOST_HELPS]:
            table.add(f"{len(each.pods):,}", each.change)
        page.table(table)
    elif left and not answer.is_partial:
        page.blank()
        page.say(text("No single change that was tried lets any of them in.", style="dim"))


def _print_group(group: PendingGroup, page: TextPage) -> None:
    page.say(text(group.message, style="" if group.pods[0].fits else "bold red"))
    by_owner: dict[str, list[PendingPod]] = {}
    for each in group.pods:
        by_owner.setdefault(each.workload, []).append(each)
    owned = {name: pods for name, pods in by_owner.items() if name}
    for name, pods in list(owned.items())[:_MOST_OWNERS]:
        page.say(text(f"{name} ({len(pods):,}): {_names(pods)}"), indent=_INDENT)
    if len(owned) > _MOST_OWNERS:
        hidden = sum(len(pods) for pods in list(owned.values())[_MOST_OWNERS:])
        page.say(text(f"… and {hidden:,} pods of {len(owned) - _MOST_OWNERS:,} more workloads"), indent=_INDENT)
    if "" in by_owner:
        page.say(text(f"of no workload ({len(by_owner['']):,}): {_names(by_owner[''])}"), indent=_INDENT)
    for line in nearest_misses(group):
        page.say(text(line, style="dim"), indent=_INDENT)
    for pod in group.pods:
        if pod.explanation is not None and pod.explanation.preemption is not None:
            page.say(text(f"{pod.key}: {preemption_sentence(pod.explanation.preemption)}"), indent=_INDENT)
    if group.helps:
        best = group.helps[0]
        count = group.helped_by(best)
        whom = "it" if len(group.pods) == 1 else "all of them" if count == len(group.pods) else f"{count:,} of them"
        page.say(text(f"{best.change}: would let {whom} in", style="green"), indent=_INDENT)


def _names(pods: list[PendingPod]) -> str:
    return named([f"{each.key} → {each.node}" if each.node else each.key for each in pods])


def nearest_misses(group: PendingGroup) -> list[str]:
    """The nearest miss of the first pod that has one; kube-scheduler's words where there is none."""
    name, miss = group.nearest_miss
    if not miss:
        return []
    return [f"nearest miss on {name}: {miss}" if name else miss]


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
