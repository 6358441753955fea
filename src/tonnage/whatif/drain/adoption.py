"""Pods as their cluster has them, where a manifest says less: adopted by the set that selects them, and ready.

Controllers adopt pods without one that their selector matches, so a manifest need not say to whom a pod belongs. A pod
that runs and says nothing of being ready is taken for ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tonnage.behaviour.workloads.stateful_identity import is_member
from tonnage.objects.apps_v1 import ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Pod
from tonnage.objects.core_v1.pod import PodCondition
from tonnage.objects.meta import Object, OwnerReference
from tonnage.objects.selectors import InvalidSelector, selects
from tonnage.whatif.simulate.successors import is_mirror

replace = msgspec.structs.replace


def as_in_a_cluster(objects: Iterable[Object]) -> Iterator[Object]:
    """The objects, with pods that are adopted and ready."""
    found = list(objects)
    sets: dict[str, list[StatefulSet | ReplicaSet]] = {}
    for each in found:
        if isinstance(each, StatefulSet | ReplicaSet) and not each.metadata.is_terminating:
            sets.setdefault(each.namespace, []).append(each)
    for each in found:
        yield _ready(_adopted(each, sets.get(each.namespace, ()))) if isinstance(each, Pod) else each


def _adopted(pod: Pod, sets: Iterable[StatefulSet | ReplicaSet]) -> Pod:
    if pod.metadata.controller is not None or is_mirror(pod) or pod.is_terminal or pod.metadata.is_terminating:
        return pod
    for each in sets:
        if _selects(each, pod):
            owner = OwnerReference(
                api_version="apps/v1", kind=type(each).__name__, name=each.name, uid=each.uid, controller=True
            )
            owners = (*pod.metadata.owner_references, owner)
            return replace(pod, metadata=replace(pod.metadata, owner_references=owners))
    return pod


def _selects(found: StatefulSet | ReplicaSet, pod: Pod) -> bool:
    try:
        is_meant = selects(found.spec.selector, pod.metadata.labels)
    except InvalidSelector:
        return False
    return is_meant and (not isinstance(found, StatefulSet) or is_member(found, pod))


def _ready(pod: Pod) -> Pod:
    if pod.status.phase != "Running" or not pod.spec.node_name or pod.condition("Ready") is not None:
        return pod
    conditions = (*pod.status.conditions, PodCondition(type="Ready", status="True"))
    return replace(pod, status=replace(pod.status, conditions=conditions))
