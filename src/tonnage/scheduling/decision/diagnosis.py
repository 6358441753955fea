"""Why a pod does not fit: for every node the plugin that refused it and its reasons; for the pod one sentence.

    0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). preemption: …
    0/2 nodes are available: 2 Insufficient cpu. Room on a is held for default/job (nominated by kueue since …).

The first plugin in the profile's order that refuses a node counts. A node with two reasons counts in both. A refusal by
PreFilter is for all nodes at once. Then follow the notes of plugins (`FilterPlugin.refusal_note`), the message of
preemption, and the nominations without which a node would fit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.clock import rfc3339
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Mask, Rows, grown
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import Code, Status
from tonnage.scheduling.judgement import SEARCH_ENDED, Bits, Judgement, reason_place, with_reasons

T = TypeVar("T")

NOBODY = 127
"""In `first`: no plugin refuses. Larger than every position, so the minimum is the first plugin that refuses."""
NARROWED = 126
"""In `first`: a PreFilter plugin excluded the node."""


@dataclass(eq=False)
class FilterResults:
    """By row: `first`, the position of the filter that refused it; `bits`, which of its `reasons` apply; `final`, True
    if preemption cannot help."""

    first: npt.NDArray[np.int8]
    bits: Bits
    final: Mask
    reasons: list[tuple[str, ...]]

    @classmethod
    def none(cls, rows: int, filters: int) -> Self:
        """A table in which no filter refuses any of `rows` rows."""
        return cls(
            np.full(rows, NOBODY, dtype=np.int8),
            np.zeros(rows, dtype=np.int64),
            np.zeros(rows, dtype=np.bool_),
            [()] * filters,
        )

    def copy(self, rows: int) -> FilterResults:
        """A copy of the first `rows` rows."""
        first, bits, final = self.first[:rows].copy(), self.bits[:rows].copy(), self.final[:rows].copy()
        return FilterResults(first, bits, final, list(self.reasons))

    def grow(self, rows: int) -> None:
        """Make room for more rows. New rows are undefined until they are written."""
        self.first, self.bits, self.final = grown(self.first, rows), grown(self.bits, rows), grown(self.final, rows)

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
        merged = self.reasons[position] = with_reasons(known, judgement.reasons)
        bits = np.zeros_like(judgement.bits)
        for i, reason in enumerate(judgement.reasons):
            bits |= ((judgement.bits >> i) & 1) << reason_place(merged, reason)
        return bits


class Diagnosis(FilterResults):
    """Filter results for every row of a cluster by the filters in `plugins`, or a `refusal` of all rows at once."""

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
        """By row that would fit without them, the nominated pods that block it."""
        self.note_of: Callable[[Diagnosis], str] | None = None
        """Asks the plugins for their notes; None if no plugin has any."""
        self.shared: dict[Hashable, Any] | None = None
        """For a diagnosis shared by equal pods, which no longer changes: answers by question. None for that of a single
        pod."""

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
        may_have_ended = any(SEARCH_ENDED in self.reasons[p] for p in positions if p < NARROWED)
        if may_have_ended and SEARCH_ENDED in self.counts():
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


_MAX_NODES: Final = 3
_MAX_PODS: Final = 3
"""At most this many are named: an event has little room, and a condition should not change often."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A nominated pod. `since` and `by` are empty if not known."""

    pod: str
    since: datetime | None = None
    by: str = ""

    @property
    def told(self) -> str:
        by = f" by {self.by}" if self.by else ""
        since = f" since {rfc3339(self.since)}" if self.since is not None else ""
        return f"{self.pod} (nominated{by}{since})"

    def document(self) -> dict[str, Any]:
        return {"pod": self.pod, "since": rfc3339(self.since) if self.since is not None else "", "by": self.by}


HolderOf: TypeAlias = Callable[[PodInfo], Holder]


def holders_by_node(diagnosis: Diagnosis | None, holder_of: HolderOf) -> dict[str, tuple[Holder, ...]]:
    """By node name, the nominated pods that hold the missing room."""
    if diagnosis is None:
        return {}
    name = diagnosis.cluster.name
    found = {name(row): tuple(map(holder_of, pods)) for row, pods in diagnosis.held_by.items()}
    return dict(sorted(found.items()))


def held_sentence(holders: Mapping[str, Sequence[Holder]]) -> str:
    """One sentence about held room; empty if there is none."""
    if not holders:
        return ""
    parts = [f"on {node_name} is held for {_listed(pods)}" for node_name, pods in list(holders.items())[:_MAX_NODES]]
    more = len(holders) - len(parts)
    return f"Room {', '.join(parts)}{f', and on {more} more' if more else ''}."


def _listed(pods: Sequence[Holder]) -> str:
    named = " and ".join(pod.told for pod in pods[:_MAX_PODS])
    more = len(pods) - _MAX_PODS
    return f"{named} and {more} more" if more > 0 else named
