"""VolumeBinding: a pod goes only where its volumes are, can be bound, or can be created. The heart of the product.

`volumes/volume_fit.py` has the rule for all nodes; this plugin calls it:

    PreFilter   look up the claims; refuse what no node can help; note the pod's demand
    Filter      judge rows                         Score   by free storage (KEP-4049)
    Reserve     plan for the chosen node, assume it, hold its capacity (KEP-5925)
    PreBind     write the assumed objects, wait until the claims are bound

Pods that only need new volumes, of classes without free volumes, share answers with pods of equal demand; pods with
bound claims, free volumes to choose from or a selected node are judged individually.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling import framework
from tonnage.scheduling.cluster.cluster import Cluster, row_about
from tonnage.scheduling.cluster.columns import Ints, Rows, count, only_row
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import either
from tonnage.scheduling.configuration.plugin_args import PoolFit, Reservation, StorageCapacityArgs, VolumeBindingArgs
from tonnage.scheduling.configuration.plugin_args_rules import shape_of
from tonnage.scheduling.decision.scheduling_cycle import Prefers
from tonnage.scheduling.events import NODE_ADD, ClusterEvent
from tonnage.scheduling.volumes import bind_volumes, claim_sequences, hints, nominated_volumes, volume_fit
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.bind_volumes import Assumed, Sending
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.demand import Demand, VolumePlan, demand_of, sorted_claims, volume_sign
from tonnage.scheduling.volumes.explain.account_entries import Miss, NodeAccount
from tonnage.scheduling.volumes.explain.refusal_notes import half_made, reserved_room
from tonnage.scheduling.volumes.explain.volume_account import VolumeAccount
from tonnage.scheduling.volumes.packing.pool_grades import Grade
from tonnage.scheduling.volumes.reservations.holds import CapacityHolds
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.scheduling.volumes.static_volumes import StaticVolumes
from tonnage.scheduling.volumes.volume_reach import VolumePlaces, is_node_out_of_use, rows_of_sharers, why_rebuilt
from tonnage.scheduling.volumes.volume_scores import VolumeScores

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
RESCHEDULING = "CapacityAwareRescheduling"
_PREFERS = {
    PoolFit.PREFER: Prefers.BEFORE_SCORES,
    PoolFit.POSSIBLE: Prefers.AMONG_EQUALS,
    PoolFit.GUARANTEED: Prefers.NOTHING,
}
HOLDS_BY_MODE: Mapping[Reservation, type[Reservations] | type[Ledger]] = {
    Reservation.OBJECT: Reservations,
    Reservation.LEDGER: Ledger,
}
_OPERATIONS = {"Reserve": "assume", "PreBind": "bind"}
"""Upstream's names for the stages in which volumes are scheduled."""


class ToldRebuilds:
    """Reported rebuilds: claim key -> uid and selected node. Get it with `cluster.index(ToldRebuilds)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._storage = cluster.storage
        self._told: dict[Key, tuple[str, str]] = {}
        self._storage.on_change(PersistentVolumeClaim, self._claim_changed)

    def __len__(self) -> int:
        return len(self._told)

    def has(self, claim: PersistentVolumeClaim) -> bool:
        """True if a rebuild away from the claim's current selected node was reported."""
        return self._told.get(claim.key) == _state_of(claim)

    def add(self, claim: PersistentVolumeClaim) -> None:
        self._told[claim.key] = _state_of(claim)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        key = either(old, new).key
        if key in self._told:
            # An assumed change may be undone.
            claim = self._storage.claims.api(key)
            if claim is None or self._told[key] != _state_of(claim):
                del self._told[key]


def _state_of(claim: PersistentVolumeClaim) -> tuple[str, str]:
    return claim.uid, claim.selected_node


