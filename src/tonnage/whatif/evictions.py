"""Whether a pod may be evicted: the API server's rule, on budgets whose numbers are counted from what is there now.

A dump has statuses that were true when it was taken, and manifests have none; so the numbers are counted anew, as the
disruption controller does (`behaviour/workloads/disruption_plan.py`), and the eviction is judged as the server judges
it (`documents/pod_subresources.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from tonnage.behaviour.workloads.disruption_plan import (
    Find,
    NoController,
    expected_pods,
    failed_status,
    status_of,
    workload_size,
)
from tonnage.clock import rfc3339
from tonnage.documents.pod_subresources import judge_eviction
from tonnage.errors import ApiError
from tonnage.objects import codec
from tonnage.objects.core_v1 import Pod
from tonnage.objects.selectors import InvalidSelector, selects
from tonnage.objects.small_groups import PodDisruptionBudget


def eviction_refusal(
    pod: Pod, budgets: Iterable[PodDisruptionBudget], pods: Callable[[], Sequence[Pod]], find: Find, now: datetime
) -> str:
    """Why a pod may not be evicted now; empty when it may.

    `pods` are all that are there, asked for only if a budget means the pod; `find` knows the workloads behind them.
    """
    meant = [each for each in budgets if each.namespace == pod.namespace and guards(each, pod)]
    if not meant:
        return ""
    counted = [codec.to_doc(with_true_status(each, pods(), find, now)) for each in meant]
    doc = codec.to_doc(pod)
    doc.setdefault("status", {})["phase"] = pod.status.phase  # which a typed pod leaves out when it is the default
    try:
        judge_eviction(doc, counted, {}, now=rfc3339(now))
    except ApiError as exc:
        told = ", ".join(cause.message for cause in exc.causes)
        return told or exc.message
    return ""


def with_true_status(
    budget: PodDisruptionBudget, pods: Sequence[Pod], find: Find, now: datetime
) -> PodDisruptionBudget:
    """The budget as its controller would leave it, given these pods."""
    mine = [each for each in pods if each.namespace == budget.namespace and guards(budget, each)]
    try:
        wanted = expected_pods(budget.spec, mine, lambda owner, namespace: workload_size(owner, namespace, find))
        status = status_of(budget, mine, wanted, {}, now)
    except (NoController, ValueError) as exc:
        status = failed_status(budget, str(exc), now)
    return msgspec.structs.replace(budget, status=status)


def guards(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Whether a budget means a pod of its namespace; a selector that makes no sense means nobody."""
    try:
        return selects(budget.spec.selector, pod.metadata.labels)
    except InvalidSelector:
        return False
