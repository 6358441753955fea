"""The order of a QueueSort plugin of somebody else's, for a queue that has to work whatever the plugin does.

Every move of a pod asks for its sort key and compares it with others: a plugin that raises there would lose the pod. A
pod that the plugin has no key for comes after all others; keys that cannot be compared are equal, so that the pods keep
the order in which they were queued.
"""

from __future__ import annotations

from typing import Any

from tonnage import logs
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import QueueSortPlugin
from tonnage.scheduling.queue.queued_pod import SortKey

_log = logs.logger("tonnage.scheduler")


def unfailing_sort_key(plugin: QueueSortPlugin) -> SortKey:
    """The plugin's `sort_key`, as one that does not raise and whose keys can always be compared."""

    def sort_key(pod: PodInfo, queued_at: float) -> _Key:
        try:
            return _Key(plugin, pod, False, plugin.sort_key(pod, queued_at))
        except Exception:
            _log.exception("A plugin failed", plugin=plugin.name, pod=pod.key)
            return _Key(plugin, pod, True, None)

    return sort_key


class _Key:
    __slots__ = ("_key", "_plugin", "_pod", "is_broken")

    def __init__(self, plugin: QueueSortPlugin, pod: PodInfo, is_broken: bool, key: Any) -> None:
        self._plugin = plugin
        self._pod = pod
        self.is_broken = is_broken
        self._key = key

    def __lt__(self, other: _Key) -> bool:
        if self.is_broken or other.is_broken:
            return other.is_broken and not self.is_broken
        try:
            return bool(self._key < other._key)
        except Exception:
            _log.exception("A plugin's sort keys cannot be compared", plugin=self._plugin.name, pod=self._pod.key)
            return False

    def __eq__(self, other: object) -> bool:
        """True if neither comes before the other: then the order of queueing decides."""
        return isinstance(other, _Key) and not self < other and not other < self

    __hash__ = None  # type: ignore[assignment]  # it is compared, and kept nowhere
