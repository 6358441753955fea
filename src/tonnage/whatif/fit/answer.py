"""What `fit` answers, as data; `document` is the JSON that scripts read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tonnage.whatif.fit.counting import Counted
from tonnage.whatif.fit.growth import NodesNeeded
from tonnage.whatif.fit.remedies import SHOWN, Remedy


@dataclass(frozen=True, slots=True)
class FitAnswer:
    """How many more replicas of a workload fit, and all that belongs to it."""

    workload: str
    counted: Counted
    remedies: tuple[Remedy, ...] = ()
    needed: NodesNeeded | None = None
    disks: Sequence[Mapping[str, Any]] = ()
    """The disks with the replicas that fit, as `disk_documents` has them."""

    def shown_remedies(self) -> list[Remedy]:
        """The least of each kind first, then others, as many as people read."""
        firsts: list[Remedy] = []
        rest: list[Remedy] = []
        for each in self.remedies:
            (rest if any(other.kind == each.kind for other in firsts) else firsts).append(each)
        return [*firsts, *rest][:SHOWN]

    def document(self) -> dict[str, Any]:
        return {
            "workload": self.workload,
            **self.counted.document(),
            "wouldHelp": [each.text for each in self.shown_remedies()],
            "remedies": [each.document() for each in self.remedies],
            "partial": self.counted.is_cut,
            "interrupted": self.counted.is_interrupted,
            "disks": list(self.disks),
            **({"nodesNeeded": self.needed.document()} if self.needed is not None else {}),
        }
