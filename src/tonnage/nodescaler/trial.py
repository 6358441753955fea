"""Places pods on trial: what the scheduler would decide on a possible cluster.

The scheduler's own engine decides, with two differences. Nodes are filled one after the other, because the question is
how few are enough. Storage is counted by the byte (`Ledger`): a capacity object will be refreshed before the next pod.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from functools import cache

from tonnage.clock import VirtualClock
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.configuration.plugin_args import GROUP_VERSION
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.scheduling_cycle import Decision
from tonnage.scheduling.engine.attempt import AttemptStage, EngineSettings
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.queue.nominator import nominated_to

_STORAGE_ARGS = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "StorageCapacityArgs"}
_PACKING = {
    "apiVersion": GROUP_VERSION,
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}},
            "pluginConfig": [
                {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
                {"name": "StorageCapacity", "args": {**_STORAGE_ARGS, "reservation": "Ledger"}},
            ],
        }
    ],
}


@cache
def packing_profile() -> ResolvedProfile:
    """The default profile's filters; the score prefers the fullest node."""
    return parse(json.dumps(_PACKING), source="the node scaler's trial").profiles[0]


class Trial:
    """A cluster of these objects, on which pods are placed on trial."""

    def __init__(self, objects: Iterable[Object]) -> None:
        settings = EngineSettings(takes_any_pod=True, implies_namespaces=True)
        self._engine = Engine([packing_profile()], clock=VirtualClock(), rng=random.Random(0), settings=settings)
        self._engine.load(objects)
        self.refusal = ""
        """Why the last pod did not fit on its node, or on any."""

    @property
    def cluster(self) -> Cluster:
        return self._engine.cluster

    def place(self, pod: PodInfo, *, only: str = "") -> str:
        """Place a pod, first where it is nominated, or `only` there; returns the node, or "" without one."""
        tried = expected_on(pod, only) if only else pod
        attempt = self._engine.place(tried)
        if attempt.exception is not None:
            raise attempt.exception
        self.refusal = ""
        placement, decision = attempt.placement, attempt.decision
        if placement is not None and (not only or placement.node == only):
            return placement.node
        if placement is not None:  # it fits elsewhere: find out why not on this node
            self._engine.withdraw(placement)
            decision = placement.profile.decider.decide(self.cluster, expected_on(tried, ""), diagnose=True)
        self.refusal = (
            self._reasons(decision, only) if attempt.stage is not AttemptStage.RESERVE else attempt.status.message
        )
        return ""

    def _reasons(self, decision: Decision | None, only: str) -> str:
        if decision is None:
            return ""
        if decision.error is not None:
            return decision.error.message
        diagnosis = decision.diagnosis
        if diagnosis is None:
            return ""
        row = self.cluster.row_of.get(only, -1)
        if diagnosis.refusal is not None or row < 0:
            return diagnosis.refusal.message if diagnosis.refusal is not None else diagnosis.message()
        return ", ".join(diagnosis.reasons_of(row))


def expected_on(pod: PodInfo, node_name: str) -> PodInfo:
    """The same pod, nominated to a node, which is then tried first."""
    nominated = nominated_to(pod.pod, node_name)
    return pod if nominated is pod.pod else PodInfo(nominated)
