"""Plugins that judge nodes one by one, with `filter_node` or `score_node`.

For plugins that run rarely or say little; a plugin that judges all rows in a few array operations costs a hundredth on
a large cluster. Both keep the contract of `framework`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tonnage.objects.core_v1 import Node
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Rows, reason_place, row_numbers, with_reasons
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import Code, Cycle, FilterPlugin, Judgement, ScorePlugin, Status


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node, for plugins that judge nodes one by one."""

    node: Node
    pods: Sequence[PodInfo]
    row: int


class NodeFilter(FilterPlugin):
    """Write `filter_node`; it is called for every node."""

    @abstractmethod
    def filter_node(self, cycle: Cycle, view: NodeView) -> Status | None:
        """A rejection, or None if the node passes."""

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        asked = row_numbers(rows).tolist()
        refused: dict[int, Status] = {}
        for place, view in _views(cycle.cluster, asked):
            answer = self.filter_node(cycle, view)
            if answer is not None and not answer.is_success:
                refused[place] = answer
        if not refused:
            return None
        unnamed = (f"node(s) were refused by plugin {self.name}",)
        reasons = with_reasons((), [reason for answer in refused.values() for reason in answer.reasons or unnamed])
        bits = np.zeros(len(asked), dtype=np.int64)
        final = np.zeros(len(asked), dtype=np.bool_)
        for place, answer in refused.items():
            bits[place] = sum({1 << reason_place(reasons, reason) for reason in answer.reasons or unnamed})
            final[place] = answer.code is Code.UNRESOLVABLE
        return Judgement(bits, reasons, final)


class NodeScore(ScorePlugin):
    """Write `score_node`; it is called for every feasible node."""

    @abstractmethod
    def score_node(self, cycle: Cycle, view: NodeView) -> int:
        """The node's score."""

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        asked = row_numbers(rows).tolist()
        scores = np.zeros(len(asked), dtype=np.int64)
        for place, view in _views(cycle.cluster, asked):
            scores[place] = self.score_node(cycle, view)
        return scores


def _views(cluster: Cluster, rows: Sequence[int]) -> Iterable[tuple[int, NodeView]]:
    """The nodes of these rows, with their positions in the list; rows without a node are skipped."""
    for place, row in enumerate(rows):
        node = cluster.nodes[row]
        if node is not None:
            yield place, NodeView(node, tuple(cluster.residents[row].values()), row)
