"""What row-local plugins said, remembered by what they could see of the pod.

    node_constraints  ──►  NodeOnlyAnswer   what node-only plugins say; asked again when a row's node changes
    signature         ──►  RowAnswers       that, and what other row-local plugins say; asked again when a row changes

An equal pod finds its answer and asks about the rows that changed since, usually the one that took the pod before it.
Scores are kept for the rows that pass: `total` is `UNFIT` on all others, and the best row has the highest total.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence, Set
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Mask, Rows, grown, only_row
from tonnage.scheduling.decision.diagnosis import NOBODY, Diagnosis, FilterResults
from tonnage.scheduling.framework import Cycle, FilterPlugin, Plugin, ScorePlugin

REMEMBERED = 128
"""Kinds of pods whose masks and scores are kept; a workload has few kinds of pods at a time."""
BLOCK = 64
"""Rows of which the highest total is kept; the capacity of a cluster is a multiple of it."""
UNFIT = -(1 << 62)
"""The total of a row that did not pass: less than any sum of scores, and still so when scores are added to it."""

P = TypeVar("P", bound=Plugin)
T = TypeVar("T")

Filters = tuple[tuple[FilterPlugin, int], ...]
"""Filters with their positions in the profile."""
Scores = tuple[tuple[ScorePlugin, int], ...]
"""Score plugins with their weights."""


class NodeOnlyAnswer:
    """What node-only plugins said to pods with the same node constraints."""

    def __init__(self, cluster: Cluster, filters: int, judged_by: Filters) -> None:
        self.judged_by = judged_by
        self.judged_at = -1
        self.results = FilterResults.none(cluster.capacity, filters)
        self.scored_by: Scores | None = None
        self.scored_at = -1
        self.raw: dict[str, Ints] = {}
        """Scores that are yet to be normalised, by plugin; one that gave every row 0 is left out."""
        self.total: Ints | None = None
        """The weighted sum of the others; None when there are none."""

    def grow(self, capacity: int) -> None:
        self.results.grow(capacity)
        self.raw = {name: grown(scores, capacity) for name, scores in self.raw.items()}
        self.total = None if self.total is None else grown(self.total, capacity)


class RowAnswers:
    """What all row-local plugins said to pods with the same signature."""

    def __init__(self, cluster: Cluster, node_answer: NodeOnlyAnswer, judged_by: Filters) -> None:
        held = node_answer.results
        self.node_answer = node_answer
        self.judged_by = judged_by
        self.judged_at = -1
        # The reasons of node-only plugins stay with the NodeOnlyAnswer, whose tables go on growing.
        self.results = FilterResults(held.first.copy(), held.bits.copy(), held.final.copy(), [()] * len(held.reasons))
        self.passes: Mask = np.zeros(cluster.capacity, dtype=np.bool_)
        self.count = 0
        """How many rows pass."""
        self.refusal: Diagnosis | None = None
        """Why no row passes, as it was told at `refused_at`: the same for all pods with this answer."""
        self.refused_at = -1
        self.scored_by: Scores | None = None
        self.scored_at = -1
        self.raw: dict[str, Ints] = {}
        self.total: Ints = np.full(cluster.capacity, UNFIT, dtype=np.int64)
        """The weighted sum of all scores that need no normalising; `UNFIT` where the row does not pass."""
        self.peaks: Ints = np.full(cluster.capacity // BLOCK, UNFIT, dtype=np.int64)
        """The highest total of each block of rows."""

    def grow(self, capacity: int) -> None:
        self.results.grow(capacity)
        self.passes = grown(self.passes, capacity)
        known, self.total = self.total, np.full(capacity, UNFIT, dtype=np.int64)
        self.total[: len(known)] = known
        self.peaks = self.total.reshape(-1, BLOCK).max(axis=1)
        self.raw = {name: grown(scores, capacity) for name, scores in self.raw.items()}

    def set_totals(self, rows: Rows, totals: Ints) -> None:
        self.total[rows] = totals
        if (row := only_row(rows)) >= 0:
            block = row // BLOCK
            self.peaks[block] = self.total[block * BLOCK : (block + 1) * BLOCK].max()
        else:
            self.peaks = self.total.reshape(-1, BLOCK).max(axis=1)

    def best_rows(self) -> npt.NDArray[np.intp]:
        """The rows with the highest total, in order. Only the blocks that have it are searched."""
        best = self.peaks.max()
        blocks = (self.peaks == best).nonzero()[0]
        places, columns = (self.total.reshape(-1, BLOCK)[blocks] == best).nonzero()
        found: npt.NDArray[np.intp] = blocks[places] * BLOCK + columns
        return found

    @property
    def has_raw_scores(self) -> bool:
        """Some plugin's scores are yet to be normalised, and were not 0 everywhere when they were made."""
        return bool(self.raw or self.node_answer.raw)

    def raw_scores(self, plugin: str) -> Ints | None:
        """A plugin's scores before normalising, true where the row passes; None when it gave every row 0."""
        found = self.raw.get(plugin)
        if found is None:
            found = self.node_answer.raw.get(plugin)
        return found if found is not None and found.any() else None

    def told(self, size: int) -> FilterResults:
        """What is held against the rows below `size`, as a table of its own."""
        held = self.results
        reasons = [mine or theirs for mine, theirs in zip(held.reasons, self.node_answer.results.reasons, strict=True)]
        return FilterResults(held.first[:size].copy(), held.bits[:size].copy(), held.final[:size].copy(), reasons)

    def refusal_for(self, cluster: Cluster, plugins: tuple[str, ...]) -> Diagnosis:
        """Why no row passes, for a pod to whom nobody else objects. Equal pods share what was concluded from it
        (`Diagnosis.shared`) until a row changes.
        """
        if self.refusal is None or self.refused_at != self.judged_at:
            self.refusal = Diagnosis(cluster, plugins=plugins, results=self.told(cluster.size))
            self.refusal.shared = {}
            self.refused_at = self.judged_at
        return self.refusal


