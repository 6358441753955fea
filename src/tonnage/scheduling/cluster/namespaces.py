"""Namespaces by name, and which of them a selector chooses, without asking all of them for every pod.

A selector that was asked about has its answer kept; a namespace that comes, goes or changes its labels is judged again
for each of the kept answers, and no other is. Clusters have thousands of namespaces, which change seldom, and few
selectors of them, which every replica brings along again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, MutableMapping

from tonnage.scheduling.cluster.pod_matching import Labels, Requirements, hold

MAX_ANSWERS = 256
"""Selectors whose answers are kept: those asked about latest."""


class Namespaces(MutableMapping[str, Labels]):
    """Labels by namespace."""

    def __init__(self) -> None:
        self._labels: dict[str, Labels] = {}
        self._chosen: OrderedDict[Requirements, frozenset[str]] = OrderedDict()

    def __getitem__(self, name: str) -> Labels:
        return self._labels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)

    def __setitem__(self, name: str, labels: Labels) -> None:
        self._labels[name] = labels
        for requirements, chosen in self._chosen.items():
            if hold(requirements, labels) != (name in chosen):
                self._chosen[requirements] = chosen ^ {name}

    def __delitem__(self, name: str) -> None:
        del self._labels[name]
        for requirements, chosen in self._chosen.items():
            if name in chosen:
                self._chosen[requirements] = chosen - {name}

    def chosen_by(self, requirements: Requirements) -> frozenset[str]:
        """The namespaces whose labels meet all requirements; the same object until that changes."""
        found = self._chosen.get(requirements)
        if found is None:
            found = frozenset(name for name, labels in self._labels.items() if hold(requirements, labels))
            self._chosen[requirements] = found
            if len(self._chosen) > MAX_ANSWERS:
                self._chosen.popitem(last=False)
        else:
            self._chosen.move_to_end(requirements)
        return found
