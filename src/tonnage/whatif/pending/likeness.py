"""Pods that wait and are so alike that one explanation tells of all of them.

    alike           of one workload with the same requests and claims, or of one sign (`Plugin.sign`): refused alike
    nearly alike    refused by the same plugins on the same nodes, with claims of the same classes: amounts may differ

Each pod that is like no other is explained on all nodes until that has become dear (`MOST_EXPLAINED_NODES`). From then
on one that is nearly alike will do: what a pod asks for is then its own, how near it came is told of the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Final

from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.diagnosis import Diagnosis
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.waking_rules import EngineWaking
from tonnage.scheduling.volumes.demand import driver_bytes
from tonnage.whatif.pending import causes
from tonnage.whatif.pending.causes import CauseOfPod

MOST_EXPLAINED_NODES: Final = 10_000
"""So many nodes of explanations, at 0.1 to 0.2 ms each, before pods that are nearly alike share one: 100 pods on 100
nodes, two on 5,000."""


class Likeness:
    """What makes the pods that one engine refused alike."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rules = EngineWaking(engine.cluster, engine.profiles)
        self._name_of = {id(profile): name for name, profile in engine.profiles.items()}

    def of(self, pod: PodInfo, workload: str, message: str, diagnosis: Diagnosis | None) -> list[Hashable]:
        """Any of these is shared by pods that are alike."""
        found: list[Hashable] = []
        if workload:
            sizes = [(each.class_name, str(each.requested), each.spec.volume_name) for each in self._claims(pod)]
            asked = (pod.ordered_requests, pod.node_constraints, pod.priority, tuple(sizes))
            found.append((workload, message, *asked))
        refusers = diagnosis.rejecting_plugins() if diagnosis is not None else frozenset()
        sign = self._rules.sign(self._profile(pod), pod, refusers) if refusers else None
        if sign is not None:
            found.append((message, refusers, sign))
        return found

    def nearly(self, pod: PodInfo, message: str, diagnosis: Diagnosis | None) -> Hashable:
        """Shared by pods that are nearly alike. Whom preemption may help depends on all that a pod asks for."""
        if diagnosis is None or diagnosis.refusal is not None:
            return pod.key
        where = diagnosis.first.tobytes(), diagnosis.bits.tobytes(), tuple(diagnosis.reasons)
        classes = tuple((each.class_name, bool(each.spec.volume_name)) for each in self._claims(pod))
        amounts = pod.ordered_requests if self._rules.may_preempt(self._profile(pod), pod) else ()
        return message, where, classes, pod.node_constraints, pod.priority, amounts

    def needs(self, pod: PodInfo, like: CauseOfPod) -> Mapping[str, int]:
        """What a pod asks for that waits for the same as one that is nearly alike."""
        if like.cause.kind == causes.RESOURCES:
            return {each: pod.requests.get(each, 0) for each in like.needs}
        if like.cause.kind != causes.STORAGE:
            return like.needs
        found: Counter[str] = Counter()
        for each in self._claims(pod):
            if each.class_name in like.needs and not each.spec.volume_name:
                found[each.class_name] += driver_bytes(each, self._engine.cluster.storage.classes.get(each.class_name))
        return dict(found)

    def _profile(self, pod: PodInfo) -> str:
        return self._name_of.get(id(self._engine.profile_of(pod.pod)), "")

    def _claims(self, pod: PodInfo) -> Iterator[PersistentVolumeClaim]:
        known = (self._engine.cluster.storage.claims.get(key) for key in pod.claim_keys)
        return (each for each in known if each is not None)
