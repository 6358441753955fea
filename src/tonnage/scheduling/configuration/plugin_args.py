"""The arguments of plugins: the fields of `pluginConfig`, their defaults, and their rules.

Each plugin with arguments has a class. `with_defaults` fills in upstream's defaults, then `errors` checks the result.
`StorageCapacityArgs` are Tonnage's own, in a pluginConfig entry that kube-scheduler ignores:

    pluginConfig:
    - name: StorageCapacity
      args:
        apiVersion: tonnage.dev/v1alpha1
        kind: StorageCapacityArgs
        reservation: Object
        legacyPools: Strict
        poolFit: Possible

These three are the letter of KEP-5925; the defaults are `Ledger`, `Bounded` and `Prefer` (docs/decisions/004 and 005).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Self

import msgspec

from tonnage.clock import format_duration
from tonnage.gates import Gates
from tonnage.objects import core_v1, field_rules
from tonnage.objects.field_errors import Errors, duplicate, forbidden, invalid, required, unsupported
from tonnage.scheduling.configuration import plugin_args_rules
from tonnage.scheduling.configuration.strict_decoding import Int64, Seconds, Section

GROUP_VERSION = "kubescheduler.config.k8s.io/v1"

CPU_AND_MEMORY = (plugin_args_rules.ResourceSpec(name="cpu"), plugin_args_rules.ResourceSpec(name="memory"))
MOST_FREE_FIRST = (
    plugin_args_rules.UtilizationShapePoint(utilization=0, score=plugin_args_rules.MAX_SHAPE_SCORE),
    plugin_args_rules.UtilizationShapePoint(utilization=100),
)
_LIMITS: Mapping[str, tuple[float, float, str]] = {
    "minCandidateNodesPercentage": (0, 100, "not in valid range [0, 100]"),
    "minCandidateNodesAbsolute": (0, math.inf, "not in valid range [0, inf)"),
    "hardPodAffinityWeight": (0, 100, "not in valid range [0, 100]"),
    "bindTimeoutSeconds": (0, math.inf, "invalid BindTimeoutSeconds, should not be a negative value"),
    "filterTimeout": (0, math.inf, "must be zero or positive"),
    "bindingTimeout": (1, math.inf, "must be at least 1 second"),
    "reservationTimeoutSeconds": (0, math.inf, "must be greater than or equal to 0"),
}
"""By field of any arguments: the least and the greatest value, and the sentence about any other."""
_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


class PluginArgs(Section):
    """The common part of all arguments: a plugin's name, and their optional apiVersion and kind."""

    plugin: ClassVar[str]
    api_version: ClassVar[str] = GROUP_VERSION
    is_judged_when_unused: ClassVar[bool] = True
    """True if wrong arguments are refused even if the profile does not run the plugin."""

    def with_defaults(self, gates: Gates) -> Self:
        """The arguments with defaults for missing and zero fields."""
        return self

    def errors(self, path: str, gates: Gates) -> Errors:
        """The errors of the arguments, after defaulting."""
        errors: Errors = []
        for field in msgspec.structs.fields(self):
            least, most, told = _LIMITS.get(field.encode_name, (-math.inf, math.inf, ""))
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not least <= value <= most:
                shown = format_duration(value) if isinstance(value, float) else value
                errors.append(invalid(f"{path}.{field.encode_name}", shown, told))
        return errors


class DefaultPreemptionArgs(PluginArgs):
    """How many candidate nodes preemption needs: a percentage of all nodes, but at least the absolute number."""

    plugin = "DefaultPreemption"
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def errors(self, path: str, gates: Gates) -> Errors:
        errors = super().errors(path, gates)
        if self.min_candidate_nodes_percentage == self.min_candidate_nodes_absolute == 0:
            names = ("minCandidateNodesPercentage", "minCandidateNodesAbsolute")
            for name, other in (names, names[::-1]):
                errors.append(invalid(f"{path}.{name}", 0, f"cannot be zero at the same time as {other}"))
        return errors


