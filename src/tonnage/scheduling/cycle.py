"""One decision: which node a pod goes to, or why none.

    PreFilter ─► nominated node alone? ─► Filter all rows ─► nominated pods counted in ─► one left: that one
                                                                                      └► Score ─► best, ties by lot

Filters keep upstream's order: a row is refused by the first plugin that objects, and that plugin's reasons are what the
message counts. Row-local plugins are remembered by the pod's signature (`Memory`): an equal pod asks them again only
about rows whose version is newer. Everything is considered; no sampling.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster import Cluster
from tonnage.scheduling.columns import Ints, Mask, Rows
from tonnage.scheduling.diagnosis import NOBODY, Diagnosis
from tonnage.scheduling.framework import (
    Bits,
    Code,
    Cycle,
    FilterPlugin,
    Judgement,
    Narrowing,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    Status,
)
from tonnage.scheduling.pod_info import PodInfo

REMEMBERED = 128
"""Signatures whose masks and scores are kept; a workload has few kinds of pods at a time."""
_RECOMPUTE_ALL_FROM = 0.2
"""With a larger share of rows changed, asking about all of them in one go is cheaper."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The plugins of one profile that take part in a decision, in order. A score comes with its weight."""

    pre_filter: tuple[PreFilterPlugin, ...] = ()
    filter: tuple[FilterPlugin, ...] = ()
    pre_score: tuple[PreScorePlugin, ...] = ()
    score: tuple[tuple[ScorePlugin, int], ...] = ()


@dataclass(slots=True)
class Decision:
    """What came out. `row` and `node` are set when the pod fits somewhere; `diagnosis` says who refused which node."""

    cycle: Cycle
    node: str = ""
    row: int = -1
    feasible: int = 0
    """How many nodes passed the filters."""
    diagnosis: Diagnosis | None = None
    error: Status | None = None

    @property
    def fits(self) -> bool:
        return self.row >= 0


