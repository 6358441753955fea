"""A profile with its plugin instances: everything needed to run one `schedulerName`.

    ResolvedProfile (names, weights, arguments)  ──►  Assembled (instances by extension point, decider, queueing rules)

A plugin is created once and used at every extension point of the profile. Plugins that cannot take part are listed in
`left_out` with the reason.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tonnage import logs
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.scheduling_cycle import Decider, Pipeline
from tonnage.scheduling.events import EVERY_EVENT, ClusterEvent
from tonnage.scheduling.framework import (
    BindPlugin,
    EventHint,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from tonnage.scheduling.plugins.node_resources import NodePorts, NodeResourcesFit
from tonnage.scheduling.plugins.pod_and_node import OutOfScope, PrioritySort
from tonnage.scheduling.plugins.registry import FACTORIES
from tonnage.scheduling.plugins.volume_binding import VolumeBinding
from tonnage.scheduling.queue.queued_pod import SortKey, by_priority
from tonnage.scheduling.queue.unschedulable_pods import QueueingRules


def unfailing_sort_key(plugin: QueueSortPlugin) -> SortKey:
    """The plugin's `sort_key`, wrapped so that it never raises and its keys always compare. A pod without a key comes
    last; keys that cannot be compared are equal."""

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
        return isinstance(other, _Key) and not self < other and not other < self

    __hash__ = None  # type: ignore[assignment]  # it is compared, and kept nowhere


_log = logs.logger("tonnage.scheduler")

NOT_OFFERED = "no installed package offers it in the entry-point group tonnage.plugins"


@dataclass(frozen=True, slots=True)
class Assembled:
    """One profile, ready to run."""

    scheduler_name: str
    decider: Decider
    pipeline: Pipeline
    rules: QueueingRules
    sort_key: SortKey
    sorts_by_priority: bool
    """True for PrioritySort; False for a foreign QueueSort plugin."""
    post_filter: tuple[PostFilterPlugin, ...]
    reserve: tuple[ReservePlugin, ...]
    permit: tuple[PermitPlugin, ...]
    pre_bind: tuple[PreBindPlugin, ...]
    bind: tuple[BindPlugin, ...]
    post_bind: tuple[PostBindPlugin, ...]
    plugins: tuple[Plugin, ...]
    """All plugins, without duplicates."""
    left_out: Mapping[str, str]


class _Handle(NamedTuple):
    decider: Decider
    rng: random.Random


def assemble(profile: ResolvedProfile, rng: random.Random) -> Assembled:
    """Create the plugins of a profile."""
    made: dict[str, Plugin] = {}
    left_out: dict[str, str] = dict(profile.left_out)

    def plugin_named(name: str) -> Plugin | None:
        if name in made or name in left_out:
            return made.get(name)
        if name in FACTORIES:
            made[name] = FACTORIES[name](profile)
        elif name in profile.foreign:
            made[name] = profile.foreign[name](profile.args.get(name))  # type: ignore[call-arg]  # they take args
        else:
            left_out[name] = NOT_OFFERED
        return made.get(name)

    # mypy does not accept abstract classes as type[P]; the result has the right type all the same.
    def at(point: str, kind: Any) -> Any:
        found = ((plugin_named(each.name), each.weight) for each in profile.plugins_at(point))
        return tuple((plugin, weight) for plugin, weight in found if isinstance(plugin, kind))

    def plain(point: str, kind: Any) -> Any:
        return tuple(plugin for plugin, _ in at(point, kind))

    filters: tuple[FilterPlugin, ...] = plain("filter", FilterPlugin)
    are_ours = all(each.node_only or each.name in FACTORIES for each in filters)
    sums = next((each for each in filters if are_ours and isinstance(each, NodeResourcesFit)), None)
    before_sums = filters[: filters.index(sums)] if sums is not None else ()
    pipeline = Pipeline(
        pre_filter=(OutOfScope(), *plain("preFilter", PreFilterPlugin)),
        filter=filters,
        pre_score=plain("preScore", PreScorePlugin),
        score=at("score", ScorePlugin),
        preferring=tuple(plugin for plugin in plain("score", ScorePlugin) if isinstance(plugin, VolumeBinding)),
        sums=sums,
        ports=next((before_sum for before_sum in before_sums if isinstance(before_sum, NodePorts)), None),
    )
    sorts = plain("queueSort", QueueSortPlugin)
    sorts_by_priority = not sorts or type(sorts[0]) is PrioritySort
    pre_enqueue = plain("preEnqueue", PreEnqueuePlugin)
    rest: dict[str, Any] = {
        "post_filter": plain("postFilter", PostFilterPlugin),
        "reserve": plain("reserve", ReservePlugin),
        "permit": plain("permit", PermitPlugin),
        "pre_bind": plain("preBind", PreBindPlugin),
        "bind": plain("bind", BindPlugin),
        "post_bind": plain("postBind", PostBindPlugin),
    }
    decider = Decider(pipeline, rng)
    for plugin in made.values():
        plugin.connect(_Handle(decider, rng))
    return Assembled(
        scheduler_name=profile.scheduler_name,
        decider=decider,
        pipeline=pipeline,
        rules=QueueingRules(pre_enqueue, {name: _events_of(plugin) for name, plugin in made.items()}),
        sort_key=by_priority if sorts_by_priority else unfailing_sort_key(sorts[0]),
        sorts_by_priority=sorts_by_priority,
        plugins=tuple(made.values()),
        left_out=left_out,
        **rest,
    )


def _events_of(plugin: Plugin) -> tuple[EventHint, ...]:
    """The events of a plugin; every event if it fails to say."""
    try:
        found = tuple(plugin.events())
        if not all(isinstance(mask, ClusterEvent) and (hint is None or callable(hint)) for mask, hint in found):
            raise TypeError(f"events must be pairs of a ClusterEvent and a hint or None, not {found!r}")
        return found
    except Exception:
        _log.exception("A plugin failed", plugin=plugin.name)
        return ((EVERY_EVENT, None),)
