"""What a pool of nodes should become: which pods wait for its nodes, which nodes are wanted, which are in use.

    objects ──► unschedulable pods ──► trial on the nodes that are ready ──► trial on future nodes ──► Plan

A plan follows from state alone: a pod's nomination to a node of the pool that does not exist (yet) is the plan for that
node, and stands while it fits. So a restarted scaler continues where it was.

Others' nominations stand (KEP-5278): the pod keeps its resources, and the named node is in use. So is a node that a
waiting pod's claim has as its selected-node. If a nomination names a node of the pool that does not exist, and the pod
fits there, that node is wanted; otherwise nobody could ever help that pod.

The scheduler's own engine decides in a `Trial`, with two differences. Nodes are filled one after the other, because the
question is how few are enough. Storage is counted by the byte (`Ledger`): a capacity object will be refreshed before
the next pod.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from tonnage.clock import VirtualClock
from tonnage.nodescaler.node_pool import (
    TO_BE_DELETED,
    NodePool,
    is_published,
    marked_at,
    taint_of,
    without_scaler_taints,
)
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.requirements import NOT_READY
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo, amounts
from tonnage.scheduling.configuration import configuration, plugin_args, profile
from tonnage.scheduling.decision.scheduling_cycle import Decision
from tonnage.scheduling.engine.attempt import AttemptStage, EngineSettings
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.queue.nominator import nominated_to

_STORAGE_ARGS = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "StorageCapacityArgs"}
_PACKING = {
    "apiVersion": plugin_args.GROUP_VERSION,
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
def packing_profile() -> profile.ResolvedProfile:
    """The default profile's filters; the score prefers the fullest node."""
    return configuration.parse(json.dumps(_PACKING), source="the node scaler's trial").profiles[0]


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


MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of a pod that the node itself runs from a file."""
AT_MAXIMUM: Final = "max node group size reached"
BACKING_OFF: Final = "in backoff after failed scale-up"


@dataclass(frozen=True, slots=True)
class ScalePlan:
    proposals: Mapping[Key, str] = field(default_factory=dict)
    """Nominations to write, pod -> node: new ones, or replacements of ours."""
    withdrawals: tuple[Key, ...] = ()
    wanted: tuple[str, ...] = ()
    in_use: frozenset[str] = frozenset()
    """Nodes, of the pool or not, that have a pod or are expected to."""
    members: tuple[str, ...] = ()
    remaining_unschedulable: Mapping[Key, str] = field(default_factory=dict)
    """Reason by pod for pods that no node of the pool can help now."""

    @property
    def idle(self) -> tuple[str, ...]:
        return tuple(name for name in self.members if name not in self.in_use)


def plan(
    objects: Iterable[Object], pool: NodePool, ours: Collection[str] = (), *, is_backing_off: bool = False
) -> ScalePlan:
    """Make a plan. `ours`: uids of pods whose nomination we wrote. `is_backing_off`: no node may be created."""
    return _Planner(objects, pool, frozenset(ours), is_backing_off).plan()


def is_unschedulable(pod: Pod) -> bool:
    """True if the scheduler found no node for it; False for a pod that was never tried or is gated."""
    condition = pod.condition("PodScheduled")
    return (
        condition is not None
        and (condition.status, condition.reason) == ("False", "Unschedulable")
        and not pod.spec.scheduling_gates
    )


def uses_node(pod: Pod) -> bool:
    """True if this pod keeps its node in use; False for a mirror pod, a DaemonSet's pod, or an ended one."""
    owner = pod.metadata.controller
    is_of_the_node = MIRROR in pod.metadata.annotations or (owner is not None and owner.kind == "DaemonSet")
    return not is_of_the_node and not pod.is_terminal