@dataclass(slots=True)
class Notes:
    """What an attempt remembers from PreFilter to PreBind."""

    demand: Demand
    fit: volume_fit.VolumeFit
    provisioning: volume_fit.ProvisioningDemand
    """What must be created if no free volume is taken."""
    is_plain: bool
    """True if all volumes must be created, and the same on every node."""
    plan: VolumePlan | None = None
    assumed: Assumed | None = None
    expected: tuple[Demand, ...] = ()
    """What nominated pods need on the one row in question."""


def assumed_in(cycle: framework.Cycle) -> Assumed | None:
    """The assumed volumes of an attempt's pod; None if there are none."""
    notes: Notes | None = cycle.state.get(VolumeBinding.name)
    return notes.assumed if notes is not None else None


class VolumeBinding(
    framework.PreFilterPlugin,
    framework.FilterPlugin,
    framework.PreScorePlugin,
    framework.ScorePlugin,
    framework.ReservePlugin,
    framework.PreBindPlugin,
):
    name = "VolumeBinding"
    row_local = True

    def __init__(self, gates: Gates, args: VolumeBindingArgs, capacity_args: StorageCapacityArgs) -> None:
        self._gates = gates
        self._bind_timeout_s = float(args.bind_timeout_seconds)
        self._capacity = capacity_args
        self._reservation_timeout_s = float(capacity_args.reservation_timeout_seconds)
        self.is_joint = gates.CSIStorageCapacityV2
        self.reservation = capacity_args.reservation if self.is_joint else Reservation.NONE
        self._shape = (args.shape or ()) if gates.StorageCapacityScoring else ()
        self._fit: volume_fit.VolumeFit | None = None
        self._failures: Counter[str] = Counter()
        self._scored: Counter[str] = Counter()
        self.reschedulings_total = 0
        """The number of reclassified bound claims, each counted once per node, for KEP-5925's metric."""

    def indexes(self) -> Iterable[type]:
        yield from (CapacityIndex, StaticVolumes, AttachedVolumes, VolumePlaces, ToldRebuilds, hints.TopologyKeys)
        if self.reservation in HOLDS_BY_MODE:
            yield HOLDS_BY_MODE[self.reservation]

    @cached_property
    def _scores(self) -> VolumeScores | None:
        """None without KEP-4049's gate."""
        return VolumeScores(shape_of(self._shape)) if self._shape else None

    def counters(self) -> Iterable[framework.PluginCounter]:
        told = "Bound claims whose volumes have to be rebuilt on another node (KEP-5925)."
        yield framework.PluginCounter("volume_binding_rescheduling_events", told, self.reschedulings_total)
        told = (
            "Pods whose node was scored by storage (KEP-4049): static by the volumes they take there, dynamic by the "
            "free capacity that their volumes are made of."
        )
        for basis in ("static", "dynamic"):
            yield framework.PluginCounter(
                "tonnage_volume_binding_scored_pods", told, self._scored[basis], {"basis": basis}
            )
        told = "Failures of VolumeBinding: predicate is its Filter, assume its Reserve, bind its PreBind."
        for operation in ("predicate", "assume", "bind"):
            times = self._failures[operation]
            yield framework.PluginCounter(
                "scheduler_volume_scheduling_stage_error", told, times, {"operation": operation}
            )

    def failed(self, point: str) -> None:
        """An attempt ended because this plugin failed at Reserve or PreBind. Its Filter never fails."""
        self._failures[_OPERATIONS[point]] += 1

    def events(self) -> Iterable[framework.EventHint]:
        return hints.volume_binding_events(self._gates, reserves=self.reservation is not Reservation.NONE)

    def reach(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
        """The rows of a capacity object, and of a new node. Other changes of a node may affect promises elsewhere."""
        if isinstance(changed, CSIStorageCapacity):
            return cluster.index(CapacityIndex).rows_of(changed.key)
        return row_about(cluster, changed) if event == NODE_ADD else None

    def needs(self, pod: PodInfo, cluster: Cluster) -> Mapping[Hashable, int] | None:
        """What a refused pod needs from an event at least: room of a class."""
        return hints.needs_of_new_claims(pod, cluster)

    def offer(self, cluster: Cluster, event: ClusterEvent, old: Any, new: Any) -> Mapping[Hashable, int] | None:
        """The room of each class where an event happened; None if it may help any pod."""
        return hints.offer_to_new_claims(cluster, event, old, new)

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable | None:
        return volume_sign(pod, cluster)

    # -- PreFilter and Filter -----------------------------------------------------------------------------------------

    def pre_filter(self, cycle: framework.Cycle) -> framework.Status | None:
        if not cycle.pod.has_claims:
            return framework.SKIP
        claims = sorted_claims(cycle.pod, cycle.cluster.storage)
        if isinstance(claims, framework.Status):
            return claims
        if claims.immediate:
            return framework.unresolvable(UNBOUND_IMMEDIATE)
        cluster = cycle.cluster
        fit = self.fit_of(cluster)
        if not cycle.nominated_here:  # otherwise it is part of a running decision
            fit.begin()
        if fit.holds is not None:
            fit.holds.catch_up()  # promises may move after nodes changed their labels
        demand = demand_of(cluster, claims, is_joint=self.is_joint)
        if demand.rebuilds:
            demand = demand._replace(sharers=tuple(rows_of_sharers(cycle, demand.rebuilds)))
        is_plain = not (demand.bound or demand.pinned or fit.has_free_volumes(demand))
        provisioning = fit.to_provision(demand, demand.loose, demand.rebuilds)
        notes = cycle.state[self.name] = Notes(demand, fit, provisioning, is_plain)
        if cycle.nominated_here:
            row = cluster.row_of[cluster.node_of(cycle.nominated_here[0].uid) or ""]  # they were put there
            notes.expected = self._expected(fit, cycle.nominated_here, row)
        if is_plain:
            cycle.tell_apart(self.name, provisioning.units, provisioning.checks)
        else:
            cycle.is_unlike_others(self.name)
        return None

    def _expected(self, fit: volume_fit.VolumeFit, pods: Iterable[PodInfo], row: int) -> tuple[Demand, ...]:
        """What nominated pods need on a row besides this one."""
        found = (nominated_volumes.expected_demand(fit, pod, row) for pod in pods if self.is_joint and pod.has_claims)
        return tuple([demand for demand in found if demand is not None])

    def filter(self, cycle: framework.Cycle, rows: Rows) -> framework.Judgement | None:
        notes: Notes = cycle.state[self.name]
        if not notes.is_plain:
            bits = notes.fit.refusals(notes.demand, rows)
        else:
            bits = notes.fit.refusals_of_provisioning(notes.provisioning, rows)
        if notes.expected and not count(bits):
            bits[:] = nominated_volumes.judge_beside(notes.fit, notes.demand, notes.expected, only_row(rows)).refusal
        return framework.Judgement(bits, volume_fit.REASONS) if count(bits) else None

    def refusal_note(self, cycle: framework.Cycle, refused: Mapping[str, npt.NDArray[np.intp]]) -> str:
        """The reservation that the pod waits for, if it would fit without it; or that its volumes are stuck."""
        notes: Notes | None = cycle.state.get(self.name)
        rows = refused.get(volume_fit.NOT_ENOUGH_SPACE)
        if notes is None or rows is None:
            return ""
        stuck = half_made(cycle.cluster, cycle.pod, notes.demand, rows) if notes.demand.bound else ""
        if stuck or self.reservation is Reservation.NONE:
            return stuck
        return reserved_room(notes.fit, notes.demand, rows)

    def passes_with_fewer_pods(self, cycle: framework.Cycle) -> bool:
        """Pods that go free no room for volumes at once. If pods that share a claim go from a row, this pod passes
        unless others are elsewhere."""
        notes: Notes | None = cycle.state.get(self.name)
        return notes is None or all(len(rows) == 1 for _, rows in notes.demand.sharers)

    def account(self, cycle: framework.Cycle) -> Mapping[int, framework.RowAccount] | None:
        notes: Notes | None = cycle.state.get(self.name)
        return None if notes is None else VolumeAccount(notes.fit, notes.demand).by_row()

    def nearest_miss(self, cycle: framework.Cycle, row: int, account: framework.RowAccount | None) -> Miss | None:
        return account.room_miss if isinstance(account, NodeAccount) else None

    # -- Score --------------------------------------------------------------------------------------------------------

    def pre_score(self, cycle: framework.Cycle) -> framework.Status | None:
        """SKIP without KEP-4049's gate, or if all volumes of the pod exist."""
        notes: Notes | None = cycle.state.get(self.name)
        return framework.SKIP if not self._shape or notes is None or notes.demand.is_settled else None

    def score(self, cycle: framework.Cycle, rows: Rows) -> Ints | None:
        notes: Notes | None = cycle.state.get(self.name)
        if self._scores is None or notes is None:  # a profile may leave out PreScore, which would return SKIP
            return None
        if not notes.is_plain:
            return self._scores.of(notes.fit, notes.demand, rows)
        return self._scores.of_provisioning(notes.fit, notes.provisioning, rows)

    def prefers(self, cycle: framework.Cycle) -> Prefers:
        """Grades decide before scores, or among equals. If only guaranteed fits pass, all rows are alike."""
        notes: Notes | None = cycle.state.get(self.name)
        if notes is None or not notes.fit.may_differ(notes.provisioning):
            return Prefers.NOTHING
        return _PREFERS[self._capacity.pool_fit]

    def preference(self, cycle: framework.Cycle, rows: npt.NDArray[np.intp]) -> Ints | None:
        """A node where the volumes fit more surely, whatever pools the driver chooses, is better."""
        notes: Notes = cycle.state[self.name]
        made: list[claim_sequences.MadeAt] = [(notes.provisioning, slice(None))]
        if not notes.is_plain:
            made = [(found, places) for found, places, _ in notes.fit.provisioning_demands(notes.demand, rows)]
        return claim_sequences.grades_at(notes.fit, made, rows) - np.int64(Grade.GUARANTEED)

    # -- Reserve and PreBind ------------------------------------------------------------------------------------------

    def reserve(self, cycle: framework.Cycle, node_name: str) -> framework.Status:
        notes: Notes | None = cycle.state.get(self.name)
        if notes is None:
            return framework.SUCCESS
        cluster = cycle.cluster
        row = cluster.row_of[node_name]
        if notes.is_plain:  # nearly always: what must be created is known
            plan = VolumePlan(provisions=notes.fit.provisions(notes.provisioning, row))
        else:
            plan = notes.fit.plan(notes.demand, row)
        if plan.is_done:
            notes.plan = plan
            return framework.SUCCESS
        pods = [pod for pod in cycle.nominated.get(row, ()) if cluster.node_of(pod.uid) is None]
        if pods and (expected := self._expected(notes.fit, pods, row)):
            chosen = nominated_volumes.judge_beside(notes.fit, notes.demand, expected, row).chosen
            made = [each._replace(capacity=chosen.get(each.claim.key, each.capacity)) for each in plan.provisions]
            plan = plan._replace(provisions=tuple(made))
        if self._shape and (plan.static or any(provision.capacity for provision in plan.provisions)):
            self._scored["static" if plan.static else "dynamic"] += 1
        if notes.fit.may_differ(notes.provisioning):
            wanted = notes.provisioning if notes.is_plain else notes.fit.made_at(notes.demand, row)[0]
            plan = plan._replace(sequences=tuple(claim_sequences.sequences_at(notes.fit, wanted, row)))
        notes.plan = plan
        try:
            notes.assumed = self._assume(cycle, notes.fit.holds, plan, node_name)
        except TonnageError as exc:
            return framework.Status(framework.Code.ERROR, (exc.message,))
        return framework.SUCCESS

    def _assume(self, cycle: framework.Cycle, holds: CapacityHolds | None, plan: VolumePlan, node_name: str) -> Assumed:
        """Make the plan visible to decisions, and hold its capacity."""
        storage, pod = cycle.cluster.storage, cycle.pod
        if holds is None:
            return bind_volumes.assume(storage, pod, plan, node_name)
        holds.awaited = [provision.claim.key for provision in plan.provisions if provision.capacity is not None]
        try:
            assumed = bind_volumes.assume(storage, pod, plan, node_name)
            holds.keep_back(pod, plan, self._reservation_timeout_s)
        finally:
            holds.awaited = ()
        return assumed

    def unreserve(self, cycle: framework.Cycle, node_name: str) -> None:
        notes: Notes | None = cycle.state.get(self.name)
        if notes is None or notes.assumed is None:
            return
        bind_volumes.revert(cycle.cluster.storage, notes.assumed)
        notes.assumed = None
        if notes.fit.holds is not None:
            notes.fit.holds.release(cycle.pod.uid)

    def pre_bind_pre_flight(self, cycle: framework.Cycle, node_name: str) -> framework.Status:
        notes: Notes | None = cycle.state.get(self.name)
        return framework.SKIP if notes is None or notes.assumed is None else framework.SUCCESS

    async def pre_bind(self, cycle: framework.Cycle, node_name: str, api: framework.Api) -> framework.Status:
        notes: Notes = cycle.state[self.name]
        assumed, plan = notes.assumed, notes.plan
        if assumed is None or plan is None:
            return framework.SUCCESS
        told_rebuilds = cycle.cluster.index(ToldRebuilds)
        sent = [each.claim for each in plan.provisions if each.is_rebuild and each.claim.selected_node != node_name]
        is_counted = [told_rebuilds.has(claim) for claim in sent]
        sending = Sending(notes.fit, plan, assumed)
        await bind_volumes.write(api, cycle.cluster.storage, assumed, sending.due())
        for claim in sent:
            why = why_rebuilt(cycle.cluster, claim)
            note = f"Volume of claim {claim.key} will be rebuilt on {node_name}: {why}"
            api.event(claim, RESCHEDULING, "Binding", note)
        self.reschedulings_total += is_counted.count(False)
        status = await sending.send(api, self._bind_timeout_s)
        if status.is_success:
            return framework.SUCCESS
        return framework.Status(status.code, (f"binding volumes: {status.message}",))

    def events_to_record(self, cycle: framework.Cycle) -> Iterable[framework.EventToRecord]:
        """Claims that were reclassified although their pod fits nowhere, each once per node that is out of use."""
        notes: Notes | None = cycle.state.get(self.name)
        for rebuild in notes.demand.rebuilds if notes is not None else ():
            claim, told_rebuilds = rebuild.claim, cycle.cluster.index(ToldRebuilds)
            if told_rebuilds.has(claim) or not is_node_out_of_use(cycle.cluster, claim.selected_node):
                continue
            told_rebuilds.add(claim)
            self.reschedulings_total += 1
            why = why_rebuilt(cycle.cluster, claim)
            note = f"Volume of claim {claim.key} is to be rebuilt on another node: {why}; no node fits its pod now"
            yield framework.EventToRecord(claim, RESCHEDULING, "Scheduling", note)

    # -- one cluster --------------------------------------------------------------------------------------------------

    def fit_of(self, cluster: Cluster) -> volume_fit.VolumeFit:
        """This profile's rule for a cluster."""
        if self._fit is None or self._fit.cluster is not cluster:
            kind = HOLDS_BY_MODE.get(self.reservation)
            holds = cluster.index(kind) if kind is not None else None
            self._fit = volume_fit.VolumeFit(cluster, self._capacity, holds, is_joint=self.is_joint)
        return self._fit
