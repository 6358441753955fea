"""A profile with its plugin instances: everything needed to run one `schedulerName`.

    ResolvedProfile (names, weights, arguments)  ──►  Assembled (instances by extension point, decider, queueing rules)

A plugin is created once and used at every extension point of the profile. Plugins that cannot take part are listed in
`left_out` with the reason.

The plugins also answer what the queue asks about refused pods: which are alike, and which an event cannot help.

    sign            pods of one sign are refused alike    what the plugins that refused them read of the pod
    reach           is a pod refused all the same?        asks the plugins that refused it, for the changed rows
    needs, offer    may the event be enough for a pod?    for three of Tonnage's own plugins

If a pod of lower priority exists, preemption may help as well: then all plugins sign, and only refusals that preemption
cannot resolve count.

`FACTORIES` says how each plugin is created from its profile's arguments, `add_indexes` which indexes plugins read. Only
this module adds indexes to a cluster, so that they hear of changes in the same order in every program and test: the
capacity index hears of an object before the ledger that reads it.

Foreign plugins join through the Python entry-point group `tonnage.plugins`: the entry's name is the plugin's name, its
object a `framework.Plugin` class that is called with the raw arguments from `pluginConfig`, or None.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cmp_to_key, partial
from typing import Any, Final

import numpy as np

from tonnage import logs
from tonnage.scheduling import framework
from tonnage.scheduling.cluster.cluster import Cluster, row_about
from tonnage.scheduling.cluster.columns import Mask, Rows, only_row, row_count
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration import plugin_args, plugin_args_rules
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.scheduling_cycle import Decider, Pipeline
from tonnage.scheduling.events import EVERY_EVENT, ActionType, ClusterEvent, EventResource
from tonnage.scheduling.plugins import node_resources, pod_and_node, volume_constraints
from tonnage.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from tonnage.scheduling.plugins.node_resources import NodePorts, NodeResourcesFit
from tonnage.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from tonnage.scheduling.plugins.pod_and_node import NodeAffinity, OutOfScope, PrioritySort
from tonnage.scheduling.plugins.pod_topology_spread import PodTopologySpread
from tonnage.scheduling.plugins.volume_binding import ToldRebuilds, VolumeBinding
from tonnage.scheduling.preemption.preemption import DefaultPreemption
from tonnage.scheduling.preemption.ranked_residents import DisruptionBudgets, RankedResidents
from tonnage.scheduling.queue import waiting_pods
from tonnage.scheduling.spread.residents import CarriedTerms, Residents
from tonnage.scheduling.volumes import hints, volume_reach
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.scheduling.volumes.static_volumes import StaticVolumes

Factory = Callable[[ResolvedProfile], framework.Plugin]
"""Plugin classes of other packages, by name."""


def _fit(profile: ResolvedProfile) -> framework.Plugin:
    args = profile.args_of(plugin_args.NodeResourcesFitArgs)
    strategy = args.scoring_strategy
    ratio = strategy.requested_to_capacity_ratio
    return node_resources.NodeResourcesFit(
        strategy=strategy.type,
        resources=tuple((spec.name, spec.weight) for spec in strategy.resources),
        shape=plugin_args_rules.shape_of(ratio.shape) if ratio else (),
        ignored=frozenset(args.ignored_resources),
        ignored_groups=frozenset(args.ignored_resource_groups),
    )


FACTORIES: Mapping[str, Factory] = {
    "DefaultBinder": lambda profile: pod_and_node.DefaultBinder(),
    "DefaultPreemption": lambda profile: DefaultPreemption(profile.args_of(plugin_args.DefaultPreemptionArgs)),
    "ImageLocality": lambda profile: node_resources.ImageLocality(),
    "InterPodAffinity": lambda profile: InterPodAffinity(profile.args_of(plugin_args.InterPodAffinityArgs)),
    "NodeAffinity": lambda profile: pod_and_node.NodeAffinity(
        profile.args_of(plugin_args.NodeAffinityArgs).added_affinity
    ),
    "NodeName": lambda profile: pod_and_node.NodeName(),
    "NodePorts": lambda profile: node_resources.NodePorts(),
    "NodeResourcesBalancedAllocation": lambda profile: node_resources.NodeResourcesBalancedAllocation(
        tuple(
            (spec.name, spec.weight)
            for spec in profile.args_of(plugin_args.NodeResourcesBalancedAllocationArgs).resources
        )
    ),
    "NodeResourcesFit": _fit,
    "NodeUnschedulable": lambda profile: pod_and_node.NodeUnschedulable(),
    "NodeVolumeLimits": lambda profile: NodeVolumeLimits(profile.gates),
    "PodTopologySpread": lambda profile: PodTopologySpread(profile.args_of(plugin_args.PodTopologySpreadArgs)),
    "PrioritySort": lambda profile: pod_and_node.PrioritySort(),
    "SchedulingGates": lambda profile: pod_and_node.SchedulingGates(),
    "TaintToleration": lambda profile: pod_and_node.TaintToleration(),
    "VolumeBinding": lambda profile: VolumeBinding(
        profile.gates, profile.args_of(plugin_args.VolumeBindingArgs), profile.args_of(plugin_args.StorageCapacityArgs)
    ),
    "VolumeRestrictions": lambda profile: volume_constraints.VolumeRestrictions(),
    "VolumeZone": lambda profile: volume_constraints.VolumeZone(),
}


INDEXES: Final[tuple[type, ...]] = (
    DisruptionBudgets,
    Residents,
    CarriedTerms,
    RankedResidents,
    CapacityIndex,
    StaticVolumes,
    AttachedVolumes,
    volume_reach.VolumePlaces,
    ToldRebuilds,
    hints.TopologyKeys,
    Reservations,  # reads the capacity index, like the next
    Ledger,
)


def add_indexes(cluster: Cluster, wanted: Iterable[type] = INDEXES) -> Cluster:
    """Add the wanted indexes that the cluster lacks, in the order of `INDEXES`. Returns the cluster."""
    kinds = set(wanted)
    if unknown := kinds - set(INDEXES):
        names = ", ".join(sorted(each.__name__ for each in unknown))
        raise LookupError(f"there is no index {names}; add it to engine/profiles.py")
    for kind in INDEXES:
        if kind in kinds and not cluster.has_index(kind):
            cluster.add_index(kind(cluster))
    return cluster


_log = logs.logger("tonnage.scheduler")


def unfailing_sort_key(plugin: framework.QueueSortPlugin) -> waiting_pods.SortKey:
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
    rules: waiting_pods.QueueingRules
    sort_key: waiting_pods.SortKey
    sorts_by_priority: bool
    """True for PrioritySort; False for a foreign QueueSort plugin."""
    post_filter: tuple[framework.PostFilterPlugin, ...]
    reserve: tuple[framework.ReservePlugin, ...]
    permit: tuple[framework.PermitPlugin, ...]
    pre_bind: tuple[framework.PreBindPlugin, ...]
    bind: tuple[framework.BindPlugin, ...]
    post_bind: tuple[framework.PostBindPlugin, ...]
    plugins: tuple[framework.Plugin, ...]
    """All plugins, without duplicates."""
    left_out: Mapping[str, str]


def assemble(profile: ResolvedProfile, rng: random.Random) -> Assembled:
    """Create the plugins of a profile."""
    made: dict[str, framework.Plugin] = {}
    left_out: dict[str, str] = dict(profile.left_out)

    def plugin_named(name: str) -> framework.Plugin | None:
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

    filters: tuple[framework.FilterPlugin, ...] = plain("filter", framework.FilterPlugin)
    are_ours = all(each.node_only or each.name in FACTORIES for each in filters)
    sums = next((each for each in filters if are_ours and isinstance(each, NodeResourcesFit)), None)
    before_sums = filters[: filters.index(sums)] if sums is not None else ()
    pipeline = Pipeline(
        pre_filter=(OutOfScope(), *plain("preFilter", framework.PreFilterPlugin)),
        filter=filters,
        pre_score=plain("preScore", framework.PreScorePlugin),
        score=at("score", framework.ScorePlugin),
        preferring=next(
            (each for each in plain("score", framework.ScorePlugin) if isinstance(each, VolumeBinding)), None
        ),
        sums=sums,
        ports=next((before_sum for before_sum in before_sums if isinstance(before_sum, NodePorts)), None),
    )
    sorts = plain("queueSort", framework.QueueSortPlugin)
    sorts_by_priority = not sorts or type(sorts[0]) is PrioritySort
    pre_enqueue = plain("preEnqueue", framework.PreEnqueuePlugin)
    assembled = Assembled(
        scheduler_name=profile.scheduler_name,
        decider=Decider(pipeline, rng),
        pipeline=pipeline,
        sort_key=waiting_pods.by_priority if sorts_by_priority else unfailing_sort_key(sorts[0]),
        sorts_by_priority=sorts_by_priority,
        post_filter=plain("postFilter", framework.PostFilterPlugin),
        reserve=plain("reserve", framework.ReservePlugin),
        permit=plain("permit", framework.PermitPlugin),
        pre_bind=plain("preBind", framework.PreBindPlugin),
        bind=plain("bind", framework.BindPlugin),
        post_bind=plain("postBind", framework.PostBindPlugin),
        # After all plugins were created, in the order of these lines.
        rules=waiting_pods.QueueingRules(pre_enqueue, {name: _events_of(plugin) for name, plugin in made.items()}),
        plugins=tuple(made.values()),
        left_out=left_out,
    )
    for plugin in assembled.plugins:
        plugin.connect(framework.Handle(assembled.decider, rng))
    return assembled


def _events_of(plugin: framework.Plugin) -> tuple[framework.EventHint, ...]:
    """The events of a plugin; every event if it fails to say."""
    try:
        found = tuple(plugin.events())
        if not all(isinstance(mask, ClusterEvent) and (hint is None or callable(hint)) for mask, hint in found):
            raise TypeError(f"events must be pairs of a ClusterEvent and a hint or None, not {found!r}")
        return found
    except Exception:
        _log.exception("A plugin failed", plugin=plugin.name)
        return ((EVERY_EVENT, None),)


_UNKNOWN_PRIORITY = -(1 << 63)


class EngineWaking(waiting_pods.WakingRules):
    """The waking rules of a queue whose pods these profiles place on this cluster."""

    def __init__(self, cluster: Cluster, profiles: Mapping[str, Assembled]) -> None:
        self._cluster = cluster
        self._profiles = profiles
        self._plugins = {
            name: {plugin.name: plugin for plugin in profile.plugins} for name, profile in profiles.items()
        }
        self._judging = {
            name: frozenset(plugin.name for plugin in (*profile.pipeline.pre_filter, *profile.pipeline.filter))
            for name, profile in profiles.items()
        }

    # -- which pods are alike -----------------------------------------------------------------------------------------

    def sign(self, profile: str, pod: PodInfo, plugins: frozenset[str]) -> Hashable | None:
        known = self._plugins.get(profile)
        if known is None:
            return None
        may_preempt = self.may_preempt(profile, pod)
        # A pod that never preempts does not stand for one that may, once a pod of lower priority exists.
        signs: list[Hashable] = [pod.priority, self._preempts(profile, pod), may_preempt]
        for name in sorted(plugins | self._judging[profile] if may_preempt else plugins):
            plugin = known.get(name)
            if plugin is None and name not in plugins:
                continue  # OutOfScope: every profile has it, and it reads nothing that a plugin here does
            sign = plugin.sign(pod, self._cluster) if plugin is not None else None
            if sign is None:
                return None
            signs.append(sign)
        return tuple(signs)

    # -- rows of an event ---------------------------------------------------------------------------------------------

    def reach(self, profile: str, plugin: str, event: ClusterEvent, changed: Any) -> waiting_pods.MayHelp | None:
        found = self._plugins[profile].get(plugin)
        if found is None:
            return None
        try:
            rows = found.reach(self._cluster, event, changed)
        except Exception:  # then every pod that the hint names is tried
            _log.exception("A plugin failed", plugin=plugin, cluster_event=event.label)
            return None
        return None if rows is None else partial(self._may_pass, profile, found, rows)

    def _may_pass(self, profile: str, plugin: framework.Plugin, rows: Rows, queued: waiting_pods.QueuedPod) -> bool:
        """True if some row is refused by none of the row-local plugins that refused the pod before."""
        if not row_count(rows):
            return False
        resolvable = not self.may_preempt(profile, queued.info)
        known, others = self._plugins[profile], sorted(queued.unschedulable_plugins - {plugin.name})
        cycle, passing = framework.Cycle(queued.info, self._cluster), np.ones(row_count(rows), dtype=np.bool_)
        for each in (plugin, *(known.get(name) for name in others)):
            if isinstance(each, framework.FilterPlugin) and each.row_local:
                passing &= ~refused_rows(each, cycle, rows, resolvable=resolvable)
                if not passing.any():
                    return False
        return True

    # -- needs and offers ---------------------------------------------------------------------------------------------

    def needs(self, profile: str, plugin: str, pod: PodInfo, refused_by: frozenset[str]) -> waiting_pods.Needy | None:
        """NodeResourcesFit's events are about one node: a pod that was also refused for labels needs these too."""
        found = self._saying_needs(profile, plugin)
        told = found.needs(pod, self._cluster) if found is not None else None
        if told is None:
            return None
        needs: waiting_pods.Needs = told
        if isinstance(found, NodeResourcesFit):
            is_selected = isinstance(self._plugins[profile].get(NodeAffinity.name), NodeAffinity)
            selector = pod.pod.spec.node_selector if is_selected and NodeAffinity.name in refused_by else {}
            label = next(iter(selector.items()), None)
            needs = {(label, what): amount for what, amount in needs.items()}
        return waiting_pods.Needy(needs, pod.priority if self._preempts(profile, pod) else None)

    def offer(self, profile: str, plugin: str, event: ClusterEvent, old: Any, new: Any) -> waiting_pods.Offer | None:
        found = self._saying_needs(profile, plugin)
        amounts = found.offer(self._cluster, event, old, new) if found is not None else None
        if amounts is None:
            return None
        if isinstance(found, NodeResourcesFit):
            rows = row_about(self._cluster, old if new is None else new)
            row = only_row(rows) if rows is not None else -1
            node = self._cluster.nodes[row] if row >= 0 else None
            labels = (None, *node.metadata.labels.items()) if node is not None else (None,)
            amounts = {(label, what): amount for what, amount in amounts.items() for label in labels}
        return waiting_pods.Offer(amounts, self._lowest_priority())

    def _saying_needs(self, profile: str, plugin: str) -> NodeResourcesFit | VolumeBinding | InterPodAffinity | None:
        """The plugin, if it says what a refused pod needs. A subclass may judge otherwise, so it does not count."""
        found = self._plugins.get(profile, {}).get(plugin)
        is_ours = type(found) in (NodeResourcesFit, VolumeBinding, InterPodAffinity)
        return found if is_ours and isinstance(found, NodeResourcesFit | VolumeBinding | InterPodAffinity) else None

    # -- preemption ---------------------------------------------------------------------------------------------------

    def may_preempt(self, profile: str, pod: PodInfo) -> bool:
        """True if preemption might make room for the pod."""
        return self._preempts(profile, pod) and pod.priority > self._lowest_priority()

    def _preempts(self, profile: str, pod: PodInfo) -> bool:
        return bool(self._profiles[profile].post_filter) and pod.pod.spec.preemption_policy != "Never"

    def _lowest_priority(self) -> int:
        """The lowest priority of all pods on nodes; lower than any if not known."""
        if not self._cluster.has_index(RankedResidents):
            return _UNKNOWN_PRIORITY
        return self._cluster.index(RankedResidents).lowest


def refused_rows(
    plugin: framework.FilterPlugin, cycle: framework.Cycle, rows: Rows, *, resolvable: bool = True
) -> Mask:
    """A mask over `rows`: True where a plugin refuses the pod; without `resolvable`, where preemption cannot help."""
    nowhere = np.zeros(row_count(rows), dtype=np.bool_)
    if isinstance(plugin, framework.PreFilterPlugin):
        status = plugin.pre_filter(cycle)
        if isinstance(status, framework.Status) and (status.code is framework.Code.SKIP or not status.is_success):
            return nowhere | (status.is_rejection and (resolvable or status.code is framework.Code.UNRESOLVABLE))
    judged = plugin.filter(cycle, rows)
    if judged is None:
        return nowhere
    refused: Mask = judged.bits != 0
    return refused if resolvable else refused & judged.unresolvable


def of_nodes(plugin: framework.FilterPlugin) -> bool:
    """True if a filter reads only the pod and the node: no other event can change its answer."""
    masks = [mask for mask, _ in plugin.events()]
    return plugin.row_local and all(
        mask.resource is EventResource.NODE or mask.action is ActionType.UPDATE_POD_TOLERATION for mask in masks
    )
