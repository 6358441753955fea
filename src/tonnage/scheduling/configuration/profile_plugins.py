"""The plugins of kube-scheduler 1.36, and which of them a profile runs, in which order and with what weight.

`merged` combines a profile with the default set (default_plugins.go), `expanded` spreads `multiPoint` over the
extension points (expandMultiPointPlugins). The order at each point:

    1. plugins named at the point that multiPoint has too, in the point's order (they override it);
    2. the other multiPoint plugins of the point, unless it disables them, in the order of the default set, then of
       the file;
    3. plugins that only the point names.

A weight is the one at `score`, else that of `multiPoint`, else 1, whatever the default weight was.

The order of `DEFAULT_PLUGINS` is upstream's and decides which plugin refuses a node first. Plugins that Tonnage lacks
are listed too, with the reason: configurations name them, and the default set contains two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

from tonnage.errors import TonnageError, did_you_mean
from tonnage.scheduling import framework
from tonnage.scheduling.configuration.strict_decoding import Problem, Problems, Section


class ExtensionPoint(StrEnum):
    """The extension points, by their names in the file and in upstream's order. Nothing runs here at the last two,
    which are for pod groups."""

    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    RESERVE = "reserve"
    PRE_SCORE = "preScore"
    SCORE = "score"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PERMIT = "permit"
    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"

    @property
    def interface(self) -> str:
        """Upstream's name in messages for a plugin of this point: `PreFilterPlugin`."""
        return f"{self[0].upper()}{self[1:]}Plugin"

    @property
    def field(self) -> str:
        """The name of the point in Python: `pre_filter`."""
        return self.name.lower()


WEIGHTED_POINTS = (ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE)

_CLASSES: Mapping[ExtensionPoint, type[framework.Plugin]] = {
    point: getattr(framework, point.interface) for point in list(ExtensionPoint)[:-2]
}


@dataclass(frozen=True, slots=True)
class KnownPlugin:
    """A plugin that a profile may name. `absent_because` is empty if Tonnage can run it. `weight`: in the default set;
    a score without a weight counts once."""

    name: str
    points: frozenset[ExtensionPoint]
    absent_because: str = ""
    weight: int = 0
    plugin: type[framework.Plugin] | None = field(default=None, compare=False)
    """The class of a plugin of another package."""

    @classmethod
    def of(cls, plugin: type[framework.Plugin]) -> Self:
        """The entry for a plugin class: its name, and the points whose classes it extends."""
        points = frozenset(point for point, base in _CLASSES.items() if issubclass(plugin, base))
        return cls(plugin.name, points, plugin=plugin)


_NO_DEVICES = "Tonnage does not allocate devices; a pod with resource claims is refused, never placed as if it had none"
_NO_GROUPS = "Tonnage places pods one by one; a pod of a pod group is refused, never placed as if it were alone"
_NO_FEATURES = "Tonnage does not read the features that nodes declare; kubelets still refuse what they cannot run"


def _known(name: str, points: str, absent_because: str = "", weight: int = 0) -> KnownPlugin:
    return KnownPlugin(name, frozenset(ExtensionPoint(point) for point in points.split()), absent_because, weight)


_TABLE = (
    _known("SchedulingGates", "preEnqueue"),
    _known("PrioritySort", "queueSort"),
    _known("NodeUnschedulable", "filter"),
    _known("NodeName", "filter"),
    _known("TaintToleration", "filter preScore score", weight=3),
    _known("NodeAffinity", "preFilter filter preScore score", weight=2),
    _known("NodePorts", "preFilter filter"),
    _known("NodeResourcesFit", "preFilter filter preScore score placementScore", weight=1),
    _known("VolumeRestrictions", "preFilter filter"),
    _known("NodeVolumeLimits", "preFilter filter"),
    _known("VolumeBinding", "preFilter filter preScore score reserve preBind"),
    _known("VolumeZone", "preFilter filter"),
    _known("PodTopologySpread", "preFilter filter preScore score", weight=2),
    _known("InterPodAffinity", "preFilter filter preScore score", weight=2),
    _known("DynamicResources", "preEnqueue preFilter filter postFilter score reserve preBind", _NO_DEVICES, 2),
    _known("DefaultPreemption", "preEnqueue postFilter"),
    _known("NodeResourcesBalancedAllocation", "preScore score", weight=1),
    _known("ImageLocality", "score", weight=1),
    _known("DefaultBinder", "bind"),
    _known("NodeDeclaredFeatures", "preFilter filter", _NO_FEATURES),
    _known("GangScheduling", "preEnqueue permit", _NO_GROUPS),
    _known("TopologyPlacementGenerator", "placementGenerate", _NO_GROUPS),
    _known("PodGroupPodsCount", "placementScore", _NO_GROUPS),
)
CATALOGUE: Mapping[str, KnownPlugin] = {plugin.name: plugin for plugin in _TABLE}

