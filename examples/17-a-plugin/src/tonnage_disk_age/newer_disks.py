"""NewerDisks: of nodes that can take a pod with volumes, those with newer disks are better.

score = 100 * (year - oldest) / (newest - oldest), over the feasible nodes; 0 without a year, or when all are alike
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tonnage.scheduling.framework import SKIP, Cycle, Ints, PreScorePlugin, Rows, ScorePlugin, Status, scaled_to_max

LABEL = "example.com/disk-year"


class NewerDisks(PreScorePlugin, ScorePlugin):
    """The form over all rows: `score` is asked once about all feasible nodes."""

    name = "NewerDisks"
    normalizes = True

    def __init__(self, args: dict[str, Any] | None) -> None:
        self._label = (args or {}).get("label", LABEL)

    def pre_score(self, cycle: Cycle) -> Status | None:
        """SKIP spares `score`: for pods without claims, and where no node says how old its disks are."""
        is_known = cycle.cluster.labels.get(self._label) is not None
        return None if is_known and cycle.pod.has_claims else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The year of each row, 0 where there is none: worked out once a distinct value, looked up for every node."""
        column = cycle.cluster.labels.column(self._label)
        years = np.array([_year(text) for text in column.texts], dtype=np.int64)
        found: Ints = years[column.ids[rows]]
        return found

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        known = scores[scores > 0]
        oldest = int(known.min()) if len(known) else 0
        return scaled_to_max(np.maximum(scores - oldest, 0))


def _year(text: str | None) -> int:
    """0 for nodes without the label (their text is None), and for what is no year."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) == 4 else 0
