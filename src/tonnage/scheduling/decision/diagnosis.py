"""Why a pod does not fit: for every node the plugin that refused it, and its reasons; for the pod one sentence.

    0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). preemption: …

The first plugin in order to object to a node is the one that counts. A node with two reasons counts in both. Items are
sorted as text. A refusal by PreFilter speaks for all nodes at once, without numbers. What plugins have to add for
people (`FilterPlugin.refusal_note`) follows as a sentence of its own, before what preemption adds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.filter_results import NARROWED, NOBODY, FilterResults
from tonnage.scheduling.framework import Code, Status
from tonnage.scheduling.reason_bits import SEARCH_ENDED

__all__ = ["NARROWED", "NOBODY", "Diagnosis"]


class Diagnosis(FilterResults):
    """FilterResults to every row of a cluster by the filters named in `plugins`, or a `refusal` of all rows at once."""

    __slots__ = ("cluster", "held_by", "narrowed_by", "note_of", "plugins", "refusal", "shared")

    def __init__(
        self,
        cluster: Cluster,
        *,
        refusal: Status | None = None,
        plugins: tuple[str, ...] = (),
        results: FilterResults | None = None,
    ) -> None:
        held = results if results is not None else FilterResults.none(cluster.size, len(plugins))
        super().__init__(held.first, held.bits, held.final, held.reasons)
        self.cluster = cluster
        self.refusal = refusal
        self.plugins = plugins
        self.narrowed_by = ""
        self.held_by: dict[int, tuple[PodInfo, ...]] = {}
        """By row that would do without them, the pods nominated there that are the reason why it does not."""
        self.note_of: Callable[[Diagnosis], str] | None = None
        """Asks the plugins for what they have to add; None where nobody has."""
        self.shared: dict[Hashable, Any] | None = None
        """Where equal pods were refused for the same reasons: what was concluded from them, by the question. Such a
        diagnosis does not change any more. None for one that is a single pod's."""

    def narrow(self, narrowed: Mapping[str, frozenset[int]]) -> None:
        """Leave out the rows that PreFilter plugins did not name; the names of those plugins are the reason."""
        left = frozenset.intersection(*narrowed.values())
        out = np.ones(len(self.first), dtype=np.bool_)
        out[list(left)] = False
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
        """Every plugin that refused a node: whose events may help the pod.

        None when a node was refused only because a search had to end: no event is needed for another try.
        """
        if self.refusal is not None:
            return frozenset(self.refusal.plugin.split(", ")) if self.refusal.plugin else frozenset()
        if self.shared is not None and "rejecting plugins" in self.shared:
            known: frozenset[str] = self.shared["rejecting plugins"]
            return known
        positions = self._positions()
        may_have_ended = any(SEARCH_ENDED in self.reasons[p] for p in positions if p < NARROWED)
        if may_have_ended and SEARCH_ENDED in self.counts():
            return frozenset()
        named = {self.plugins[p] for p in positions if p < NARROWED}
        found = frozenset(named | ({*self.narrowed_by.split(", ")} if NARROWED in positions else set()))
        if self.shared is not None:
            self.shared["rejecting plugins"] = found
        return found

    def _positions(self) -> list[int]:
        """What stands in `first` of the nodes there are, each once, in order."""
        exists = self.cluster.exists[: len(self.first)]
        return np.flatnonzero(np.bincount(self.first[exists], minlength=NOBODY + 1)).tolist()

    def resolvable_rows(self) -> npt.NDArray[np.intp]:
        """Rows that were refused for reasons preemption may remove."""
        exists = self.cluster.exists[: len(self.first)]
        if self.refusal is not None:
            return np.flatnonzero(exists & (self.refusal.code is Code.UNSCHEDULABLE))
        return np.flatnonzero((self.first != NOBODY) & ~self.final & exists)

    def counts(self) -> dict[str, int]:
        """How many nodes each reason holds against."""
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
        """The rows that one plugin refused, by reason; not those that only pods nominated there stand in the way of."""
        refused = self.cluster.exists[: len(self.first)] & (self.first == position)
        refused[list(self.held_by)] = False
        rows = np.flatnonzero(refused)
        bits = self.bits[rows]
        found = {reason: rows[(bits >> i) & 1 != 0] for i, reason in enumerate(self.reasons[position])}
        return {reason: each for reason, each in found.items() if len(each)}

    def note(self) -> str:
        """What plugins have to add to their reasons, for people; mostly empty."""
        if self.refusal is not None or self.note_of is None:
            return ""
        if self.shared is None:
            return self.note_of(self)
        if "note" not in self.shared:
            self.shared["note"] = self.note_of(self)
        told: str = self.shared["note"]
        return told

    def message(self, after: str = "") -> str:
        """The sentence kube-scheduler would write; `after` is what preemption has to add."""
        if self.refusal is not None and not self.refusal.plugin:
            return self.refusal.message
        if self.refusal is not None:
            told = self.refusal.message
        elif self.shared is not None and "counts" in self.shared:
            told = self.shared["counts"]
        else:
            told = ", ".join(sorted(f"{count} {reason}" for reason, count in self.counts().items()))
            if self.shared is not None:
                self.shared["counts"] = told
        text = (
            f"0/{self.cluster.count} nodes are available: {told}."
            if told
            else f"0/{self.cluster.count} nodes are available."
        )
        return f"{text} {after}" if after else text

    def told(self, after: str = "") -> str:
        """The same for people, in a condition, an event, an explanation: with what plugins add, before preemption's."""
        note = self.note()
        if not note:
            return self.message(after)
        return f"{self.message()} {note} {after}".rstrip()

    @property
    def code(self) -> Code:
        return self.refusal.code if self.refusal is not None else Code.UNSCHEDULABLE
