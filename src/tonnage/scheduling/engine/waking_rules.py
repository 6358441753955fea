"""What the engine tells its queue about pods that were refused: which are alike, and whom an event cannot help.

    sign     pods of one sign are refused alike         what the plugins that refused them see of them (`Plugin.sign`)
    ration   how much of what changed a pod would use   by the plugin that thinks the pod is helped (`Plugin.ration`)
             None: it is refused all the same           by any of those who refused it, where it happened (`reach`)

A pod may also be helped by preemption: it is refused, and room is made for it. Where some pod is of lower priority, all
plugins have a say in that, so that all of them sign, and nobody is left alone for what is true of a node with its pods.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any

import numpy as np

from tonnage import logs
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Mask, Rows, only_row, row_count
from tonnage.scheduling.cluster.event_rows import row_about
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.profiles import Assembled
from tonnage.scheduling.events import ActionType, ClusterEvent, EventResource
from tonnage.scheduling.framework import Code, Cycle, FilterPlugin, Plugin, PreFilterPlugin, Ration, Status
from tonnage.scheduling.preemption.ranked_residents import RankedResidents
from tonnage.scheduling.queue.needs import Needs, Needy, Offer
from tonnage.scheduling.queue.queued_pod import QueuedPod
from tonnage.scheduling.queue.rations import PodRation

_log = logs.logger("tonnage.scheduler")

_UNKNOWN_PRIORITY = -(1 << 63)
_JUDGING = ("pre_filter", "filter")
"""The methods that a class may judge by otherwise than the one it is made from."""


class WakingRules:
    """The hooks of a queue whose pods are judged by these profiles on this cluster."""

    def __init__(self, cluster: Cluster, profiles: Mapping[str, Assembled]) -> None:
        self._cluster = cluster
        self._profiles = profiles
        self._plugins = {
            name: {plugin.name: plugin for plugin in profile.plugins} for name, profile in profiles.items()
        }
        self._judging = {
            name: frozenset(each.name for each in (*profile.pipeline.pre_filter, *profile.pipeline.filter))
            for name, profile in profiles.items()
        }

    def sign(self, profile: str, pod: PodInfo, plugins: frozenset[str]) -> Hashable | None:
        """What these plugins see of a pod, and what makes room for it; None when one of them cannot say."""
        known = self._plugins.get(profile)
        if known is None:
            return None
        may_preempt = self._may_preempt(profile, pod)
        # One that never preempts does not speak for one that will, once somebody of lower priority is there.
        signs: list[Hashable] = [pod.priority, self._preempts(profile, pod), may_preempt]
        for name in sorted(plugins | self._judging[profile] if may_preempt else plugins):
            plugin = known.get(name)
            if plugin is None and name not in plugins:
                continue  # OutOfScope, which every profile asks and that looks at what no plugin here does
            if plugin is None or not _speaks_for_itself(plugin, "sign"):
                return None
            sign = plugin.sign(pod, self._cluster)
            if sign is None:
                return None
            signs.append(sign)
        return tuple(signs)

    def ration(self, profile: str, plugin: str, event: ClusterEvent, changed: Any) -> PodRation | None:
        """How a plugin that thinks pods helped shares out what changed among them; None when it does not."""
        found = self._plugins[profile].get(plugin)
        if found is None:
            return None
        try:
            ration = found.ration(self._cluster, event, changed)
            rows = found.reach(self._cluster, event, changed) if _speaks_for_itself(found, "reach") else None
        except Exception:  # whoever the hint says is helped is woken
            _log.exception("A plugin failed", plugin=plugin, cluster_event=event.label)
            return None
        return None if ration is None and rows is None else _EventRation(self, profile, found, ration, rows)

    def needs(self, profile: str, plugin: str, pod: PodInfo, refused_by: frozenset[str]) -> Needy | None:
        """What a pod that a plugin refused needs of the events which that one cares for.

        Where the plugin's events are about one node, and the pod was refused for a node's labels as well, it needs
        those too.
        """
        found = self._plugins.get(profile, {}).get(plugin)
        if found is None or not _says_what_is_needed(found):
            return None
        told = found.needs(pod, self._cluster)
        if told is None:
            return None
        needs: Needs = {what: int(amount) for what, amount in told.items()}
        if found.needs_are_of_one_node:
            label = self._label_needed(profile, pod, refused_by)
            needs = {(label, what): amount for what, amount in needs.items()}
        return Needy(needs, pod.priority if self._preempts(profile, pod) else None)

    def _label_needed(self, profile: str, pod: PodInfo, refused_by: frozenset[str]) -> tuple[str, str] | None:
        for name in sorted(refused_by):
            plugin = self._plugins[profile].get(name)
            if isinstance(plugin, FilterPlugin) and _judges_rows(plugin) and (label := plugin.label_needed(pod)):
                return label
        return None

    def offer(self, profile: str, plugin: str, event: ClusterEvent, old: Any, new: Any) -> Offer | None:
        """What an event has for pods that a plugin refused; None when it may help any of them."""
        found = self._plugins[profile].get(plugin)
        if found is None or not _says_what_is_needed(found):
            return None
        try:
            amounts = found.offer(self._cluster, event, old, new)
            if not isinstance(amounts, Mapping | None):
                raise TypeError(f"an offer is to be a mapping or None, not {amounts!r}")
        except Exception:  # it may help anybody
            _log.exception("A plugin failed", plugin=plugin, cluster_event=event.label)
            return None
        if amounts is None:
            return None
        if found.needs_are_of_one_node:
            rows = row_about(self._cluster, old if new is None else new)
            row = only_row(rows) if rows is not None else -1
            node = self._cluster.nodes[row] if row >= 0 else None
            labels = (None, *node.metadata.labels.items()) if node is not None else (None,)
            amounts = {(label, what): amount for what, amount in amounts.items() for label in labels}
        return Offer(amounts, self._lowest_priority())

    def refused_on(self, queued: QueuedPod, rows: Rows, profile: str, plugin: Plugin) -> bool:
        """Whether those who refused a pod, and look at nothing but rows, refuse it on each of these rows now."""
        if not row_count(rows):
            return True
        if self._may_preempt(profile, queued.info):
            return False
        known = self._plugins[profile]
        named = (known.get(name) for name in (plugin.name, *sorted(queued.unschedulable_plugins - {plugin.name})))
        asked = [each for each in named if isinstance(each, FilterPlugin) and _judges_rows(each)]
        row = only_row(rows)
        if row >= 0 and any(each.surely_refuses(queued.info, self._cluster, row) for each in asked):
            return True
        cycle, passing = Cycle(queued.info, self._cluster), None
        for each in asked:
            refused = refused_rows(each, cycle, rows)
            if refused is True:
                return True
            if refused is not False:
                passing = ~refused if passing is None else passing & ~refused
                if not passing.any():
                    return True
        return False

    def _may_preempt(self, profile: str, pod: PodInfo) -> bool:
        """Whether room might be made for a pod by somebody who goes."""
        return self._preempts(profile, pod) and pod.priority > self._lowest_priority()

    def _preempts(self, profile: str, pod: PodInfo) -> bool:
        return bool(self._profiles[profile].post_filter) and pod.pod.spec.preemption_policy != "Never"

    def _lowest_priority(self) -> int:
        """Of any pod that is there; lower than any where that is not known."""
        if not self._cluster.has_index(RankedResidents):
            return _UNKNOWN_PRIORITY
        return self._cluster.index(RankedResidents).lowest


class _EventRation:
    """One plugin's answers about one event, for one look at the queue."""

    def __init__(
        self, rules: WakingRules, profile: str, plugin: Plugin, ration: Ration | None, rows: Rows | None
    ) -> None:
        self._rules = rules
        self._profile = profile
        self._plugin = plugin
        self._ration = ration
        self._rows = rows

    def __call__(self, queued: QueuedPod) -> float | None:
        if self._rows is not None and self._rules.refused_on(queued, self._rows, self._profile, self._plugin):
            return None
        return 0.0 if self._ration is None else self._ration(queued.info)