def nodes_used_by(pods: Iterable[Pod], claims: Mapping[Key, PersistentVolumeClaim]) -> frozenset[str]:
    """Every node in use by a pod, or where one is expected: by its nomination, or by a selected node of its claims."""
    found: set[str] = set()
    for pod in pods:
        if pod.spec.node_name and uses_node(pod):
            found.add(pod.spec.node_name)
        elif not pod.spec.node_name and not pod.is_terminal:
            found.add(pod.status.nominated_node_name)
            found |= selected_nodes(pod, claims)
    return frozenset(found) - {""}


def selected_nodes(pod: Pod, claims: Mapping[Key, PersistentVolumeClaim]) -> frozenset[str]:
    found = map(claims.get, pod.claim_keys())
    return frozenset(claim.selected_node for claim in found if claim is not None) - {""}


class _Planner:
    """Places pods on trial, first on ready nodes, then on future nodes, and collects the plan."""

    def __init__(self, objects: Iterable[Object], pool: NodePool, ours: frozenset[str], is_backing_off: bool) -> None:
        self.objects, self.pool, self.ours, self.is_backing_off = list(objects), pool, ours, is_backing_off
        self.nodes = {each.name: each for each in self.objects if isinstance(each, Node)}
        self.claims = {each.key: each for each in self.objects if isinstance(each, PersistentVolumeClaim)}
        self.members = tuple(name for name, node in sorted(self.nodes.items()) if pool.is_member(node))
        pods = [each for each in self.objects if isinstance(each, Pod)]
        self.pods = [pod for pod in pods if not pod.is_terminal]
        self._offered = amounts(pool.node(pool.names[0]).status.allocatable) if pool.names else {}
        self._opened: set[str] = set()
        self._names_with_old_pods = {pod.spec.node_name for pod in pods} - self.nodes.keys()
        self._nominated_by_others: dict[str, list[PodInfo]] = {}  # node name -> pods that others expect there
        self.proposals: dict[Key, str] = {}
        self.withdrawals: list[Key] = []
        self.remaining_unschedulable: dict[Key, str] = {}
        self.placed_on: set[str] = set()

    def plan(self) -> ScalePlan:
        pods = self.pods
        waiting = [pod for pod in pods if not pod.spec.node_name and not pod.metadata.is_terminating]
        if any(self.is_ours(pod) or self._waits_for_pool_node(pod) or self._may_be_proposed(pod) for pod in waiting):
            self._place(waiting)
        missing = self.pool.min_nodes - len(self.members) - len(self._opened)
        spare = self._names_to_give()[: max(missing, 0)] if not self.is_backing_off else []
        # A server may not clear the nomination of a bound pod; we clear what we wrote.
        bound = (pod for pod in pods if pod.spec.node_name and pod.status.nominated_node_name)
        return ScalePlan(
            proposals=self.proposals,
            withdrawals=(*(pod.key for pod in bound if pod.uid in self.ours), *self.withdrawals),
            wanted=tuple(name for name in self.pool.names if name in self._opened or name in spare),
            in_use=nodes_used_by(pods, self.claims) | self.placed_on,
            members=self.members,
            remaining_unschedulable=self.remaining_unschedulable,
        )

    def is_ours(self, pod: Pod) -> bool:
        return bool(pod.status.nominated_node_name) and pod.uid in self.ours

    def _may_be_proposed(self, pod: Pod) -> bool:
        return not pod.status.nominated_node_name and is_unschedulable(pod) and uses_node(pod)

    def _waits_for_pool_node(self, pod: Pod) -> bool:
        """True if somebody else nominated the pod to a node of the pool that does not exist."""
        name = pod.status.nominated_node_name
        return is_unschedulable(pod) and not self.is_ours(pod) and self.pool.is_named(name) and name not in self.nodes

    def _place(self, waiting: Iterable[Pod]) -> None:
        infos = sorted(map(PodInfo, waiting), key=self._order)
        trial = self._trial = Trial(self.objects)
        for info in infos:
            node_name = info.pod.status.nominated_node_name
            if not node_name and not self._may_be_proposed(info.pod):
                node_name = next(iter(sorted(selected_nodes(info.pod, self.claims))), "")
            if node_name and not self.is_ours(info.pod):
                self._nominated_by_others.setdefault(node_name, []).append(info)
        for node_name in self._nominated_by_others.keys() & self.nodes.keys():
            self._add_nominated_pods(node_name)
        left = [info for info in infos if not self._fits_a_ready_node(info)]
        for name in self.members:
            trial.cluster.put_node(without_scaler_taints(self.nodes[name]))
            for each in self._unpublished(name):
                trial.cluster.storage.put(each)
        for info in left:  # others' nominations stand whatever we plan, so they come first
            if self._waits_for_pool_node(info.pod):
                self._place_nominated(info)
        for info in left:
            if self.is_ours(info.pod) or self._may_be_proposed(info.pod):
                self._place_on_pool(info)

    def _order(self, info: PodInfo) -> tuple[int, bool, float, Key]:
        """Higher priority first; then pods proposed already, so that they stay; then larger ones, which pack best."""
        shares = [asked / whole for name, asked in info.requests.items() if (whole := self._offered.get(name, 0)) > 0]
        return -info.priority, not self.is_ours(info.pod), -max(shares, default=0.0), info.key

    # -- the nodes that are ready -------------------------------------------------------------------------------------

    def _fits_a_ready_node(self, info: PodInfo) -> bool:
        """True if the scheduler can place it now; then it is left to the scheduler, and its resources count as used."""
        node_name = info.pod.status.nominated_node_name
        if not self.is_ours(info.pod) and not self._may_be_proposed(info.pod):
            return False
        if node_name and self._may_come(node_name):
            return False
        found = self._trial.place(info)
        if not found:
            return False
        self.placed_on.add(found)
        if node_name and found != node_name:
            self.withdrawals.append(info.key)
        return True

    def _may_come(self, node_name: str) -> bool:
        node = self.nodes.get(node_name)
        if node is None:
            return node_name in self.pool.names and len(self.members) < self.pool.max_nodes
        is_held_back = taint_of(node, NOT_READY) is not None or taint_of(node, TO_BE_DELETED) is not None
        return is_held_back or bool(node_name in self.members and self._unpublished(node_name))

    def _unpublished(self, name: str) -> tuple[Object, ...]:
        """What the node's driver will publish about its storage, and has not published yet."""
        return tuple(each for each in self.pool.storage_of(name) if not is_published(each, self._trial.cluster.storage))

    # -- the nodes to come --------------------------------------------------------------------------------------------

    def _place_on_pool(self, info: PodInfo) -> None:
        """Find a node of the pool for a pod that we may nominate: its own, a planned one, or a new one."""
        before = info.pod.status.nominated_node_name
        opened = before if before and self._open(before) else ""
        found = self._trial.place(info)
        if opened and found != opened:
            self._close(opened)
        if not found:
            found = self._place_on_a_new_node(info)
        is_of_the_pool = found in self._opened or found in self.members
        if found:
            self.placed_on.add(found)
        if is_of_the_pool and found != before:
            self.proposals[info.key] = found
        elif before and not is_of_the_pool:
            self.withdrawals.append(info.key)

    def _place_on_a_new_node(self, info: PodInfo) -> str:
        refusal = BACKING_OFF if self.is_backing_off else AT_MAXIMUM
        selected = selected_nodes(info.pod, self.claims)
        for name in sorted(self._names_to_give(), key=lambda name: name not in selected):
            if not self._open(name):
                break
            if self._trial.place(info, only=name):
                return name
            refusal = self._trial.refusal
            self._close(name)
            if name not in self._names_with_old_pods and name not in selected:  # all other empty nodes are alike
                break
        self.remaining_unschedulable[info.key] = refusal
        return ""

    def _place_nominated(self, info: PodInfo) -> None:
        """Want the node to which somebody else nominated a pod, if the pod would fit there alone."""
        name = info.pod.status.nominated_node_name
        if not self._open(name, with_nominated=False):
            return
        if self._trial.place(info, only=name):
            self.placed_on.add(name)
            self._add_nominated_pods(name)
        else:
            self._close(name)

    def _open(self, name: str, *, with_nominated: bool = True) -> bool:
        """Add a future node to the trial; False if it exists, has no name of the pool, or would be one too many."""
        if name in self.nodes or name in self._opened or name not in self.pool.names:
            return False
        if self.is_backing_off or len(self.members) + len(self._opened) >= self.pool.max_nodes:
            return False
        self._opened.add(name)
        self._trial.cluster.put_node(self.pool.node(name))
        for each in self._unpublished(name):
            self._trial.cluster.storage.put(each)
        if with_nominated:
            self._add_nominated_pods(name)
        return True

    def _add_nominated_pods(self, name: str) -> None:
        """Add the pods that others nominated to a node. Whether they fit or not, the scheduler leaves room for them."""
        for info in self._nominated_by_others.get(name, ()):
            self._trial.cluster.put_pod(info, name)

    def _close(self, name: str) -> None:
        self._opened.discard(name)
        for info in self._nominated_by_others.get(name, ()):
            self._trial.cluster.remove_pod(info.uid)
        for each in self.pool.storage_of(name):
            self._trial.cluster.storage.remove(each)
        self._trial.cluster.remove_node(name)

    def _names_to_give(self) -> list[str]:
        """Names that no node has and nobody else expects; names with pods of an earlier node come last."""
        taken = self.nodes.keys() | self._opened | self._nominated_by_others.keys()
        return sorted(
            (name for name in self.pool.names if name not in taken), key=self._names_with_old_pods.__contains__
        )