# Mirrors getDefaultPlugins with the feature gates at their defaults of 1.36: the three for pod groups are off.
DEFAULT_PLUGINS: tuple[str, ...] = tuple(plugin.name for plugin in _TABLE if plugin.absent_because != _NO_GROUPS)

REMOVED_PLUGINS = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
"""Names that v1 refuses with its own sentence; NodeVolumeLimits replaces them."""


def catalogue_with(known_plugins: Iterable[KnownPlugin]) -> Mapping[str, KnownPlugin]:
    """The catalogue with foreign plugins, which may replace absent ones. Raises TonnageError."""
    catalogue = dict(CATALOGUE)
    for plugin in known_plugins:
        taken = catalogue.get(plugin.name)
        if taken is not None and not taken.absent_because:
            raise TonnageError(f"a plugin named {plugin.name} already exists; give yours another name")
        catalogue[plugin.name] = plugin
    return catalogue


EVERY = "*"
_MAX_TOTAL = 2**63 - 1


class ListedPlugin(Section):
    """A plugin's name in a list; a weight of 0 means that none is given."""

    name: str = ""
    weight: int = 0


class PluginSet(Section):
    """The plugins added at a point, and the default plugins disabled there."""

    enabled: tuple[ListedPlugin, ...] = ()
    disabled: tuple[ListedPlugin, ...] = ()

    @property
    def disabled_names(self) -> frozenset[str]:
        return frozenset(plugin.name for plugin in self.disabled)


class Plugins(Section):
    """A set for each extension point, and one for all of them at once."""

    multi_point: PluginSet = PluginSet()
    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def at(self, point: ExtensionPoint) -> PluginSet:
        plugin_set: PluginSet = getattr(self, point.field)
        return plugin_set

    @property
    def enabled_names(self) -> frozenset[str]:
        """Every plugin that is enabled anywhere."""
        sets = (self.multi_point, *(self.at(point) for point in ExtensionPoint))
        return frozenset(plugin.name for plugin_set in sets for plugin in plugin_set.enabled)


class PluginWeight(NamedTuple):
    """A plugin at an extension point; the weight is 0 where there are no weights."""

    name: str
    weight: int


Points = Mapping[str, tuple[PluginWeight, ...]]
"""By ExtensionPoint, whose value is the point's name in the file."""

DEFAULT_SET = Plugins(
    multi_point=PluginSet(
        enabled=tuple(ListedPlugin(name=name, weight=CATALOGUE[name].weight) for name in DEFAULT_PLUGINS)
    )
)


def merged(custom: Plugins | None) -> Plugins:
    """The default set changed by a profile."""
    if custom is None:
        return DEFAULT_SET
    return Plugins(
        multi_point=_merged_set(DEFAULT_SET.multi_point, custom.multi_point),
        **{point.field: _merged_set(DEFAULT_SET.at(point), custom.at(point)) for point in ExtensionPoint},
    )


