"""A cache of the answers of row-local plugins, by what they read of the pod (`Cycle.signature`).

For an equal pod, only rows that changed since are asked again, usually the row that took the last pod. Scores are kept
for rows that pass: a total is `UNFIT` on all others, and the best row has the highest total.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Mask, Rows, count, grown, only_row
from tonnage.scheduling.decision.diagnosis import NOBODY, Diagnosis, FilterResults
from tonnage.scheduling.framework import Cycle, FilterPlugin, ScorePlugin

REMEMBERED = 128
"""Kinds of pods whose masks and scores are kept; a workload has few kinds of pods at a time."""
UNFIT = -(1 << 62)
"""The total of a row that did not pass: below every sum of scores, even after scores are added to it."""
_BLOCK = 1024
"""Rows of a block."""

Filters = tuple[tuple[FilterPlugin, int], ...]
"""Filters with their positions in the profile."""
Scores = tuple[tuple[ScorePlugin, int], ...]
"""Score plugins with their weights."""


class Totals:
    """A total per row. Blocks of rows know their highest total, so that the best row is found without reading all."""

    def __init__(self, rows: int) -> None:
        self._blocks: Ints = np.full((-(-rows // _BLOCK), _BLOCK), UNFIT, dtype=np.int64)
        self._most = [UNFIT] * len(self._blocks)
        self._ties = [_BLOCK] * len(self._blocks)
        """By block, how many rows have its highest total."""
        self.by_row: Ints = self._blocks.reshape(-1)[:rows]

    def write(self, rows: Rows, totals: Ints) -> None:
        self.by_row[rows] = totals
        if (row := only_row(rows)) >= 0:
            number = row // _BLOCK
            block = self._blocks[number]
            most = block.max()
            self._most[number], self._ties[number] = most.item(), count(block == most)
            return
        highest = self._blocks.max(axis=1)
        self._most = highest.tolist()
        self._ties = (self._blocks == highest[:, None]).sum(axis=1).tolist()

    def draw(self, rng: random.Random) -> int:
        """One of the rows with the highest total, by lot."""
        most = max(self._most)
        ties = [count if each == most else 0 for each, count in zip(self._most, self._ties, strict=True)]
        place = rng.randrange(total) if (total := sum(ties)) > 1 else 0
        number = 0
        while place >= ties[number]:
            place -= ties[number]
            number += 1
        return number * _BLOCK + int((self._blocks[number] == most).nonzero()[0][place])


class RowAnswers:
    """The answers of the row-local plugins to pods with the same signature."""

    def __init__(self, cluster: Cluster, filters: int, judged_by: Filters) -> None:
        self.judged_by = judged_by
        self.judged_at = -1
        self.nodes_at = -1
        """The last change of a node that the filters know."""
        self.results = FilterResults.none(cluster.capacity, filters)
        self.passes: Mask = np.zeros(cluster.capacity, dtype=np.bool_)
        self.feasible: npt.NDArray[np.intp] | None = None
        """The rows that pass, in order; None if they have changed."""
        self.count = 0
        """The number of rows that pass."""
        self.refusal: Diagnosis | None = None
        """Why no row passes, as of `refused_at`; shared by all pods with this answer."""
        self.refused_at = -1
        self.scored_by: Scores | None = None
        self.scored_at = -1
        self.scored_nodes_at = -1
        """The last change of a node that the scores know."""
        self.raw: dict[str, Ints] = {}
        """Scores before normalising, by plugin; a plugin that gave every row 0 is left out."""
        self.totals = Totals(0)
        """The weighted sum of all scores that need no normalising; `UNFIT` where the row does not pass."""

    def grow(self, capacity: int) -> None:
        self.results.grow(capacity)
        self.passes = grown(self.passes, capacity)
        known, self.totals = self.totals.by_row, Totals(capacity)
        self.totals.write(slice(0, len(known)), known)
        self.raw = {name: grown(scores, capacity) for name, scores in self.raw.items()}

    def feasible_rows(self, size: int) -> npt.NDArray[np.intp]:
        """The rows that pass, in order."""
        if self.feasible is None:
            self.feasible = self.passes[:size].nonzero()[0]
        return self.feasible

    def forget_scores(self) -> None:
        """Until all plugins have answered: one that raises is asked again."""
        self.scored_by, self.raw = None, {}
        self.totals = Totals(len(self.passes))

    def raw_scores(self, plugin: str) -> Ints | None:
        """A plugin's scores before normalising, valid where the row passes; None if every row got 0."""
        found = self.raw.get(plugin)
        return found if found is not None and found.any() else None

    def refusal_for(self, cluster: Cluster, plugins: tuple[str, ...]) -> Diagnosis:
        """Why no row passes, for a pod that no other plugin refuses. Equal pods share it (`Diagnosis.shared`) until a
        row changes."""
        if self.refusal is None or self.refused_at != self.judged_at:
            self.refusal = Diagnosis(cluster, plugins=plugins, results=self.results.copy(cluster.size))
            self.refusal.shared = {}
            self.refused_at = self.judged_at
        return self.refusal


