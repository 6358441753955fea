"""Services and the controllers that own pods, as far as the default spreading rules look at them.

A pod is spread by default when a Service of its namespace, or the ReplicationController, ReplicaSet or StatefulSet that
owns it, selects it. `selector_for` gives the one combined selector, as upstream's DefaultSelector does.
"""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.objects.core_v1 import Pod
from tonnage.objects.requirements import Requirement
from tonnage.objects.selectors import LabelSelector

_OWNERS = frozenset({("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")})


class Workloads:
    def __init__(self) -> None:
        self._services: dict[str, dict[str, Mapping[str, str]]] = {}
        self._owners: dict[tuple[str, str, str], LabelSelector | None] = {}
        self.tick = 0
        """Changes whenever an answer of `selector_for` may have."""

    @property
    def is_empty(self) -> bool:
        """Nobody selects any pods."""
        return not self._services and not self._owners

    def put_service(self, namespace: str, name: str, selector: Mapping[str, str]) -> None:
        self._services.setdefault(namespace, {})[name] = selector
        self.tick += 1

    def remove_service(self, namespace: str, name: str) -> None:
        services = self._services.get(namespace, {})
        services.pop(name, None)
        if not services:
            self._services.pop(namespace, None)
        self.tick += 1

    def put_owner(
        self, kind: str, namespace: str, name: str, selector: LabelSelector | Mapping[str, str] | None
    ) -> None:
        """A controller and whom it selects; the selector of a ReplicationController is a plain map."""
        if selector is not None and not isinstance(selector, LabelSelector):
            selector = LabelSelector(match_labels=selector)
        self._owners[kind, namespace, name] = selector
        self.tick += 1

    def remove_owner(self, kind: str, namespace: str, name: str) -> None:
        self._owners.pop((kind, namespace, name), None)
        self.tick += 1

    def selector_for(self, pod: Pod) -> LabelSelector | None:
        """What selects the pods to spread this one among; None when nothing does. Where its Services and its owner
        disagree, nothing is selected by both.
        """
        labels: dict[str, str] = {}
        for selector in self._services.get(pod.metadata.namespace, {}).values():
            if selector and selector.items() <= pod.metadata.labels.items():
                labels |= selector
        expressions: tuple[Requirement, ...] = ()
        owner = pod.metadata.controller
        if owner is not None and (owner.api_version, owner.kind) in _OWNERS:
            found = self._owners.get((owner.kind, pod.metadata.namespace, owner.name))
            if found is not None and owner.kind == "ReplicationController":
                labels |= found.match_labels
            elif found is not None:
                as_well = {key: value for key, value in found.match_labels.items() if labels.get(key, value) != value}
                labels = {**found.match_labels, **labels}
                expressions = (
                    *found.match_expressions,
                    *(Requirement(key=key, operator="In", values=(value,)) for key, value in as_well.items()),
                )
        if not labels and not expressions:
            return None
        return LabelSelector(match_labels=labels, match_expressions=expressions)
