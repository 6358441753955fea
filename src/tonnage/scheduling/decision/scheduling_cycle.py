"""One decision: which node a pod goes to, or why none.

    PreFilter ─► nominated node alone? ─► Filter all rows ─► nominated pods counted in ─► others are preferred to nodes
                                                           that failed the pod lately ─► one left: that one
                                                           └► Score ─► a row that a plugin prefers, the best, by lot

Filters keep upstream's order: the first plugin that refuses a row counts, and the message has its reasons. Answers of
row-local plugins are cached for equal pods (answers.py); the other plugins run every time. All nodes are
considered; there is no sampling.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tonnage import logs
from tonnage.keyed import grouped
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Mask, Rows
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.answers import NARROWED, NOBODY, UNFIT, AnswerCache, Diagnosis, RowAnswers
from tonnage.scheduling.decision.nominated_room import PortsFilter, SumsFilter, judge_by_sums, not_yet_counted, visiting
from tonnage.scheduling.framework import (
    Code,
    Cycle,
    FilterPlugin,
    Judgement,
    Narrowing,
    PluginTimes,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    Status,
)

_log = logs.logger("tonnage.scheduler")


class Prefers(Enum):
    """What a plugin's preference among rows decides, besides their scores."""

    NOTHING = "nothing: all rows are alike to it"
    AMONG_EQUALS = "among equals: which of the rows with the best total is taken"
    BEFORE_SCORES = "before scores: a row that it prefers is taken, whatever the totals are"