class InterPodAffinityArgs(PluginArgs):
    """The weight of an existing pod's required affinity for a new pod, and whether its preferences count."""

    plugin = "InterPodAffinity"
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(PluginArgs):
    """Node affinity for every pod of the profile, in addition to the pod's own."""

    plugin = "NodeAffinity"
    added_affinity: core_v1.NodeAffinity | None = None

    def errors(self, path: str, gates: Gates) -> Errors:
        if self.added_affinity is None:
            return []
        return plugin_args_rules.node_affinity_errors(self.added_affinity, f"{path}.addedAffinity")


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    """The resources that should be used evenly."""

    plugin = "NodeResourcesBalancedAllocation"
    resources: tuple[plugin_args_rules.ResourceSpec, ...] = ()

    def with_defaults(self, gates: Gates) -> Self:
        return msgspec.structs.replace(self, resources=_weighted(self.resources))

    def errors(self, path: str, gates: Gates) -> Errors:
        errors: Errors = []
        seen: set[str] = set()
        for idx, resource in enumerate(self.resources):
            at = f"{path}.resources[{idx}]"
            if resource.name in seen:
                errors.append(duplicate(f"{at}.name", resource.name))
            seen.add(resource.name)
            if resource.weight != 1:
                errors.append(invalid(f"{at}.weight", resource.weight, "must be 1"))
        return errors


class RequestedToCapacityRatioParam(Section):
    """The score by utilization, on straight lines between points."""

    shape: tuple[plugin_args_rules.UtilizationShapePoint, ...] = ()


