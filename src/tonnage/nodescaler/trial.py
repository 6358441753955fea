"""Placing pods for trial: what the scheduler would decide on a cluster as it might be.

The rules are the scheduler's own, the default profile, with two differences. Nodes are filled one after the other and
not evenly, because the question here is how few of them will do. And storage is counted by the byte (`Ledger`): a
capacity object that one pod has claimed will have been refreshed by the time the next comes. Nothing outlives a trial;
a cluster is made for it from objects and thrown away after.
"""

from __future__ import annotations

import json
import random
from functools import cache

import msgspec

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.configuration.plugin_args import GROUP_VERSION
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.scheduling_cycle import Decision
from tonnage.scheduling.engine.profiles import assemble
from tonnage.scheduling.engine.reserving import reserve

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
    """Who may go where is the default profile's word; the fullest node that will do is taken."""
    return parse(json.dumps(_PACKING), source="the node scaler's trial").profiles[0]


class Trial:
    """A cluster on which pods are put for trial."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._profile = assemble(packing_profile(), random.Random(0))
        self.refusal = ""
        """Why the last pod found no place on the node it was tried on, or on any."""

    def selected_for(self, pod: PodInfo) -> frozenset[str]:
        """The nodes that the pod's volumes are being made for already."""
        claims = (self.cluster.storage.claims.get(key) for key in pod.claim_keys)
        return frozenset(claim.selected_node for claim in claims if claim is not None and claim.selected_node)

    def place(self, pod: PodInfo, *, only: str = "") -> str:
        """Put a pod where it fits, first of all where it is nominated to; the node, or "" when there is none.

        With `only` it goes there or nowhere.
        """
        tried = expected_on(pod, only) if only else pod
        decision = self._profile.decider.decide(self.cluster, tried)
        self.refusal = ""
        if not decision.fits or (only and decision.node != only):
            self.refusal = self._reasons(tried, decision, only)
            return ""
        kept = reserve(self._profile.reserve, decision.cycle, decision.node)
        if not kept.is_success:
            self.refusal = kept.message
            return ""
        self.cluster.put_pod(pod, decision.node)
        return decision.node

    def _reasons(self, pod: PodInfo, decision: Decision, only: str) -> str:
        if decision.fits:  # elsewhere: who objects to this node is asked for
            decision = self._profile.decider.decide(self.cluster, _nominated(pod, ""), diagnose=True)
        if decision.error is not None:
            return decision.error.message
        told = decision.diagnosis
        if told is None:
            return ""
        row = self.cluster.row_of.get(only, -1)
        if told.refusal is not None or row < 0:
            return told.refusal.message if told.refusal is not None else told.message()
        return ", ".join(told.reasons_of(row))


def expected_on(pod: PodInfo, node_name: str) -> PodInfo:
    """The same pod, nominated to a node: that one is tried first."""
    return pod if pod.pod.status.nominated_node_name == node_name else _nominated(pod, node_name)


def _nominated(pod: PodInfo, node_name: str) -> PodInfo:
    status = msgspec.structs.replace(pod.pod.status, nominated_node_name=node_name)
    return PodInfo(msgspec.structs.replace(pod.pod, status=status))
