"""A profile with its plugin instances: everything needed to run one `schedulerName`.

    ResolvedProfile (names, weights, arguments)  ──►  Assembled (instances by extension point, decider, queueing rules)

A plugin is created once and used at every extension point of the profile. Plugins that cannot take part are listed in
`left_out` with the reason.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from tonnage import logs
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.scheduling_cycle import Decider, Pipeline
from tonnage.scheduling.events import EVERY_EVENT, ClusterEvent
from tonnage.scheduling.framework import (
    BindPlugin,
    EventHint,
    FilterPlugin,
    Handle,
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
from tonnage.scheduling.queue.waiting_pods import QueueingRules, SortKey, by_priority

_log = logs.logger("tonnage.scheduler")


def unfailing_sort_key(plugin: QueueSortPlugin) -> SortKey:
    """The plugin's `sort_key`, wrapped so that it never raises and its keys always compare. A pod without a key comes
    last; keys that cannot be compared are equal."""

    def compared(one: tuple[Any, str], other: tuple[Any, str]) -> int:
        try:
            return int(bool(other[0] < one[0])) - int(bool(one[0] < other[0]))
        except Exception:
            _log.exception("A plugin's sort keys cannot be compared", plugin=plugin.name, pod=one[1])
            return 0

    comparable = cmp_to_key(compared)

    def sort_key(pod: PodInfo, queued_at: float) -> tuple[bool, Any]:
        try:
            return False, comparable((plugin.sort_key(pod, queued_at), pod.key))
        except Exception:
            _log.exception("A plugin failed", plugin=plugin.name, pod=pod.key)
            return True, None

    return sort_key


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
    assembled = Assembled(
        scheduler_name=profile.scheduler_name,
        decider=Decider(pipeline, rng),
        pipeline=pipeline,
        sort_key=by_priority if sorts_by_priority else unfailing_sort_key(sorts[0]),
        sorts_by_priority=sorts_by_priority,
        post_filter=plain("postFilter", PostFilterPlugin),
        reserve=plain("reserve", ReservePlugin),
        permit=plain("permit", PermitPlugin),
        pre_bind=plain("preBind", PreBindPlugin),
        bind=plain("bind", BindPlugin),
        post_bind=plain("postBind", PostBindPlugin),
        # After all plugins were created, in the order of these lines.
        rules=QueueingRules(pre_enqueue, {name: _events_of(plugin) for name, plugin in made.items()}),
        plugins=tuple(made.values()),
        left_out=left_out,
    )
    for plugin in assembled.plugins:
        plugin.connect(Handle(assembled.decider, rng))
    return assembled


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
