"""DefaultPreemption: a pod that fits nowhere may replace pods of lower priority. Which node, and which victims?

    may the pod preempt? ─► rows that were refused for reasons pods can remove
                               ├─ only resources and ports are in the way: all at once
                               └─ anything else: one by one, by trying
                            ─► the cheapest (victims.py)

Mirrors the Evaluator of kube-scheduler 1.36 with its DefaultPreemption, messages included. It only finds victims; the
caller evicts them. Rows are tried from a random one on, until there are `min_candidates`, including those found by
sums, and one of them violates no PodDisruptionBudget. PreEnqueue blocks the pod while its victims are being deleted, as
the engine tells; otherwise it would look for another node with other victims.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

from tonnage.scheduling import framework
from tonnage.scheduling.cluster.columns import Mask
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.plugin_args import DefaultPreemptionArgs
from tonnage.scheduling.decision.answers import Diagnosis
from tonnage.scheduling.decision.nominated_room import PortsFilter, SumsFilter, looks_across_rows, takes_only_resources
from tonnage.scheduling.decision.scheduling_cycle import Decider
from tonnage.scheduling.events import SKIP as NO_HELP
from tonnage.scheduling.events import ActionType, ClusterEvent, EventResource
from tonnage.scheduling.preemption import victims
from tonnage.scheduling.preemption.ranked_residents import DisruptionBudgets, RankedResidents, RowNumbers

NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"

ORDINARY_TERMS: Final = 32
"""With up to this many affinity terms and spread constraints, a pod is tried on every row, like upstream."""
MAX_TERMS_ASKED: Final = 30_000
"""Beyond: the limit of terms over all questions of a search, during which no other pod is placed. A pod with 512 terms
took 3.7 s on 60 nodes with eight pods each, in proportion to the nodes; now half a second."""

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"


IN_PROGRESS = "waiting for the preemption for this pod to be finished"


class DefaultPreemption(framework.PostFilterPlugin, framework.PreEnqueuePlugin):
    name = "DefaultPreemption"
    decider: Decider
    rng: random.Random

    def __init__(self, args: DefaultPreemptionArgs | None = None) -> None:
        self._args = args or DefaultPreemptionArgs()
        self.preempting: set[str] = set()
        """The uids of pods whose victims are being deleted; the engine adds and removes them."""
        self.attempts_total = 0

    def connect(self, handle: framework.Handle) -> None:
        self.decider, self.rng = handle.decider, handle.rng

    def indexes(self) -> Iterable[type]:
        return (RankedResidents, DisruptionBudgets)

    def counters(self) -> Iterable[framework.PluginCounter]:
        told = "Attempts to make room by preempting pods of lower priority."
        yield framework.PluginCounter("scheduler_preemption_attempts", told, self.attempts_total)

    def pre_enqueue(self, pod: PodInfo) -> framework.Status:
        return framework.unresolvable(IN_PROGRESS) if pod.uid in self.preempting else framework.SUCCESS

    def events(self) -> Iterable[framework.EventHint]:
        """Deleted victims may let the pod past PreEnqueue; the plugins that refused it decide whether to try it."""
        return ((ClusterEvent(EventResource.POD, ActionType.DELETE), lambda pod, event, old, new: NO_HELP),)

    def post_filter(self, cycle: framework.Cycle, diagnosis: Diagnosis) -> framework.PostFilterResult:
        """Find a node and its victims for a pod that was refused everywhere. `diagnosis`: why, as of now."""
        if not hasattr(self, "decider"):
            raise RuntimeError(f"{self.name} was asked before it was connected to a profile")
        self.attempts_total += 1
        if told := ineligible(cycle, diagnosis):
            return _refused(told)
        if diagnosis.shared is None:
            return self._search(cycle, diagnosis)
        # If no room can be made for a pod, none can for an equal one; a found preemption is used once.
        asked = "preemption", cycle.pod.priority
        known: framework.PostFilterResult | None = diagnosis.shared.get(asked)
        if known is None:
            known = self._search(cycle, diagnosis)
            if not known.status.is_success:
                diagnosis.shared[asked] = known
        return known

    def _search(self, cycle: framework.Cycle, diagnosis: Diagnosis) -> framework.PostFilterResult:
        cluster, rows = cycle.cluster, diagnosis.resolvable_rows()
        refusals: Counter[str] = Counter()
        if (
            cycle.pod.priority <= cluster.index(RankedResidents).lowest
        ):  # no pod anywhere has lower priority: the usual case, without looking at rows
            if len(rows):
                refusals[victims.NO_VICTIMS] = len(rows)
            return _no_room(cluster.count, len(rows), refusals)
        summed, to_try = self._by_sums(cycle, diagnosis, rows)
        if summed is not None:
            refusals += summed.refusals
        tried = self._by_trying(cycle, to_try, self.min_candidates(len(rows)), summed, refusals)
        best = self._cheapest(cycle, summed, tried)
        if best is not None:
            return framework.PostFilterResult(framework.SUCCESS, cluster.name(best.row), best.victims, best.violations)
        return _no_room(cluster.count, len(rows), refusals)

    def min_candidates(self, rows: int) -> int:
        """The number of candidates after which the search may end. Mirrors calculateNumCandidates."""
        share = rows * self._args.min_candidate_nodes_percentage // 100
        return min(max(share, self._args.min_candidate_nodes_absolute), rows)

    # -- candidates ---------------------------------------------------------------------------------------------------

    def _by_sums(
        self, cycle: framework.Cycle, diagnosis: Diagnosis, rows: RowNumbers
    ) -> tuple[victims.CandidatesBySums | None, RowNumbers]:
        """The candidates among the rows that sums decide, and the other rows."""
        fit = self.decider.pipeline.sums
        if fit is None or diagnosis.refusal is not None or cycle.cluster.counts_large:
            return None, rows
        is_summed = self._is_summed(cycle, diagnosis, rows, fit)
        if not is_summed.any():
            return None, rows
        sums, expected, ports = fit.sums(cycle.pod), victims.expected_on(cycle), self._ports(cycle)
        reason = ports.reason if ports is not None else ""
        found = victims.CandidatesBySums(cycle.cluster, cycle.pod, sums, rows[is_summed], expected, port_reason=reason)
        return found, rows[~is_summed]

    def _ports(self, cycle: framework.Cycle) -> PortsFilter | None:
        """The filter of host ports, if the pod wants any."""
        ports = self.decider.pipeline.ports
        return None if ports is None or ports.name in cycle.skip_filter else ports

    def _is_summed(self, cycle: framework.Cycle, diagnosis: Diagnosis, rows: RowNumbers, fit: SumsFilter) -> Mask:
        """A mask over `rows`: True if every filter but `fit` and that of ports passes the row, whichever of its pods
        go, and the pods nominated there only take resources. Filters before the first that refused pass; those after
        it are asked."""
        filters, ports = self.decider.filters, self._ports(cycle)
        position = filters.index(fit)
        found: Mask = diagnosis.first[rows] == position
        if ports is not None:
            position = filters.index(ports)
            found |= diagnosis.first[rows] == position
        taking_part = [each for each in filters if each.name not in cycle.skip_filter]
        if not all(each.passes_with_fewer_pods(cycle) for each in taking_part):
            return np.zeros_like(found)
        for plugin in filters[position + 1 :]:
            if plugin is not fit and plugin.name not in cycle.skip_filter and found.any():
                judgement = plugin.filter(cycle, rows[found])
                if judgement is not None:
                    found[found] = judgement.bits == 0
        is_across = looks_across_rows(filters, cycle)
        others = [
            row
            for row, pods in victims.expected_on(cycle).items()
            if is_across or not all(takes_only_resources(cycle.pod, pod) for pod in pods)
        ]
        return found & ~np.isin(rows, others)

    def _by_trying(
        self,
        cycle: framework.Cycle,
        rows: RowNumbers,
        enough: int,
        summed: victims.CandidatesBySums | None,
        refusals: Counter[str],
    ) -> list[victims.Candidate]:
        found: list[victims.Candidate] = []
        counted = len(summed) if summed is not None else 0
        is_clean = summed is not None and summed.has_clean
        if counted + len(rows) > enough and len(rows):
            rows = np.roll(rows, -self.rng.randrange(len(rows)))
        terms = _terms(cycle.pod)
        left = MAX_TERMS_ASKED if terms > ORDINARY_TERMS else None
        for row in rows.tolist():
            if is_clean and counted >= enough:
                break
            if left is not None:
                lesser = sum(pod.priority < cycle.pod.priority for pod in cycle.cluster.residents[row].values())
                left -= terms * (lesser + 1 if lesser else 0)  # without all of them, and for each that comes back
                if left < 0:
                    told = f"node(s) were not tried, for the pod has {terms} affinity terms and spread constraints"
                    refusals[f"{told}: a search asks {MAX_TERMS_ASKED}"] += 1
                    continue
            answer = victims.victims_on(self.decider, cycle, row)
            if isinstance(answer, victims.Candidate):
                found.append(answer)
                counted += 1
                is_clean = is_clean or not answer.violations
            else:
                refusals.update(answer)
        return found

    def _cheapest(
        self, cycle: framework.Cycle, summed: victims.CandidatesBySums | None, tried: list[victims.Candidate]
    ) -> victims.Candidate | None:
        """The cheapest candidate. A candidate found by sums is tried once, because plugins may break their promises; if
        it fails, the result of trying its row replaces it."""
        best_tried = min(tried, key=lambda each: each.cost, default=None)
        while summed is not None and (best := summed.best()) is not None:
            if best_tried is not None and best_tried.cost < best.cost:
                break
            if victims.fits_without(self.decider, cycle, best.row, best.victims):
                return best
            summed.drop(best.row)
            answer = victims.victims_on(self.decider, cycle, best.row)
            if isinstance(answer, victims.Candidate) and (best_tried is None or answer.cost < best_tried.cost):
                best_tried = answer
        return best_tried


def _terms(pod: PodInfo) -> int:
    """The parts of a pod that every question about it reads again."""
    spec = pod.pod.spec
    near, apart = spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity
    lists = (near.required, near.preferred, apart.required, apart.preferred, spec.topology_spread_constraints)
    return sum(map(len, lists))


def ineligible(cycle: framework.Cycle, diagnosis: Diagnosis) -> str:
    """Why the pod may not preempt; empty if it may. It waits for terminating victims, unless their node has become
    impossible. Mirrors PodEligibleToPreemptOthers."""
    pod, cluster = cycle.pod, cycle.cluster
    if pod.pod.spec.preemption_policy == "Never":
        return NEVER
    row = cluster.row_of.get(pod.pod.status.nominated_node_name, -1)
    if row < 0:
        return ""
    refusal = diagnosis.refusal
    if refusal.code is framework.Code.UNRESOLVABLE if refusal is not None else diagnosis.final[row]:
        return ""
    there = cluster.residents[row].values()
    return TERMINATING if any(each.priority < pod.priority and is_being_preempted(each) for each in there) else ""


def is_being_preempted(pod: PodInfo) -> bool:
    """True if the pod is terminating because a scheduler preempted it. Mirrors podTerminatingByPreemption."""
    if not pod.is_terminating:
        return False
    target = pod.pod.condition(DISRUPTION_TARGET)
    return target is not None and target.status == "True" and target.reason == PREEMPTED


def _no_room(nodes: int, looked_at: int, refusals: Counter[str]) -> framework.PostFilterResult:
    if looked_at < nodes:
        refusals[NOT_HELPFUL] += nodes - looked_at
    told = ", ".join(sorted(f"{count} {reason}" for reason, count in refusals.items()))
    return _refused(f"0/{nodes} nodes are available: {told}.", withdraws=True)


def _refused(told: str, *, withdraws: bool = False) -> framework.PostFilterResult:
    status = framework.Status(framework.Code.UNSCHEDULABLE, (f"preemption: {told}",))
    return framework.PostFilterResult(status, withdraws_nomination=withdraws)
