"""Plugins by name, how each is created from its profile's arguments, and the indexes that plugins read.

Only this module adds indexes to a cluster, so that they hear of changes in the same order in every program and test:
the capacity index hears of an object before the ledger that reads it.

Foreign plugins join through the Python entry-point group `tonnage.plugins`: the entry's name is the plugin's name, its
object a `framework.Plugin` class that is called with the raw arguments from `pluginConfig`, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.configuration import plugin_args
from tonnage.scheduling.configuration.plugin_args_rules import shape_of
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.framework import Plugin
from tonnage.scheduling.plugins import node_resources, pod_and_node
from tonnage.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from tonnage.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from tonnage.scheduling.plugins.pod_topology_spread import PodTopologySpread
from tonnage.scheduling.plugins.volume_binding import ToldRebuilds, VolumeBinding
from tonnage.scheduling.plugins.volume_constraints import VolumeRestrictions, VolumeZone
from tonnage.scheduling.preemption.preemption import DefaultPreemption
from tonnage.scheduling.preemption.ranked_residents import DisruptionBudgets, RankedResidents
from tonnage.scheduling.spread.residents import CarriedTerms, Residents
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.hints import TopologyKeys
from tonnage.scheduling.volumes.reservations.holds import Refusals, ServerTime
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.scheduling.volumes.static_volumes import StaticVolumes
from tonnage.scheduling.volumes.volume_reach import VolumePlaces

Factory = Callable[[ResolvedProfile], Plugin]
"""Plugin classes of other packages, by name."""


def _fit(profile: ResolvedProfile) -> Plugin:
    args = profile.args_of(plugin_args.NodeResourcesFitArgs)
    strategy = args.scoring_strategy
    ratio = strategy.requested_to_capacity_ratio
    return node_resources.NodeResourcesFit(
        strategy=strategy.type,
        resources=tuple((spec.name, spec.weight) for spec in strategy.resources),
        shape=shape_of(ratio.shape) if ratio else (),
        ignored=frozenset(args.ignored_resources),
        ignored_groups=frozenset(args.ignored_resource_groups),
    )


def _balanced(profile: ResolvedProfile) -> Plugin:
    args = profile.args_of(plugin_args.NodeResourcesBalancedAllocationArgs)
    return node_resources.NodeResourcesBalancedAllocation(tuple((spec.name, spec.weight) for spec in args.resources))


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
    "NodeResourcesBalancedAllocation": _balanced,
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
    "VolumeRestrictions": lambda profile: VolumeRestrictions(),
    "VolumeZone": lambda profile: VolumeZone(),
}


INDEXES: Final[tuple[type, ...]] = (
    DisruptionBudgets,
    Residents,
    CarriedTerms,
    RankedResidents,
    CapacityIndex,
    StaticVolumes,
    AttachedVolumes,
    VolumePlaces,
    ToldRebuilds,
    TopologyKeys,
    Refusals,
    ServerTime,
    Reservations,  # reads the two above and the capacity index, like the next
    Ledger,
)


def add_indexes(cluster: Cluster, wanted: Iterable[type] = INDEXES) -> Cluster:
    """Add the wanted indexes that the cluster lacks, in the order of `INDEXES`. Returns the cluster."""
    kinds = set(wanted)
    if unknown := kinds - set(INDEXES):
        names = ", ".join(sorted(each.__name__ for each in unknown))
        raise LookupError(f"there is no index {names}; add it to plugins/registry.py")
    for kind in INDEXES:
        if kind in kinds and not cluster.has_index(kind):
            cluster.add_index(kind(cluster))
    return cluster
