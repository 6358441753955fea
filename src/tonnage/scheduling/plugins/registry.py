"""Plugins by name, and how each is made from its profile's arguments.

Somebody else's plugin joins through the Python entry-point group `tonnage.plugins`: the name is the plugin's, the
object its class, a `framework.Plugin` that is made with its raw arguments from `pluginConfig` (None when there are
none).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tonnage.scheduling.configuration.plugin_args import (
    DefaultPreemptionArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    StorageCapacityArgs,
    VolumeBindingArgs,
)
from tonnage.scheduling.configuration.plugin_args_rules import shape_of
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.framework import Plugin
from tonnage.scheduling.plugins.default_preemption import DefaultPreemption
from tonnage.scheduling.plugins.image_locality import ImageLocality
from tonnage.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from tonnage.scheduling.plugins.node_constraints import NodeAffinity, NodeName, NodeUnschedulable, TaintToleration
from tonnage.scheduling.plugins.node_resources import NodePorts, NodeResourcesBalancedAllocation, NodeResourcesFit
from tonnage.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from tonnage.scheduling.plugins.pod_plugins import DefaultBinder, PrioritySort, SchedulingGates
from tonnage.scheduling.plugins.pod_topology_spread import PodTopologySpread
from tonnage.scheduling.plugins.volume_binding import VolumeBinding
from tonnage.scheduling.plugins.volume_constraints import VolumeRestrictions, VolumeZone

Factory = Callable[[ResolvedProfile], Plugin]
ForeignPlugins = Mapping[str, type[Plugin]]
"""Plugin classes of others, by name."""


def _node_affinity(profile: ResolvedProfile) -> Plugin:
    return NodeAffinity(profile.args_of(NodeAffinityArgs).added_affinity)


def _fit(profile: ResolvedProfile) -> Plugin:
    args = profile.args_of(NodeResourcesFitArgs)
    strategy = args.scoring_strategy
    ratio = strategy.requested_to_capacity_ratio
    return NodeResourcesFit(
        strategy=strategy.type,
        resources=tuple((each.name, each.weight) for each in strategy.resources),
        shape=shape_of(ratio.shape) if ratio else (),
        ignored=frozenset(args.ignored_resources),
        ignored_groups=frozenset(args.ignored_resource_groups),
    )


def _balanced(profile: ResolvedProfile) -> Plugin:
    args = profile.args_of(NodeResourcesBalancedAllocationArgs)
    return NodeResourcesBalancedAllocation(tuple((each.name, each.weight) for each in args.resources))


def _volume_binding(profile: ResolvedProfile) -> Plugin:
    return VolumeBinding(profile.gates, profile.args_of(VolumeBindingArgs), profile.args_of(StorageCapacityArgs))


FACTORIES: Mapping[str, Factory] = {
    "DefaultBinder": lambda profile: DefaultBinder(),
    "DefaultPreemption": lambda profile: DefaultPreemption(profile.args_of(DefaultPreemptionArgs)),
    "ImageLocality": lambda profile: ImageLocality(),
    "InterPodAffinity": lambda profile: InterPodAffinity(profile.args_of(InterPodAffinityArgs)),
    "NodeAffinity": _node_affinity,
    "NodeName": lambda profile: NodeName(),
    "NodePorts": lambda profile: NodePorts(),
    "NodeResourcesBalancedAllocation": _balanced,
    "NodeResourcesFit": _fit,
    "NodeUnschedulable": lambda profile: NodeUnschedulable(),
    "NodeVolumeLimits": lambda profile: NodeVolumeLimits(profile.gates),
    "PodTopologySpread": lambda profile: PodTopologySpread(profile.args_of(PodTopologySpreadArgs)),
    "PrioritySort": lambda profile: PrioritySort(),
    "SchedulingGates": lambda profile: SchedulingGates(),
    "TaintToleration": lambda profile: TaintToleration(),
    "VolumeBinding": _volume_binding,
    "VolumeRestrictions": lambda profile: VolumeRestrictions(),
    "VolumeZone": lambda profile: VolumeZone(),
}