class AnswerCache:
    """The answers of one profile, for one cluster at a time."""

    def __init__(self, filters: Sequence[FilterPlugin], scores: Scores) -> None:
        placed: Filters = tuple((plugin, position) for position, plugin in enumerate(filters))
        self._filters = len(filters)
        self._node_filters = _Heard([each for each in placed if _is_node_only(each[0])])
        self._row_filters = _Heard([each for each in placed if each[0].row_local and not _is_node_only(each[0])])
        self._node_scores = _Heard([each for each in scores if _is_node_only(each[0])])
        self._row_scores = _Heard([each for each in scores if each[0].row_local and not _is_node_only(each[0])])
        self._cluster: Cluster | None = None
        self._node_answers: _Latest[NodeOnlyAnswer] = _Latest()
        self._answers: _Latest[RowAnswers] = _Latest()

    # -- filters ------------------------------------------------------------------------------------------------------

    def answer_for(self, cycle: Cycle) -> RowAnswers:
        """The answer to this cycle's pod, true for every row now."""
        cluster = cycle.cluster
        if cluster is not self._cluster:  # another cluster's rows mean nothing here
            self._cluster = cluster
            self._node_answers, self._answers = _Latest(), _Latest()
        node_answer = self._node_answer(cycle)
        judged_by = self._row_filters.by(cycle.skip_filter, cycle.unshared)
        answer = self._answers.get(cycle.signature)
        if answer is None or answer.node_answer is not node_answer or answer.judged_by != judged_by:
            answer = RowAnswers(cluster, node_answer, judged_by)
            self._judge_rows(cycle, answer, cluster.all_rows)
            self._answers.put(cycle.signature, answer)
        elif answer.judged_at != cluster.changes.tick:
            if len(answer.passes) < cluster.capacity:
                answer.grow(cluster.capacity)
            rows = cluster.changes.since(answer.judged_at, cluster.size)
            answer.results.take(node_answer.results, rows)
            self._judge_rows(cycle, answer, rows)
        return answer

    def _node_answer(self, cycle: Cycle) -> NodeOnlyAnswer:
        cluster = cycle.cluster
        judged_by = self._node_filters.by(cycle.skip_filter)
        node_answer = self._node_answers.get(cycle.pod.node_constraints)
        if node_answer is None or node_answer.judged_by != judged_by:
            node_answer = NodeOnlyAnswer(cluster, self._filters, judged_by)
            _judge(cycle, node_answer.results, judged_by, cluster.all_rows)
            self._node_answers.put(cycle.pod.node_constraints, node_answer)
        elif node_answer.judged_at != cluster.node_changes.tick:
            if len(node_answer.results.first) < cluster.capacity:
                node_answer.grow(cluster.capacity)
            rows = cluster.node_changes.since(node_answer.judged_at, cluster.size)
            node_answer.results.clear(rows)
            _judge(cycle, node_answer.results, judged_by, rows)
        node_answer.judged_at = cluster.node_changes.tick
        return node_answer

    def _judge_rows(self, cycle: Cycle, answer: RowAnswers, rows: Rows) -> None:
        """Ask the plugins that look at more than the node about rows that hold their node_answer's results."""
        cluster = cycle.cluster
        _judge(cycle, answer.results, answer.judged_by, rows)
        passes = (answer.results.first[rows] == NOBODY) & cluster.exists[rows]
        answer.count += int(np.count_nonzero(passes)) - int(np.count_nonzero(answer.passes[rows]))
        answer.passes[rows] = passes
        answer.judged_at = cluster.changes.tick

    # -- scores -------------------------------------------------------------------------------------------------------

    def score(self, cycle: Cycle, answer: RowAnswers) -> None:
        """Bring an answer that was just looked up to the scores of now. PreScore has run."""
        cluster = cycle.cluster
        self._score_node_answer(cycle, answer.node_answer)
        scored_by = self._row_scores.by(cycle.skip_score, cycle.unshared)
        if answer.scored_by != scored_by:
            answer.scored_by, answer.raw = None, {}  # until all of them have answered: one that raises is asked again
            answer.total.fill(UNFIT)
            rows: Rows = cluster.all_rows
            if answer.count < cluster.size // 2:
                rows = np.flatnonzero(answer.passes[: cluster.size])
        elif answer.scored_at != cluster.changes.tick:
            rows = cluster.changes.since(answer.scored_at, cluster.size)
        else:
            return
        total = _scored(cycle, scored_by, answer.raw, rows)
        if answer.node_answer.total is not None:
            total = total + answer.node_answer.total[rows]
        answer.set_totals(rows, np.where(answer.passes[rows], total, UNFIT))
        answer.scored_by, answer.scored_at = scored_by, cluster.changes.tick

    def _score_node_answer(self, cycle: Cycle, node_answer: NodeOnlyAnswer) -> None:
        cluster = cycle.cluster
        scored_by = self._node_scores.by(cycle.skip_score)
        if node_answer.scored_by != scored_by:
            node_answer.scored_by, node_answer.raw = None, {}
            adds_up = not all(plugin.normalizes for plugin, _ in scored_by)
            node_answer.total = np.zeros(cluster.capacity, dtype=np.int64) if adds_up else None
            rows: Rows = cluster.all_rows
        elif node_answer.scored_at != cluster.node_changes.tick:
            rows = cluster.node_changes.since(node_answer.scored_at, cluster.size)
        else:
            return
        total = _scored(cycle, scored_by, node_answer.raw, rows)
        if node_answer.total is not None:
            node_answer.total[rows] = total
        node_answer.scored_by, node_answer.scored_at = scored_by, cluster.node_changes.tick