class AnswerCache:
    """The answers of one profile, for one cluster at a time; keeps the `REMEMBERED` most recently used."""

    def __init__(self, filters: Sequence[FilterPlugin], scores: Scores) -> None:
        self._count = len(filters)
        self._filters = [(plugin, position) for position, plugin in enumerate(filters) if plugin.row_local]
        self._scores = [score for score in scores if score[0].row_local]
        self._cluster: Cluster | None = None
        self._answers: OrderedDict[Hashable, RowAnswers] = OrderedDict()

    def answer_for(self, cycle: Cycle) -> RowAnswers:
        """The answer to this cycle's pod, valid for all rows now."""
        cluster = cycle.cluster
        if cluster is not self._cluster:  # rows of another cluster mean nothing here
            self._cluster = cluster
            self._answers.clear()
        skipped = cycle.skip_filter | cycle.unshared
        judged_by = tuple([each for each in self._filters if each[0].name not in skipped])
        signature = cycle.signature
        answer = self._answers.get(signature)
        if answer is None or answer.judged_by != judged_by:
            answer = RowAnswers(cluster, self._count, judged_by)
            _judge(cycle, answer, cluster.all_rows)
            self._answers[signature] = answer
            if len(self._answers) > REMEMBERED:
                self._answers.popitem(last=False)
        elif answer.judged_at != cluster.changes.tick:
            if len(answer.passes) < cluster.capacity:
                answer.grow(cluster.capacity)
            _judge(cycle, answer, cluster.changes.since(answer.judged_at, cluster.size))
        self._answers.move_to_end(signature)
        return answer

    def score(self, cycle: Cycle, answer: RowAnswers) -> None:
        """Update the scores of an answer just returned by `answer_for`. PreScore has run."""
        cluster = cycle.cluster
        skipped = cycle.skip_score | cycle.unshared
        scored_by = tuple([score for score in self._scores if score[0].name not in skipped])
        if answer.scored_by != scored_by:
            answer.forget_scores()
            rows: Rows = cluster.all_rows
            if answer.count < cluster.size // 2:
                rows = answer.feasible_rows(cluster.size)
        elif answer.scored_at != cluster.changes.tick:
            rows = cluster.changes.since(answer.scored_at, cluster.size)
        else:
            return
        asked: Scores = scored_by
        if answer.scored_nodes_at == cluster.node_changes.tick and not count(answer.totals.by_row[rows] == UNFIT):
            # These rows have been scored, and no node has changed: what is kept in `raw` still holds.
            asked = tuple([each for each in scored_by if not (each[0].node_only and each[0].normalizes)])
        totals = _scored(cycle, asked, answer.raw, rows)
        answer.totals.write(rows, np.where(answer.passes[rows], totals, UNFIT))
        answer.scored_by, answer.scored_at = scored_by, cluster.changes.tick
        answer.scored_nodes_at = cluster.node_changes.tick


def _judge(cycle: Cycle, answer: RowAnswers, rows: Rows) -> None:
    """Run the filters on these rows, and store their results. Filters that read only the node are not asked again while
    no node changes and the rows pass."""
    results, cluster = answer.results, cycle.cluster
    before = answer.passes[rows]
    is_same_node = answer.nodes_at == cluster.node_changes.tick and count(before) == len(before)
    results.clear(rows)
    for plugin, position in answer.judged_by:
        if is_same_node and plugin.node_only:
            continue
        judgement = cycle.run("Filter", plugin, plugin.filter, cycle, rows)
        if judgement is not None:
            results.add(position, judgement, rows)
    passes = (results.first[rows] == NOBODY) & cluster.exists[rows]
    if count(passes != before):
        answer.count += count(passes) - count(before)
        answer.passes[rows], answer.feasible = passes, None
    answer.judged_at, answer.nodes_at = cluster.changes.tick, cluster.node_changes.tick


def _scored(cycle: Cycle, plugins: Scores, raw: dict[str, Ints], rows: Rows) -> Ints | int:
    """The weighted sum of the scores that need no normalising; the others are stored in `raw`."""
    total: Ints | int = 0
    for plugin, weight in plugins:
        scores = cycle.run("Score", plugin, plugin.score, cycle, rows)
        if not plugin.normalizes:
            total = total if scores is None else total + weight * scores
        elif plugin.name in raw:
            raw[plugin.name][rows] = 0 if scores is None else scores
        elif scores is not None and scores.any():
            kept = raw[plugin.name] = np.zeros(cycle.cluster.capacity, dtype=np.int64)
            kept[rows] = scores
    return total
