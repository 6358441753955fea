"""What the filters of a profile answer for every node: kept for equal pods, and told as one sentence if no node fits.

    0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). preemption: …
    0/2 nodes are available: 2 Insufficient cpu. Room on a is held for default/job (nominated by kueue since …).

The first plugin in the profile's order that refuses a node counts. A node with two reasons counts in both. A refusal by
PreFilter is for all nodes at once. Then follow the notes of plugins (`FilterPlugin.refusal_note`), the message of
preemption, and the nominations without which a node would fit.

The answers of row-local plugins are cached by what they read of the pod (`Cycle.signature`). For an equal pod, only
rows that changed since are asked again, usually the row that took the last pod. Scores are kept for rows that pass: a
total is `UNFIT` on all others, and the best row has the highest total.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster import columns
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Bits, Ints, Judgement, Mask, Rows, count
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import Code, Cycle, FilterPlugin, ScorePlugin, Status

T = TypeVar("T")

NOBODY = 127
"""In `first`: no plugin refuses. Larger than every position, so the minimum is the first plugin that refuses."""
NARROWED = 126
"""In `first`: a PreFilter plugin excluded the node."""
REMEMBERED = 128
"""Kinds of pods whose masks and scores are kept; a workload has few kinds of pods at a time."""
UNFIT = -(1 << 62)
"""The total of a row that did not pass: below every sum of scores, even after scores are added to it."""

Filters = tuple[tuple[FilterPlugin, int], ...]
"""Filters with their positions in the profile."""
Scores = tuple[tuple[ScorePlugin, int], ...]
"""Score plugins with their weights."""


class Diagnosis:
    """Filter results for the rows of a cluster by the filters in `plugins`, or a `refusal` of all rows at once.

    By row: `first`, the position of the filter that refused it; `bits`, which of its `reasons` apply; `final`, True if
    preemption cannot help. At first no filter refuses any row.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        refusal: Status | None = None,
        plugins: tuple[str, ...] = (),
        rows: int | None = None,
    ) -> None:
        rows = cluster.size if rows is None else rows
        self.first: npt.NDArray[np.int8] = np.full(rows, NOBODY, dtype=np.int8)
        self.bits: Bits = np.zeros(rows, dtype=np.int64)
        self.final: Mask = np.zeros(rows, dtype=np.bool_)
        self.reasons: list[tuple[str, ...]] = [()] * len(plugins)
        self.cluster = cluster
        self.refusal = refusal
        self.plugins = plugins
        self.narrowed_by = ""
        self.held_by: dict[int, tuple[PodInfo, ...]] = {}
        """By row that would fit without them, the nominated pods that block it."""
        self.note_of: Callable[[Diagnosis], str] | None = None
        """Asks the plugins for their notes; None if no plugin has any."""
        self.shared: dict[Hashable, Any] | None = None
        """For a diagnosis shared by equal pods, which no longer changes: answers by question. None for that of a single
        pod."""

    def copied(self) -> Diagnosis:
        """A copy of the filter results, for the rows that the cluster has now."""
        made, rows = Diagnosis(self.cluster, plugins=self.plugins, rows=0), self.cluster.size
        made.first, made.bits, made.final = self.first[:rows].copy(), self.bits[:rows].copy(), self.final[:rows].copy()
        made.reasons = list(self.reasons)
        return made

    def clear(self, rows: Rows) -> None:
        self.first[rows] = NOBODY

    def add(self, position: int, judgement: Judgement, rows: Rows) -> None:
        """Add a plugin's refusals of rows that no earlier plugin refuses."""
        bits = self._in_our_words(position, judgement)
        places = np.flatnonzero((bits != 0) & (self.first[rows] > position))
        if not len(places):
            return
        # Most plugins refuse few rows: writing only these costs a third of three selections over all rows.
        objected = places + rows.start if isinstance(rows, slice) else rows[places]
        final = judgement.unresolvable
        self.first[objected] = position
        self.bits[objected] = bits[places]
        self.final[objected] = final if isinstance(final, bool) else final[places]

    def _in_our_words(self, position: int, judgement: Judgement) -> Bits:
        """The judgement's bits, translated to the reasons of this table; new reasons are appended."""
        known = self.reasons[position]
        if judgement.reasons == known:
            return judgement.bits
        if not known:
            self.reasons[position] = judgement.reasons
            return judgement.bits
        merged = self.reasons[position] = columns.with_reasons(known, judgement.reasons)
        bits = np.zeros_like(judgement.bits)
        for i, reason in enumerate(judgement.reasons):
            bits |= ((judgement.bits >> i) & 1) << columns.reason_place(merged, reason)
        return bits

    def narrow(self, narrowed: Mapping[str, frozenset[int]]) -> None:
        """Exclude the rows that PreFilter plugins did not name; the plugins' names are the reason."""
        left = frozenset.intersection(*narrowed.values())
        out = np.ones(len(self.first), dtype=np.bool_)
        out[list(left)] = False
        self.first[out] = NARROWED
        self.bits[out] = 0
        self.final[out] = True
        self.narrowed_by = ", ".join(sorted(narrowed))

    # -- reading ------------------------------------------------------------------------------------------------------

    def rejected_by(self, row: int) -> str:
        """The plugin that refused a node; empty if none did."""
        position = int(self.first[row])
        if position == NOBODY:
            return ""
        return self.narrowed_by if position == NARROWED else self.plugins[position]

    def reasons_of(self, row: int) -> tuple[str, ...]:
        position = int(self.first[row])
        if position == NOBODY:
            return ()
        if position == NARROWED:
            return (self._narrowed_reason,)
        bits = int(self.bits[row])
        return tuple(reason for i, reason in enumerate(self.reasons[position]) if bits >> i & 1)

    @property
    def _narrowed_reason(self) -> str:
        return f"node(s) didn't satisfy plugin(s) [{self.narrowed_by.replace(',', '')}]"

    def _once(self, question: str, answer: Callable[[], T]) -> T:
        """The answer to a question, shared by equal pods that were refused for the same reasons."""
        if self.shared is None:
            return answer()
        if question not in self.shared:
            self.shared[question] = answer()
        found: T = self.shared[question]
        return found

    def rejecting_plugins(self) -> frozenset[str]:
        """The plugins that refused a node: their events may help the pod. Empty if a node was refused only because a
        search ended: the pod is tried again without an event."""
        if self.refusal is not None:
            return frozenset(self.refusal.plugin.split(", ")) if self.refusal.plugin else frozenset()
        return self._once("rejecting plugins", self._rejecting_plugins)

    def _rejecting_plugins(self) -> frozenset[str]:
        positions = self._positions()
        may_have_ended = any(columns.SEARCH_ENDED in self.reasons[p] for p in positions if p < NARROWED)
        if may_have_ended and columns.SEARCH_ENDED in self.counts():
            return frozenset()
        named = {self.plugins[p] for p in positions if p < NARROWED}
        return frozenset(named | ({*self.narrowed_by.split(", ")} if NARROWED in positions else set()))

    def _positions(self) -> list[int]:
        """The distinct values of `first` over existing nodes, sorted."""
        exists = self.cluster.exists[: len(self.first)]
        return np.flatnonzero(np.bincount(self.first[exists], minlength=NOBODY + 1)).tolist()

    def resolvable_rows(self) -> npt.NDArray[np.intp]:
        """Rows refused for reasons that preemption may remove."""
        exists = self.cluster.exists[: len(self.first)]
        if self.refusal is not None:
            return np.flatnonzero(exists & (self.refusal.code is Code.UNSCHEDULABLE))
        return np.flatnonzero((self.first != NOBODY) & ~self.final & exists)

    def counts(self) -> dict[str, int]:
        """The number of nodes for each reason."""
        counted: dict[str, int] = {}
        exists = self.cluster.exists[: len(self.first)]
        positions = self._positions()
        for position in positions:
            if position >= NARROWED:
                continue
            bits = self.bits[exists & (self.first == position)]
            for i, reason in enumerate(self.reasons[position]):
                held = int(((bits >> i) & 1).sum())
                if held:
                    counted[reason] = counted.get(reason, 0) + held
        if NARROWED in positions:
            counted[self._narrowed_reason] = int((exists & (self.first == NARROWED)).sum())
        return counted

    def rows_by_reason(self, position: int) -> dict[str, npt.NDArray[np.intp]]:
        """The rows that one plugin refused, by reason; without rows that only nominated pods block."""
        refused = self.cluster.exists[: len(self.first)] & (self.first == position)
        refused[list(self.held_by)] = False
        rows = np.flatnonzero(refused)
        bits = self.bits[rows]
        found = {reason: rows[(bits >> i) & 1 != 0] for i, reason in enumerate(self.reasons[position])}
        return {reason: each for reason, each in found.items() if len(each)}

    def note(self) -> str:
        """The notes of plugins for people; mostly empty."""
        note_of = self.note_of
        return "" if self.refusal is not None or note_of is None else self._once("note", lambda: note_of(self))

    def message(self, after: str = "") -> str:
        """The sentence that kube-scheduler would write. `after`: the message of preemption."""
        if self.refusal is not None and not self.refusal.plugin:
            return self.refusal.message
        counted = self.refusal.message if self.refusal is not None else self._once("counts", self._counted)
        text = f"0/{self.cluster.count} nodes are available" + (f": {counted}." if counted else ".")
        return f"{text} {after}" if after else text

    def _counted(self) -> str:
        return ", ".join(sorted(f"{count} {reason}" for reason, count in self.counts().items()))

    def told(self, after: str = "") -> str:
        """`message` for conditions, events and explanations: with the notes of plugins before `after`."""
        note = self.note()
        if not note:
            return self.message(after)
        return f"{self.message()} {note} {after}".rstrip()

    @property
    def code(self) -> Code:
        return self.refusal.code if self.refusal is not None else Code.UNSCHEDULABLE