@dataclass(frozen=True, slots=True)
class Removals:
    """What to do about idle nodes, and when to look again (in seconds, None for never)."""

    mark: tuple[str, ...] = ()
    unmark: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    next_s: float | None = None


def removals(
    plan: ScalePlan,
    nodes: Mapping[str, Node],
    pool: NodePool,
    idle_since_s: Mapping[str, float],
    *,
    now_s: float,
    time_s: float,
) -> Removals:
    """Decide about every node of the pool. `now_s` is the monotonic time of `idle_since_s`, `time_s` seconds since
    1970.

                    idle for unneeded_s            idle still, settle_s later
          ready ───────────────────────► marked ─────────────────────────────► removed
            ▲                              │
            └──────────────────────────────┘
               a pod is on it or expected

    A marked node takes no new pods. Between mark and removal a scheduler has time to publish, by a nomination or a
    binding, what it decided before it saw the mark. The mark is a taint on the node, with its time.
    """
    mark: list[str] = []
    unmark: list[str] = []
    remove: list[str] = []
    waits_s: list[float] = []
    may_go = len(plan.members) - pool.min_nodes
    # Marked nodes first, because they are on their way; then those that have been idle longest.
    idle_s = {name: now_s - idle_since_s.get(name, now_s) for name in plan.members}
    for name in sorted(plan.members, key=lambda name: (marked_at(nodes[name]) is None, -idle_s[name], name)):
        at_s = marked_at(nodes[name])
        # A mark from the future, made before the clock was set back, is renewed.
        if name in plan.in_use or may_go <= 0 or (at_s is not None and at_s > time_s + pool.settle_s):
            unmark += [name] if at_s is not None else []
            continue
        left_s = pool.unneeded_s - idle_s[name] if at_s is None else at_s + pool.settle_s - time_s
        if left_s > 0:
            waits_s.append(left_s)
            may_go -= at_s is not None
            continue
        (mark if at_s is None else remove).append(name)
        may_go -= 1
    if mark:
        waits_s.append(pool.settle_s)
    return Removals(tuple(mark), tuple(unmark), tuple(remove), min(waits_s, default=None))