@dataclass(slots=True)
class _Remembered:
    """What row-local plugins said about one signature, as of `tick`."""

    tick: int
    first: npt.NDArray[np.int8]
    bits: Bits
    final: Mask
    reasons: list[tuple[str, ...]]
    scores_tick: int = -1
    scores: dict[str, Ints] = field(default_factory=dict)
    fixed_total: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The weighted sum of the scores that need no normalising."""


class Decider:
    """Decides for one profile. Keeps memory between decisions; all state of the cluster is the cluster's."""

    def __init__(self, pipeline: Pipeline, rng: random.Random) -> None:
        self._pipeline = pipeline
        self._rng = rng
        self._memory: OrderedDict[Hashable, _Remembered] = OrderedDict()

    def decide(self, cluster: Cluster, pod: PodInfo, nominated: Iterable[tuple[str, PodInfo]] = ()) -> Decision:
        """Find a node. `nominated` are (node name, pod) of other pods whose room must be respected."""
        cycle = Cycle(pod, cluster)
        if not cluster.count:
            refusal = Status(Code.UNSCHEDULABLE, ("no nodes available to schedule pods",))
            return Decision(cycle, diagnosis=Diagnosis(cluster, refusal=refusal))
        narrowed = self._pre_filter(cycle)
        if isinstance(narrowed, Status):
            return _refused(cycle, narrowed)
        held = _by_row(cluster, nominated, pod)
        wanted = cluster.row_of.get(pod.pod.status.nominated_node_name, -1)
        if wanted >= 0 and self._fits(cycle, wanted, held.get(wanted, ())):
            return Decision(cycle, cluster.name(wanted), wanted, 1)
        diagnosis = self._filter(cycle, narrowed)
        for row in held:
            if diagnosis.first[row] == NOBODY and cluster.exists[row]:
                self._hold(cycle, diagnosis, row, held[row])
        cycle.feasible = np.flatnonzero((diagnosis.first == NOBODY) & cluster.exists[: cluster.size])
        found = len(cycle.feasible)
        if not found:
            return Decision(cycle, diagnosis=diagnosis)
        row = int(cycle.feasible[0]) if found == 1 else self._best(cycle)
        return Decision(cycle, cluster.name(row), row, found, diagnosis)

    # -- filtering ----------------------------------------------------------------------------------------------------

    def _pre_filter(self, cycle: Cycle) -> Status | dict[str, frozenset[int]]:
        """Every plugin's first look; rows left in the race by plugin, or the refusal that ends the attempt."""
        narrowed: dict[str, frozenset[int]] = {}
        for plugin in self._pipeline.pre_filter:
            answer = plugin.pre_filter(cycle)
            if answer is None:
                continue
            if isinstance(answer, Narrowing):
                narrowed[plugin.name] = answer.rows
            elif answer.code is Code.SKIP:
                cycle.skip_filter.add(plugin.name)
            elif not answer.is_success:
                return Status(answer.code, answer.reasons, plugin.name)
        return narrowed

    def _filter(self, cycle: Cycle, narrowed: dict[str, frozenset[int]]) -> Diagnosis:
        """Judge every row; row-local answers come from memory where they still hold."""
        cluster = cycle.cluster
        plugins = self._pipeline.filter
        known = self._recall(cycle)
        diagnosis = Diagnosis(
            cluster,
            plugins=tuple(plugin.name for plugin in plugins),
            first=known.first.copy(),
            bits=known.bits.copy(),
            final=known.final.copy(),
            reasons=list(known.reasons),
        )
        for position, plugin in enumerate(plugins):
            if not plugin.row_local and plugin.name not in cycle.skip_filter:
                judgement = plugin.filter(cycle, cluster.all_rows)
                if judgement is not None:
                    diagnosis.add(position, judgement, cluster.all_rows)
        if narrowed:
            diagnosis.narrow(narrowed)
        return diagnosis

    def _recall(self, cycle: Cycle) -> _Remembered:
        cluster = cycle.cluster
        known = self._memory.get(cycle.pod.signature)
        if known is not None and len(known.first) == cluster.size:
            self._memory.move_to_end(cycle.pod.signature)
            if known.tick != cluster.tick:
                rows = _changed(cluster, known.tick)
                known.first[rows] = NOBODY
                known.bits[rows] = 0
                self._judge_local(cycle, known, rows)
                known.tick = cluster.tick
            return known
        known = _Remembered(
            cluster.tick,
            np.full(cluster.size, NOBODY, dtype=np.int8),
            np.zeros(cluster.size, dtype=np.int64),
            np.zeros(cluster.size, dtype=np.bool_),
            [()] * len(self._pipeline.filter),
        )
        self._judge_local(cycle, known, cluster.all_rows)
        self._memory[cycle.pod.signature] = known
        if len(self._memory) > REMEMBERED:
            self._memory.popitem(last=False)
        return known

    def _judge_local(self, cycle: Cycle, known: _Remembered, rows: Rows) -> None:
        table = Diagnosis(cycle.cluster, first=known.first, bits=known.bits, final=known.final, reasons=known.reasons)
        for position, plugin in enumerate(self._pipeline.filter):
            if plugin.row_local and plugin.name not in cycle.skip_filter:
                judgement = plugin.filter(cycle, rows)
                if judgement is not None:
                    table.add(position, judgement, rows)

    def _fits(self, cycle: Cycle, row: int, held: Sequence[PodInfo]) -> bool:
        """Does this one row pass, also with the pods that are nominated to it?"""
        if self._objection(cycle, row) is not None:
            return False
        return not held or self._objection_with(cycle, row, held) is None

    def _objection(self, cycle: Cycle, row: int) -> tuple[int, Judgement] | None:
        rows = np.array([row], dtype=np.intp)
        for position, plugin in enumerate(self._pipeline.filter):
            if plugin.name not in cycle.skip_filter:
                judgement = plugin.filter(cycle, rows)
                if judgement is not None and judgement.bits[0]:
                    return position, judgement
        return None

    def _objection_with(self, cycle: Cycle, row: int, held: Sequence[PodInfo]) -> tuple[int, Judgement] | None:
        """Judge a row as if the pods nominated to it were there already.

        They are put there for the question and taken away again; plugins that count pods look anew, in a cycle of
        their own, so that nothing of it stays.
        """
        cluster = cycle.cluster
        guests = [PodInfo(guest.pod) for guest in held if cluster.node_of(guest.uid) is None]
        for guest in guests:
            cluster.put_pod(guest, cluster.name(row))
        try:
            inner = Cycle(cycle.pod, cluster)
            if isinstance(self._pre_filter(inner), Status):
                return None  # the pod-level answer stands already; it does not depend on who is where
            return self._objection(inner, row)
        finally:
            for guest in guests:
                cluster.remove_pod(guest.uid)

    def _hold(self, cycle: Cycle, diagnosis: Diagnosis, row: int, held: Sequence[PodInfo]) -> None:
        objection = self._objection_with(cycle, row, held)
        if objection is not None:
            position, judgement = objection
            diagnosis.add(position, judgement, np.array([row], dtype=np.intp))

    # -- scoring ------------------------------------------------------------------------------------------------------

    def _best(self, cycle: Cycle) -> int:
        """The feasible row with the highest sum, ties by lot.

        Row-local scores that are not normalised are kept summed up; a normalised one that is 0 everywhere moves all
        nodes alike and is left out. What remains is a handful of additions, however many plugins there are.
        """
        self._pre_score(cycle)
        known = self._refreshed_scores(cycle)
        rows: Rows = cycle.feasible if len(cycle.feasible) < cycle.cluster.size else cycle.cluster.all_rows
        total = known.fixed_total[rows]
        for plugin, weight in self._pipeline.score:
            if plugin.name in cycle.skip_score:
                continue
            if not plugin.row_local:
                raw = plugin.score(cycle, cycle.feasible)
            elif plugin.normalizes and known.scores[plugin.name].any():
                raw = known.scores[plugin.name][rows]
            else:
                continue
            total = total + weight * (plugin.normalize(cycle, raw) if plugin.normalizes else raw)
        best = np.flatnonzero(total == total.max())
        return int(cycle.feasible[best[0] if len(best) == 1 else best[self._rng.randrange(len(best))]])

    def scores(self, cycle: Cycle) -> list[tuple[str, int, Ints]]:
        """(plugin, weight, normalised score of every feasible row) of all plugins that have a say, for `explain`."""
        self._pre_score(cycle)
        found = []
        for plugin, weight in self._pipeline.score:
            if plugin.name not in cycle.skip_score:
                raw = plugin.score(cycle, cycle.feasible)
                found.append((plugin.name, weight, plugin.normalize(cycle, raw) if plugin.normalizes else raw))
        return found

    def _pre_score(self, cycle: Cycle) -> None:
        for plugin in self._pipeline.pre_score:
            answer = plugin.pre_score(cycle)
            if answer is not None and answer.code is Code.SKIP:
                cycle.skip_score.add(plugin.name)

    def _refreshed_scores(self, cycle: Cycle) -> _Remembered:
        """Row-local scores of this signature, true for every row."""
        cluster, known = cycle.cluster, self._memory[cycle.pod.signature]
        local = [each for each in self._pipeline.score if each[0].row_local and each[0].name not in cycle.skip_score]
        rows: Rows = cluster.all_rows
        if known.scores_tick < 0:
            known.scores = {plugin.name: np.zeros(cluster.size, dtype=np.int64) for plugin, _ in local}
            known.fixed_total = np.zeros(cluster.size, dtype=np.int64)
        elif known.scores_tick == cluster.tick:
            return known
        else:
            rows = _changed(cluster, known.scores_tick)
        for plugin, _ in local:
            known.scores[plugin.name][rows] = plugin.score(cycle, rows)
        known.fixed_total[rows] = sum(
            weight * known.scores[plugin.name][rows] for plugin, weight in local if not plugin.normalizes
        )
        known.scores_tick = cluster.tick
        return known


def _changed(cluster: Cluster, since: int) -> Rows:
    """The rows that changed after a tick; all of them when they are so many that one pass is cheaper."""
    changed = np.flatnonzero(cluster.version[: cluster.size] > since)
    return changed if len(changed) <= _RECOMPUTE_ALL_FROM * cluster.size else cluster.all_rows


def _by_row(cluster: Cluster, nominated: Iterable[tuple[str, PodInfo]], pod: PodInfo) -> dict[int, list[PodInfo]]:
    """Pods of at least this pod's priority that are expected somewhere; those of lower priority have to wait."""
    held: dict[int, list[PodInfo]] = {}
    for name, other in nominated:
        row = cluster.row_of.get(name)
        if row is not None and other.priority >= pod.priority and other.uid != pod.uid:
            held.setdefault(row, []).append(other)
    return held


def _refused(cycle: Cycle, status: Status) -> Decision:
    if status.code is Code.ERROR:
        return Decision(cycle, error=status)
    return Decision(cycle, diagnosis=Diagnosis(cycle.cluster, refusal=status))
