"""The pods on each node, kept up to date from an informer: what would else be a search through all pods."""

from __future__ import annotations

from tonnage.client.cache import Cache
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key


class PodsByNode:
    """An index over a cache of pods. A handler that was added to the cache later finds the index up to date."""

    def __init__(self, pods: Cache[Pod]) -> None:
        self._pods = pods
        self._keys: dict[str, set[Key]] = {}
        pods.add_handlers(on_add=self._added, on_update=self._updated, on_delete=self._deleted)

    def on(self, node: str) -> tuple[Pod, ...]:
        """The pods that are bound to this node, in the order of their keys."""
        found = (self._pods.get(key) for key in sorted(self._keys.get(node, ())))
        return tuple(pod for pod in found if pod is not None)

    def _added(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._keys.setdefault(pod.spec.node_name, set()).add(pod.key)

    def _updated(self, old: Pod, new: Pod) -> None:
        if old.spec.node_name != new.spec.node_name:
            self._deleted(old)
            self._added(new)

    def _deleted(self, pod: Pod) -> None:
        keys = self._keys.get(pod.spec.node_name)
        if keys is not None:
            keys.discard(pod.key)
            if not keys:
                del self._keys[pod.spec.node_name]