def _merged_set(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Mirrors mergePluginSet: a default plugin named again is replaced in its place; other plugins follow."""
    disabled = custom.disabled_names
    # If a name occurs twice, the last replaces the default; the others follow and are refused later.
    places = {plugin.name: idx for idx, plugin in enumerate(custom.enabled)}
    replaced: set[int] = set()
    enabled: list[ListedPlugin] = []
    for plugin in default.enabled if EVERY not in disabled else ():
        if plugin.name in disabled:
            continue
        if plugin.name in places:
            replaced.add(places[plugin.name])
            plugin = custom.enabled[places[plugin.name]]
        enabled.append(plugin)
    enabled += (plugin for idx, plugin in enumerate(custom.enabled) if idx not in replaced)
    return PluginSet(enabled=tuple(enabled), disabled=tuple(ListedPlugin(name=each.name) for each in custom.disabled))


def expanded(
    plugins: Plugins, scheduler_name: str, catalogue: Mapping[str, KnownPlugin], path: str, problems: Problems
) -> Points:
    """The plugins of each point, with `multiPoint` spread out. `plugins` must be merged. Appends upstream's
    problems."""
    unknown = _unknown_plugins(plugins, catalogue, path)
    problems += unknown
    if unknown:
        return {}
    weights = {point: _weights(plugins, point, catalogue, path, problems) for point in WEIGHTED_POINTS}
    points: dict[str, tuple[PluginWeight, ...]] = {}
    for point in ExtensionPoint:
        names = _names_at(plugins, point, catalogue, path, problems)
        weight_of = weights.get(point, {})
        points[point] = tuple(PluginWeight(name, weight_of.get(name, 0)) for name in names)
    if not problems:
        problems += _missing(points, scheduler_name, path)
    return points


def _unknown_plugins(plugins: Plugins, catalogue: Mapping[str, KnownPlugin], path: str) -> Problems:
    found: Problems = []
    for where, plugin_set, interface in _sets(plugins):
        for plugin in plugin_set.enabled:
            if plugin.name not in catalogue:
                message = f'{path}.{where}: {interface} "{plugin.name}" does not exist'
                found.append(Problem(f"{path}.{where}", plugin.name, message, _remedy(plugin.name, catalogue)))
    return found


def _remedy(name: str, catalogue: Iterable[str]) -> str:
    if name == "StorageCapacity":
        return "leave it out: it is not a plugin but an entry of pluginConfig, which VolumeBinding reads"
    if name in REMOVED_PLUGINS:
        return "leave it out: NodeVolumeLimits does what it did"
    return did_you_mean(name, catalogue) or "install the package that registers it, or leave it out"


def _sets(plugins: Plugins) -> Iterable[tuple[str, PluginSet, str]]:
    for point in ExtensionPoint:
        yield f"{point}.enabled", plugins.at(point), point.interface
    # Upstream reports it for the first point that it expands.
    first = next((point for point in ExtensionPoint if EVERY not in plugins.at(point).disabled_names), None)
    yield "multiPoint.enabled", plugins.multi_point, (first or ExtensionPoint.PRE_FILTER).interface


def _names_at(
    plugins: Plugins, point: ExtensionPoint, catalogue: Mapping[str, KnownPlugin], path: str, problems: Problems
) -> list[str]:
    """Mirrors updatePluginList and expandMultiPointPlugins for one point."""
    here, disabled = plugins.at(point), plugins.at(point).disabled_names
    named: list[str] = []
    for plugin in here.enabled:
        at = f"{path}.{point}.enabled"
        if point not in catalogue[plugin.name].points:
            told = f'{at}: plugin "{plugin.name}" does not extend {point.interface} plugin'
            remedy = f"it takes part in {', '.join(sorted(catalogue[plugin.name].points))}"
            problems.append(Problem(at, plugin.name, told, remedy))
        elif plugin.name in named:
            problems.append(_registered_twice(plugin.name, point, at))
        named.append(plugin.name)
    if EVERY in disabled:
        return named

    overridden: set[str] = set()
    added: list[str] = []
    for plugin in plugins.multi_point.enabled:
        if point not in catalogue[plugin.name].points or plugin.name in disabled:
            continue
        if plugin.name in named:
            overridden.add(plugin.name)
        elif plugin.name in added:
            problems.append(_registered_twice(plugin.name, point, f"{path}.multiPoint.enabled"))
        else:
            added.append(plugin.name)
    first = [name for name in named if name in overridden]
    return [*first, *added, *(name for name in named if name not in overridden)]


def _registered_twice(name: str, point: ExtensionPoint, path: str) -> Problem:
    told = f'{path}: plugin "{name}" already registered as "{point.interface}"'
    return Problem(path, name, told, f"leave one {name} there")


def _weights(
    plugins: Plugins, point: ExtensionPoint, catalogue: Mapping[str, KnownPlugin], path: str, problems: Problems
) -> dict[str, int]:
    """Mirrors getValidScoreWeights: the sum of all scores must fit 64 bits."""
    weights: dict[str, int] = {}
    total = 0
    for plugin in (*plugins.at(point).enabled, *plugins.multi_point.enabled):
        if plugin.name in weights or point not in catalogue[plugin.name].points:
            continue
        weights[plugin.name] = plugin.weight or 1
        left = _MAX_TOTAL - total
        # A negative total wraps around, so the next plugin is refused; only the last one gets through.
        if weights[plugin.name] * framework.MAX_SCORE > (left if left <= _MAX_TOTAL else left - 2**64):
            message = f"{path}.{point}: total score of {point[0].upper()}{point[1:]} plugins could overflow"
            problems.append(Problem(f"{path}.{point}", weights, message, "write weights from 1 to 100"))
            break
        total += weights[plugin.name] * framework.MAX_SCORE
    return weights


def _missing(points: Points, scheduler_name: str, path: str) -> Problems:
    whose = f'for profile with scheduler name "{scheduler_name}"'
    found: Problems = []

    def needs(point: ExtensionPoint, told: str, remedy: str) -> None:
        at = f"{path}.{point}"
        found.append(Problem(at, [name for name, _ in points[point]], f"{at}: {told}", remedy))

    sorts = len(points[ExtensionPoint.QUEUE_SORT])
    if sorts != 1:
        told = f"only one queue sort plugin required {whose}, but got {sorts}"
        needs(ExtensionPoint.QUEUE_SORT, told, "enable PrioritySort there and disable the others")
    if not points[ExtensionPoint.BIND]:
        needs(ExtensionPoint.BIND, f"at least one bind plugin is needed {whose}", "enable DefaultBinder there")
    if len(points[ExtensionPoint.PLACEMENT_GENERATE]) > 1:
        told = f"at most one placement generate plugin is allowed {whose}"
        needs(ExtensionPoint.PLACEMENT_GENERATE, told, "leave one there")
    return found