class Preference(Protocol):
    """A plugin that prefers rows besides their scores: VolumeBinding, by how surely the volumes fit."""

    def prefers(self, cycle: Cycle) -> Prefers:
        """What `preference` decides for this pod: nothing, ties of the best total, or more than the totals."""
        ...

    def preference(self, cycle: Cycle, rows: npt.NDArray[np.intp]) -> Ints | None:
        """By row, the preference besides the score: 0 is best, less is worse. None: all rows are alike."""
        ...


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The plugins of one profile that take part in a decision, in order. Score plugins come with their weights."""

    pre_filter: tuple[PreFilterPlugin, ...] = ()
    filter: tuple[FilterPlugin, ...] = ()
    pre_score: tuple[PreScorePlugin, ...] = ()
    score: tuple[tuple[ScorePlugin, int], ...] = ()
    preferring: Preference | None = None
    """The plugin with a preference besides scores."""
    sums: SumsFilter | None = None
    """The filter that sums decide, if the answers of all others are known not to depend on sums."""
    ports: PortsFilter | None = None
    """The filter of host ports, if there is one before the filter of sums."""


@dataclass(slots=True)
class Decision:
    """The result of a decision. `diagnosis`: which plugin refused which node, if no node is left or it was asked for;
    None if the pod goes to its nominated node."""

    cycle: Cycle
    node: str = ""
    row: int = -1
    feasible: int = 0
    """How many nodes passed the filters."""
    passed_over: tuple[int, ...] = ()
    """Passing rows that were left out, because others passed."""
    diagnosis: Diagnosis | None = None
    error: Status | None = None

    @property
    def fits(self) -> bool:
        return self.row >= 0


class Decider:
    """Decides for one profile. Between decisions it only keeps an answer cache; all other state is the cluster's."""

    def __init__(self, pipeline: Pipeline, rng: random.Random) -> None:
        self.pipeline = pipeline
        self.filters = pipeline.filter
        self._rng = rng
        self._cache = AnswerCache(pipeline.filter, pipeline.score)
        self._not_cached = [(place, plugin) for place, plugin in enumerate(pipeline.filter) if not plugin.row_local]
        self._noting = tuple(
            (position, plugin)
            for position, plugin in enumerate(pipeline.filter)
            if type(plugin).refusal_note is not FilterPlugin.refusal_note
        )

    def decide(
        self,
        cluster: Cluster,
        pod: PodInfo,
        nominated: Iterable[tuple[str, PodInfo]] = (),
        *,
        passed_over: Collection[str] = (),
        diagnose: bool = False,
        times: PluginTimes | None = None,
    ) -> Decision:
        """Find a node. `nominated`: (node name, pod) of other pods whose room must be respected.

        `passed_over`: nodes chosen only if no other passes. `diagnose`: also say for a pod that fits why other nodes
        were refused. `times` measures the plugins.
        """
        cycle = Cycle(pod, cluster)
        cycle.times = times
        held = cycle.nominated = _by_row(cluster, nominated, pod)
        if not cluster.count:
            refusal = Status(Code.UNSCHEDULABLE, ("no nodes available to schedule pods",))
            return Decision(cycle, diagnosis=Diagnosis(cluster, refusal=refusal))
        narrowed = self._pre_filter(cycle)
        if isinstance(narrowed, Status):
            if narrowed.code is Code.ERROR:
                return Decision(cycle, error=narrowed)
            return Decision(cycle, diagnosis=Diagnosis(cluster, refusal=narrowed))
        wanted = cluster.row_of.get(pod.pod.status.nominated_node_name, -1)
        last = [cluster.row_of[name] for name in passed_over if name in cluster.row_of] if passed_over else ()
        if wanted >= 0 and wanted not in last and self._fits(cycle, wanted, held.get(wanted, ())):
            return Decision(cycle, cluster.name(wanted), wanted, 1)
        answer = self._cache.answer_for(cycle)
        found, diagnosis = answer.count, None
        unshared, skipped = cycle.unshared, cycle.skip_filter
        asked = [
            (position, plugin)
            for position, plugin in (enumerate(self.filters) if unshared else self._not_cached)
            if plugin.name not in skipped and (not plugin.row_local or plugin.name in unshared)
        ]
        if asked or narrowed or held or diagnose:
            diagnosis = self._diagnose(cycle, answer, asked, narrowed, held)
            cycle.passing = (diagnosis.first == NOBODY) & cluster.exists[: cluster.size]
            found = int(np.count_nonzero(cycle.passing))
        else:
            cycle.passing = answer.passes[: cluster.size].copy()  # the cache's own array changes with the next pod
        if not found:
            diagnosis = diagnosis or answer.refusal_now()
            if self._noting and diagnosis.note_of is None:
                diagnosis.note_of = partial(self._note, cycle)
            return Decision(cycle, diagnosis=diagnosis)
        left_out = _left_out(cycle, cycle.passing, last, found) if last else ()
        preferred = found - len(left_out)
        if preferred == 1:
            row = int(cycle.passing.argmax())
        elif (failure := self._pre_score(cycle)) is not None:
            return Decision(cycle, error=failure)
        else:
            row = self._best(cycle, answer, preferred)
        return Decision(cycle, cluster.name(row), row, found, left_out, diagnosis if diagnose else None)

    def _note(self, cycle: Cycle, diagnosis: Diagnosis) -> str:
        found: list[str] = []
        for position, plugin in self._noting:
            if plugin.name not in cycle.skip_filter and (refused := diagnosis.rows_by_reason(position)):
                try:
                    found.append(plugin.refusal_note(cycle, refused))
                except Exception:  # then the reasons come without a note
                    _log.exception("A plugin failed", plugin=plugin.name, pod=cycle.pod.key)
        return " ".join([each for each in found if each])

    # -- filtering ----------------------------------------------------------------------------------------------------

    def _pre_filter(self, cycle: Cycle) -> Status | dict[str, frozenset[int]]:
        """Run PreFilter. Returns the remaining rows by plugin, or the refusal that ends the attempt. Mirrors
        RunPreFilterPlugins: after a refusal that preemption may help, the other plugins still run."""
        narrowed: dict[str, frozenset[int]] = {}
        refusal: Status | None = None
        for plugin in self.pipeline.pre_filter:
            ask = plugin.pre_filter
            answer = ask(cycle) if cycle.times is None else cycle.run("PreFilter", plugin, ask, cycle)
            if answer is None:
                continue
            if isinstance(answer, Narrowing):
                narrowed[plugin.name] = answer.rows
                if len(narrowed) > 1 and all(narrowed.values()) and not frozenset.intersection(*narrowed.values()):
                    names = sorted(narrowed)
                    reason = f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"
                    return Status(Code.UNRESOLVABLE, (reason,), ", ".join(names))
            elif answer.code is Code.SKIP:
                cycle.skip_filter.add(plugin.name)
            elif answer.code is Code.UNSCHEDULABLE:
                refusal = Status(answer.code, answer.reasons, plugin.name)
            elif not answer.is_success:
                return plugin_status("PreFilter", plugin.name, answer)
        return narrowed if refusal is None else refusal

    def _diagnose(
        self,
        cycle: Cycle,
        answer: RowAnswers,
        cross_filters: Sequence[tuple[int, FilterPlugin]],
        narrowed: dict[str, frozenset[int]],
        held: dict[int, list[PodInfo]],
    ) -> Diagnosis:
        """All refusals of all rows."""
        cluster = cycle.cluster
        diagnosis = answer.results.copied()
        for position, plugin in cross_filters:
            judgement = cycle.run("Filter", plugin, plugin.filter, cycle, cluster.all_rows)
            if judgement is not None:
                diagnosis.add(position, judgement, cluster.all_rows)
        if narrowed:
            diagnosis.narrow(narrowed)
        for row, pods in judge_by_sums(self.filters, self.pipeline.sums, cycle, diagnosis, held).items():
            self._judge_with_nominated(cycle, diagnosis, row, pods)
        return diagnosis

    def _fits(self, cycle: Cycle, row: int, held: Sequence[PodInfo]) -> bool:
        """True if this row passes, also with the pods nominated to it."""
        if self.first_refusal(cycle, row) is not None:
            return False
        return not held or self._refusal_with_nominated(cycle, row, held) is None

    def fits_on(self, cluster: Cluster, pod: PodInfo, row: int, ahead: Sequence[PodInfo] = ()) -> bool:
        """True if one row would take the pod now, also beside the pods in `ahead`; nothing is cached."""
        cycle = self.new_cycle(cluster, pod)
        return not isinstance(cycle, Status) and self._fits(cycle, row, ahead)

    def new_cycle(self, cluster: Cluster, pod: PodInfo, nominated_here: Sequence[PodInfo] = ()) -> Cycle | Status:
        """A new cycle with PreFilter done, for a hypothetical cluster; or the refusal. `nominated_here`: pods that were
        put on the row in question."""
        cycle = Cycle(pod, cluster)
        cycle.nominated_here = nominated_here
        refusal = self._pre_filter(cycle)
        return refusal if isinstance(refusal, Status) else cycle

    def first_refusal(self, cycle: Cycle, row: int) -> tuple[int, Judgement] | None:
        """The position of the first filter that refuses a row, and its judgement; nothing is cached."""
        for position, plugin in enumerate(self.pipeline.filter):
            if plugin.name not in cycle.skip_filter:
                judgement = cycle.run("Filter", plugin, plugin.filter, cycle, slice(row, row + 1))
                if judgement is not None and judgement.bits[0]:
                    return position, judgement
        return None

    def _refusal_with_nominated(self, cycle: Cycle, row: int, held: Sequence[PodInfo]) -> tuple[int, Judgement] | None:
        """Judge a row as if the pods nominated to it were there."""
        added = not_yet_counted(cycle.cluster, row, held)
        refusal = self.refusal_beside(cycle, row, added) if added else None
        # The pod-level answer is known and does not depend on other pods.
        return None if isinstance(refusal, Status) else refusal

    def refusal_beside(
        self, cycle: Cycle, row: int, guests: Sequence[PodInfo] = ()
    ) -> Status | tuple[int, Judgement] | None:
        """PreFilter's refusal or the first of a filter, if these pods were on the row; None if the row passes."""
        with visiting(cycle.cluster, guests, row):
            inner = self.new_cycle(cycle.cluster, cycle.pod, guests)
            return inner if isinstance(inner, Status) else self.first_refusal(inner, row)

    def _judge_with_nominated(self, cycle: Cycle, diagnosis: Diagnosis, row: int, held: Sequence[PodInfo]) -> None:
        """Judge a row with its nominated pods first: its refusal then is the one that counts."""
        if diagnosis.first[row] == NARROWED:
            return
        refusal = self._refusal_with_nominated(cycle, row, held)
        if refusal is not None:
            position, judgement = refusal
            if diagnosis.first[row] == NOBODY:
                diagnosis.held_by[row] = tuple(not_yet_counted(cycle.cluster, row, held))
            diagnosis.clear(slice(row, row + 1))
            diagnosis.add(position, judgement, slice(row, row + 1))

    # -- scoring ------------------------------------------------------------------------------------------------------

    def _best(self, cycle: Cycle, answer: RowAnswers, found: int) -> int:
        """The feasible row with the highest sum, ties by lot. PreScore has run.

        The sum of row-local scores is cached. Feasible rows are listed only for normalised scores, and for refusals
        that the cached answer lacks; a normalised score that is 0 everywhere is left out.
        """
        cluster = cycle.cluster
        self._cache.score(cycle, answer)
        # Nearly always every node passes, and nothing has to be gathered.
        rows: Rows = cluster.all_rows if found == cluster.size else cycle.feasible
        parts: list[tuple[ScorePlugin, int, Ints]] = []
        for plugin, weight in self.pipeline.score:
            if plugin.name in cycle.skip_score:
                continue
            if not plugin.row_local or plugin.name in cycle.unshared:
                scores = cycle.run("Score", plugin, plugin.score, cycle, rows)
            elif (raw := answer.raw.get(plugin.name)) is not None and raw.any():
                scores = raw[rows]
            else:
                continue
            if scores is not None:
                parts.append((plugin, weight, scores))
        if not parts and found == answer.count:
            rows = cluster.all_rows  # the other rows are UNFIT
        total = answer.totals[rows]
        for plugin, weight, scores in parts:
            total = total + weight * (plugin.normalize(cycle, scores) if plugin.normalizes else scores)
        best = (total == total.max()).nonzero()[0]
        if not isinstance(rows, slice):
            best = rows[best]
        if (wishing := self.pipeline.preferring) is not None:
            best = _preferred(cycle, wishing, best, rows, total)
        return int(best[0] if len(best) == 1 else best[self._rng.randrange(len(best))])

    def scores(self, cycle: Cycle) -> list[tuple[str, int, Ints]]:
        """(plugin, weight, normalised score of every feasible row) of all plugins that take part, for `explain`."""
        self._pre_score(cycle)
        found = []
        for plugin, weight in self.pipeline.score:
            if plugin.name not in cycle.skip_score:
                raw = plugin.score(cycle, cycle.feasible)
                scores = np.zeros(len(cycle.feasible), dtype=np.int64) if raw is None else raw
                found.append((plugin.name, weight, plugin.normalize(cycle, scores) if plugin.normalizes else scores))
        return found

    def _pre_score(self, cycle: Cycle) -> Status | None:
        """Run PreScore on the feasible rows. Returns the first failure, or None."""
        for plugin in self.pipeline.pre_score:
            ask = plugin.pre_score
            answer = ask(cycle) if cycle.times is None else cycle.run("PreScore", plugin, ask, cycle)
            if answer is None:
                continue
            if answer.code is Code.SKIP:
                cycle.skip_score.add(plugin.name)
            elif not answer.is_success:
                return plugin_status("PreScore", plugin.name, Status(Code.ERROR, answer.reasons))
        return None