def _is_node_only(plugin: Plugin) -> bool:
    return plugin.row_local and plugin.node_only


class _Heard(Generic[P]):
    """Plugins, and those of them that have a say about a pod which others may share: for equal pods the same."""

    def __init__(self, plugins: Sequence[tuple[P, int]]) -> None:
        self._all = tuple(plugins)
        self._skipped: Set[str] = frozenset()
        self._left = self._all

    def by(self, skipped: Set[str], unshared: Set[str] = frozenset()) -> tuple[tuple[P, int], ...]:
        """All but those that are skipped, and those whose answers are for this pod alone."""
        if unshared:
            skipped = skipped | unshared
        if skipped != self._skipped:
            self._skipped = frozenset(skipped)
            self._left = tuple([each for each in self._all if each[0].name not in skipped])
        return self._left


def _judge(cycle: Cycle, results: FilterResults, filters: Filters, rows: Rows) -> None:
    for plugin, position in filters:
        judgement = cycle.run("Filter", plugin, plugin.filter, cycle, rows)
        if judgement is not None:
            results.add(position, judgement, rows)


def _scored(cycle: Cycle, plugins: Scores, raw: dict[str, Ints], rows: Rows) -> Ints | int:
    """The weighted sum of the scores that need no normalising; the others are written down in `raw`."""
    total: Ints | int = 0
    for plugin, weight in plugins:
        scores = cycle.run("Score", plugin, plugin.score, cycle, rows)
        if not plugin.normalizes:
            total = total if scores is None else total + (scores if weight == 1 else weight * scores)
        else:
            _keep_raw(cycle, raw, plugin.name, rows, 0 if scores is None else scores)
    return total


def _keep_raw(cycle: Cycle, raw: dict[str, Ints], plugin: str, rows: Rows, found: Ints | int) -> None:
    """Write down scores that are yet to be normalised; nothing is kept of a plugin that gave every row 0 so far."""
    if plugin in raw:
        raw[plugin][rows] = found
    elif np.any(found):
        kept = raw[plugin] = np.zeros(cycle.cluster.capacity, dtype=np.int64)
        kept[rows] = found


class _Latest(Generic[T]):
    """The things asked for latest, by what they are remembered by."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, thing: T) -> None:
        self._kept[key] = thing
        if len(self._kept) > REMEMBERED:
            self._kept.popitem(last=False)