class RowAnswers:
    """The answers of the row-local plugins to pods with the same signature."""

    def __init__(self, cluster: Cluster, plugins: tuple[str, ...], judged_by: Filters) -> None:
        self.judged_by = judged_by
        self.judged_at = -1
        self.nodes_at = -1
        """The last change of a node that the filters know."""
        self.results = Diagnosis(cluster, plugins=plugins, rows=cluster.capacity)
        self.passes: Mask = np.zeros(cluster.capacity, dtype=np.bool_)
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
        """Scores before normalising, valid where the row passes, by plugin; a plugin may have given every row 0."""
        self.totals: Ints = np.zeros(0, dtype=np.int64)
        """The weighted sum of all scores that need no normalising; `UNFIT` where the row does not pass."""

    def refusal_now(self) -> Diagnosis:
        """Why no row passes, for a pod that no other plugin refuses. Equal pods share it (`Diagnosis.shared`) until a
        row changes."""
        if self.refusal is None or self.refused_at != self.judged_at:
            self.refusal = self.results.copied()
            self.refusal.shared = {}
            self.refused_at = self.judged_at
        return self.refusal


class AnswerCache:
    """The answers of one profile, for one cluster at a time; keeps the `REMEMBERED` most recently used."""

    def __init__(self, filters: Sequence[FilterPlugin], scores: Scores) -> None:
        self._names = tuple([plugin.name for plugin in filters])
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
        if answer is None or answer.judged_by != judged_by or len(answer.passes) < cluster.capacity:
            answer = RowAnswers(cluster, self._names, judged_by)
            _judge(cycle, answer, cluster.all_rows)
            self._answers[signature] = answer
            if len(self._answers) > REMEMBERED:
                self._answers.popitem(last=False)
        elif answer.judged_at != cluster.changes.tick:
            _judge(cycle, answer, cluster.changes.since(answer.judged_at, cluster.size))
        self._answers.move_to_end(signature)
        return answer

    def score(self, cycle: Cycle, answer: RowAnswers) -> None:
        """Update the scores of an answer just returned by `answer_for`. PreScore has run."""
        cluster = cycle.cluster
        skipped = cycle.skip_score | cycle.unshared
        scored_by = tuple([score for score in self._scores if score[0].name not in skipped])
        if answer.scored_by != scored_by:
            answer.scored_by, answer.raw = None, {}  # until all have answered
            answer.totals = np.full(len(answer.passes), UNFIT, dtype=np.int64)
            rows: Rows = cluster.all_rows
            if answer.count < cluster.size // 2:
                rows = np.flatnonzero(answer.passes[: cluster.size])
        elif answer.scored_at != cluster.changes.tick:
            rows = cluster.changes.since(answer.scored_at, cluster.size)
        else:
            return
        asked: Scores = scored_by
        if answer.scored_nodes_at == cluster.node_changes.tick and not count(answer.totals[rows] == UNFIT):
            # These rows have been scored, and no node has changed: what is kept in `raw` still holds.
            asked = tuple([each for each in scored_by if not (each[0].node_only and each[0].normalizes)])
        totals = _scored(cycle, asked, answer.raw, rows)
        answer.totals[rows] = np.where(answer.passes[rows], totals, UNFIT)
        answer.scored_by, answer.scored_at = scored_by, cluster.changes.tick
        answer.scored_nodes_at = cluster.node_changes.tick