def _by_row(cluster: Cluster, nominated: Iterable[tuple[str, PodInfo]], pod: PodInfo) -> dict[int, list[PodInfo]]:
    """By row, nominated pods of at least this pod's priority; pods of lower priority must wait."""
    others = ((name, other) for name, other in nominated if other.priority >= pod.priority and other.uid != pod.uid)
    return grouped((row, other) for name, other in others if (row := cluster.row_of.get(name)) is not None)


def _left_out(cycle: Cycle, passing: Mask, last: Iterable[int], found: int) -> tuple[int, ...]:
    """Remove rows that should be chosen last, if other rows pass. Returns the removed rows."""
    rows = tuple(row for row in last if passing[row])
    if len(rows) == found:
        return ()
    passing[list(rows)] = False
    cycle.feasible = np.flatnonzero(passing)
    return rows


def _preferred(
    cycle: Cycle, plugin: Preference, best: npt.NDArray[np.intp], rows: Rows, total: Ints
) -> npt.NDArray[np.intp]:
    """The rows that a plugin prefers among those with the best total. A plugin that decides before totals is asked
    about other rows only if none of the best has its best preference."""
    prefers = plugin.prefers(cycle)
    if prefers is Prefers.NOTHING or (prefers is Prefers.AMONG_EQUALS and len(best) == 1):
        return best
    preference = plugin.preference(cycle, best)
    if preference is None:
        return best
    if prefers is Prefers.BEFORE_SCORES and (most := preference.max()) < 0:
        among_all = plugin.preference(cycle, cycle.feasible)
        if among_all is not None and among_all.max() > most:
            totals = np.full(cycle.cluster.size, UNFIT, dtype=np.int64)
            totals[rows] = total
            best = cycle.feasible[among_all == among_all.max()]
            preference = totals[best]
    preferred: npt.NDArray[np.intp] = best[preference == preference.max()]
    return preferred


def plugin_status(point: str, plugin: str, status: Status) -> Status:
    """A plugin's status with its name; an error also names the extension point."""
    if status.code is Code.ERROR:
        return Status(Code.ERROR, (f'running {point} plugin "{plugin}": {status.message}',), plugin)
    return Status(status.code, status.reasons, plugin)
