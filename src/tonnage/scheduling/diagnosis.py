"""Why a pod does not fit: for every node the plugin that refused it, and its reasons; for the pod one sentence.

    0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). preemption: …

The first plugin in order to object to a node is the one that counts. A node with two reasons counts in both. Items are
sorted as text. A refusal by PreFilter speaks for all nodes at once, without numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster import Cluster
from tonnage.scheduling.columns import Mask, Rows
from tonnage.scheduling.framework import Bits, Code, Judgement, Status

NOBODY = 127
"""In `first`: no plugin objects. More than any position, so that the smaller of two is the first to object."""
NARROWED = 126
"""In `first`: a PreFilter plugin left the node out."""


@dataclass(slots=True)
class Diagnosis:
    """Per row: who objected first (`first`, a position in `plugins`), with which reasons (`bits`), and for good?"""

    cluster: Cluster
    refusal: Status | None = None
    plugins: tuple[str, ...] = ()
    first: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, dtype=np.int8))
    bits: Bits = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    final: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    reasons: list[tuple[str, ...]] = field(default_factory=list)
    narrowed_by: str = ""

    def add(self, position: int, judgement: Judgement, rows: Rows) -> None:
        """Enter a plugin's objections to rows that no earlier plugin objected to."""
        bits = self._in_our_words(position, judgement)
        objects = (bits != 0) & (self.first[rows] > position)
        if not objects.any():
            return
        self.first[rows] = np.where(objects, position, self.first[rows])
        self.bits[rows] = np.where(objects, bits, self.bits[rows])
        self.final[rows] = np.where(objects, judgement.unresolvable, self.final[rows])

    def _in_our_words(self, position: int, judgement: Judgement) -> Bits:
        """The judgement's bits under the reasons this table knows; reasons that are new are appended."""
        known = self.reasons[position]
        if judgement.reasons == known:
            return judgement.bits
        if not known:
            self.reasons[position] = judgement.reasons
            return judgement.bits
        merged = tuple(dict.fromkeys((*known, *judgement.reasons)))
        self.reasons[position] = merged
        bits = np.zeros_like(judgement.bits)
        for i, reason in enumerate(judgement.reasons):
            bits |= ((judgement.bits >> i) & 1) << merged.index(reason)
        return bits

    def narrow(self, narrowed: dict[str, frozenset[int]]) -> None:
        """Leave out the rows that PreFilter plugins did not name; the names of those plugins are the reason."""
        left = frozenset.intersection(*narrowed.values())
        out = np.ones(len(self.first), dtype=np.bool_)
        out[[row for row in left if row < len(out)]] = False
        self.first[out] = NARROWED
        self.bits[out] = 0
        self.final[out] = True
        self.narrowed_by = ", ".join(sorted(narrowed))

    # -- reading ------------------------------------------------------------------------------------------------------

    def rejected_by(self, row: int) -> str:
        """The plugin that refused a node; empty when none did."""
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

    def rejecting_plugins(self) -> frozenset[str]:
        """Every plugin that refused a node: whose events may help the pod."""
        if self.refusal is not None:
            return frozenset({self.refusal.plugin}) if self.refusal.plugin else frozenset()
        positions = np.unique(self.first[self.cluster.exists[: len(self.first)]])
        named = {self.plugins[p] for p in positions.tolist() if p < NARROWED}
        return frozenset(named | ({*self.narrowed_by.split(", ")} if NARROWED in positions else set()))

    def resolvable_rows(self) -> npt.NDArray[np.intp]:
        """Rows that were refused for reasons preemption may remove."""
        if self.refusal is not None:
            return np.zeros(0, dtype=np.intp)
        return np.flatnonzero((self.first != NOBODY) & ~self.final & self.cluster.exists[: len(self.first)])

    def counts(self) -> dict[str, int]:
        """How many nodes each reason holds against."""
        counted: dict[str, int] = {}
        exists = self.cluster.exists[: len(self.first)]
        for position, reasons in enumerate(self.reasons):
            refused = exists & (self.first == position)
            if not refused.any():
                continue
            bits = self.bits[refused]
            for i, reason in enumerate(reasons):
                held = int(((bits >> i) & 1).sum())
                if held:
                    counted[reason] = counted.get(reason, 0) + held
        narrowed = int((exists & (self.first == NARROWED)).sum())
        if narrowed:
            counted[self._narrowed_reason] = narrowed
        return counted

    def message(self, after: str = "") -> str:
        """The sentence kube-scheduler would write; `after` is what preemption has to add."""
        if self.refusal is not None and not self.refusal.plugin:
            return self.refusal.message
        if self.refusal is not None:
            told = self.refusal.message
        else:
            told = ", ".join(sorted(f"{count} {reason}" for reason, count in self.counts().items()))
        text = (
            f"0/{self.cluster.count} nodes are available: {told}."
            if told
            else f"0/{self.cluster.count} nodes are available."
        )
        return f"{text} {after}" if after else text

    @property
    def code(self) -> Code:
        return self.refusal.code if self.refusal is not None else Code.UNSCHEDULABLE