def _judge(cycle: Cycle, answer: RowAnswers, rows: Rows) -> None:
    """Run the filters on these rows, and store their results. Filters that read only the node are not asked again while
    no node changes and the rows pass."""
    results, cluster = answer.results, cycle.cluster
    before = answer.passes[rows]
    is_same_node = answer.nodes_at == cluster.node_changes.tick and count(before) == len(before)
    results.clear(rows)
    passes = cluster.exists[rows]
    for plugin, position in answer.judged_by:
        if is_same_node and plugin.node_only:
            continue
        judge = plugin.filter
        judgement = judge(cycle, rows) if cycle.times is None else cycle.run("Filter", plugin, judge, cycle, rows)
        if judgement is not None:
            results.add(position, judgement, rows)
            passes = (results.first[rows] == NOBODY) & cluster.exists[rows]
    if count(passes != before):
        answer.count += count(passes) - count(before)
        answer.passes[rows] = passes
    answer.judged_at, answer.nodes_at = cluster.changes.tick, cluster.node_changes.tick


def _scored(cycle: Cycle, plugins: Scores, raw: dict[str, Ints], rows: Rows) -> Ints | int:
    """The weighted sum of the scores that need no normalising; the others are stored in `raw`."""
    total: Ints | None = None
    for plugin, weight in plugins:
        score = plugin.score
        scores = score(cycle, rows) if cycle.times is None else cycle.run("Score", plugin, score, cycle, rows)
        if not plugin.normalizes:
            if scores is not None:  # a number times or plus an array costs as much as the scores of a row
                part = scores if weight == 1 else weight * scores
                total = part if total is None else total + part
        elif plugin.name in raw:
            raw[plugin.name][rows] = 0 if scores is None else scores
        elif scores is not None and scores.any():
            kept = raw[plugin.name] = np.zeros(cycle.cluster.capacity, dtype=np.int64)
            kept[rows] = scores
    return 0 if total is None else total