class ScoringStrategy(Section):
    """How a node's resources become a score; the ratio is only for RequestedToCapacityRatio."""

    type: str = ""
    resources: tuple[plugin_args_rules.ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(PluginArgs):
    """Extended resources to ignore (by name or group), and how the others are scored."""

    plugin = "NodeResourcesFit"
    # Upstream's table of validations has these under a name that never occurs; only the plugin itself judges them.
    is_judged_when_unused = False

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated")

    def with_defaults(self, gates: Gates) -> Self:
        strategy = self.scoring_strategy
        strategy = msgspec.structs.replace(strategy, resources=_weighted(strategy.resources))
        return msgspec.structs.replace(self, scoring_strategy=strategy)

    def errors(self, path: str, gates: Gates) -> Errors:
        errors: Errors = []
        for idx, resource in enumerate(self.ignored_resources):
            errors += field_rules.validate_label_name(resource, f"{path}.ignoredResources[{idx}]")
        for idx, group in enumerate(self.ignored_resource_groups):
            at = f"{path}.ignoredResourceGroups[{idx}]"
            if "/" in group:
                errors.append(invalid(at, group, "resource group name can't contain '/'"))
            errors += field_rules.validate_label_name(group, at)
        return [*errors, *self._strategy_errors(f"{path}.scoringStrategy")]

    def _strategy_errors(self, path: str) -> Errors:
        strategy = self.scoring_strategy
        errors: Errors = []
        if strategy.type not in _STRATEGIES:
            errors.append(unsupported(f"{path}.type", strategy.type, _STRATEGIES))
        errors += plugin_args_rules.resource_errors(strategy.resources, f"{path}.resources")
        ratio, ratio_path = strategy.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
        if strategy.type != "RequestedToCapacityRatio":
            if ratio is not None:
                errors.append(forbidden(ratio_path, "must be nil when type is not RequestedToCapacityRatio"))
        elif ratio is None:
            errors.append(required(ratio_path, "must be specified when type is RequestedToCapacityRatio"))
        else:
            errors += plugin_args_rules.shape_errors(ratio.shape, f"{ratio_path}.shape")
        return errors


class PodTopologySpreadArgs(PluginArgs):
    """How pods without their own constraints spread: System (hostname and zone, soft) or List."""

    plugin = "PodTopologySpread"
    default_constraints: tuple[core_v1.TopologySpreadConstraint, ...] = ()
    defaulting_type: str = ""

    def with_defaults(self, gates: Gates) -> Self:
        return msgspec.structs.replace(self, defaulting_type=self.defaulting_type or "System")

    def errors(self, path: str, gates: Gates) -> Errors:
        errors: Errors = []
        if self.defaulting_type not in ("System", "List"):
            errors.append(unsupported(f"{path}.defaultingType", self.defaulting_type, ("System", "List")))
        elif self.defaulting_type == "System" and self.default_constraints:
            told = "when .defaultConstraints are not empty"
            errors.append(invalid(f"{path}.defaultingType", self.defaulting_type, told))
        return [*errors, *plugin_args_rules.constraint_errors(self.default_constraints, f"{path}.defaultConstraints")]


class VolumeBindingArgs(PluginArgs):
    """How long PreBind waits for volumes, and how free storage is scored.

    `shape` is None while StorageCapacityScoring is off: nodes are not scored then.
    """

    plugin = "VolumeBinding"
    bind_timeout_seconds: Int64 = 600
    shape: tuple[plugin_args_rules.UtilizationShapePoint, ...] | None = None

    def with_defaults(self, gates: Gates) -> Self:
        if self.shape or not gates.StorageCapacityScoring:
            return self
        return msgspec.structs.replace(self, shape=MOST_FREE_FIRST)

    def errors(self, path: str, gates: Gates) -> Errors:
        errors = super().errors(path, gates)
        if gates.StorageCapacityScoring:
            return [*errors, *plugin_args_rules.shape_errors(self.shape or (), f"{path}.shape")]
        if self.shape is not None:
            # Refused, so that it does not take effect unexpectedly when the gate is switched on.
            told = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
            shown = [{"Utilization": point.utilization, "Score": point.score} for point in self.shape]
            errors.append(invalid(f"{path}.shape", shown, told))
        return errors


class DynamicResourcesArgs(PluginArgs):
    """Read and checked like upstream; Tonnage does not have the plugin."""

    plugin = "DynamicResources"
    filter_timeout_s: Seconds | None = msgspec.field(name="filterTimeout", default=10.0)
    binding_timeout_s: Seconds | None = msgspec.field(name="bindingTimeout", default=600.0)


def _weighted(resources: tuple[plugin_args_rules.ResourceSpec, ...]) -> tuple[plugin_args_rules.ResourceSpec, ...]:
    """CPU and memory if none are named; a weight of 0 means 1."""
    if not resources:
        return CPU_AND_MEMORY
    return tuple(msgspec.structs.replace(spec, weight=spec.weight or 1) for spec in resources)


class Reservation(StrEnum):
    """What is reserved for pods whose volumes the capacity objects do not show yet (KEP-5925)."""

    OBJECT = "Object"
    """The whole capacity object until it is refreshed, as in the KEP."""
    LEDGER = "Ledger"
    """The promised bytes, claim by claim, until the object shows them."""
    NONE = "None"


class PoolFit(StrEnum):
    """How sure a fit of a pod's volumes must be, given that the driver chooses the pools."""

    PREFER = "Prefer"
    """A node with a better grade is preferred, whatever the scores."""
    POSSIBLE = "Possible"
    """Scores decide, as in KEP-5925; among equal scores, the better grade."""
    GUARANTEED = "Guaranteed"
    """Only nodes where every order of the claims and every choice of pools works."""


class LegacyPools(StrEnum):
    """How a capacity object without pools is read: one pool of its maximum, limited by its sum, or each claim alone."""

    STRICT = "Strict"
    BOUNDED = "Bounded"
    INDEPENDENT = "Independent"


class StorageCapacityArgs(PluginArgs):
    """A hold for bound claims ends after `reservation_timeout_seconds`, even if the object was not refreshed."""

    plugin = "StorageCapacity"
    api_version = "tonnage.dev/v1alpha1"

    reservation: Reservation = Reservation.LEDGER
    reservation_timeout_seconds: Int64 = 60
    pool_fit: PoolFit = PoolFit.PREFER
    legacy_pools: LegacyPools = LegacyPools.BOUNDED


ARGS_OF: Mapping[str, type[PluginArgs]] = {
    cls.plugin: cls for cls in sorted(PluginArgs.__subclasses__(), key=lambda cls: cls.plugin)
}
"""The argument class by plugin; plugins that are missing take no arguments, or read their own."""