def refused_rows(plugin: FilterPlugin, cycle: Cycle, rows: Rows) -> Mask | bool:
    """Which rows a plugin refuses; True for all of them, False for none."""
    if isinstance(plugin, PreFilterPlugin):
        status = plugin.pre_filter(cycle)
        if isinstance(status, Status):
            if status.code is Code.SKIP:
                return False
            if not status.is_success:
                return status.is_rejection
    judged = plugin.filter(cycle, rows)
    if judged is None:
        return False
    refused: Mask = judged.bits != 0
    return True if np.all(refused) else refused


def of_nodes(plugin: FilterPlugin) -> bool:
    """Whether a filter looks at the node and at the pod, and at nothing else: no other event would change its mind."""
    masks = [mask for mask, _ in plugin.events()]
    return plugin.row_local and all(
        mask.resource is EventResource.NODE or mask.action is ActionType.UPDATE_POD_TOLERATION for mask in masks
    )


def _judges_rows(plugin: FilterPlugin) -> bool:
    return plugin.row_local and _speaks_for_itself(plugin, "reach")


def _says_what_is_needed(plugin: Plugin) -> bool:
    return _speaks_for_itself(plugin, "needs") and _speaks_for_its_hints(type(plugin))


def _speaks_for_itself(plugin: Plugin, method: str) -> bool:
    return _speaks_for_its_class(type(plugin), method)


@cache
def _speaks_for_its_class(kind: type[Plugin], method: str) -> bool:
    """Whether a class says this of its own judging: one that judges otherwise than its parent has to."""

    def place(name: str) -> int:
        return next((number for number, each in enumerate(kind.__mro__) if name in vars(each)), len(kind.__mro__))

    return all(place(method) <= place(judging) for judging in _JUDGING)


@cache
def _speaks_for_its_hints(kind: type[Plugin]) -> bool:
    """Whether a class says what its own events offer, and not those of the one it is made from."""
    mine = {name: next(each for each in kind.__mro__ if name in vars(each)) for name in ("offer", "events")}
    return issubclass(mine["offer"], mine["events"])
