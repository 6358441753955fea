"""The plugins of kube-scheduler 1.36: names, extension points, and which of them run by default.

The order of `DEFAULT_PLUGINS` is upstream's and decides which plugin refuses a node first; the weights are for scores.
Plugins that Tonnage lacks are listed too, with the reason: configurations name them, and the default set contains two.
`profile` reads this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from tonnage.errors import TonnageError
from tonnage.scheduling import framework


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
    """A plugin that a profile may name. `absent_because` is empty if Tonnage can run it."""

    name: str
    points: frozenset[ExtensionPoint]
    absent_because: str = ""

    @classmethod
    def of(cls, plugin: type[framework.Plugin]) -> Self:
        """The entry for a plugin class: its name, and the points whose classes it extends."""
        return cls(plugin.name, frozenset(point for point, base in _CLASSES.items() if issubclass(plugin, base)))


_NO_DEVICES = "Tonnage does not allocate devices; a pod with resource claims is refused, never placed as if it had none"
_NO_GROUPS = "Tonnage places pods one by one; a pod of a pod group is refused, never placed as if it were alone"
_NO_FEATURES = "Tonnage does not read the features that nodes declare; kubelets still refuse what they cannot run"


def _known(name: str, points: str, absent_because: str = "") -> KnownPlugin:
    return KnownPlugin(name, frozenset(ExtensionPoint(point) for point in points.split()), absent_because)


_TABLE = (
    _known("SchedulingGates", "preEnqueue"),
    _known("PrioritySort", "queueSort"),
    _known("NodeUnschedulable", "filter"),
    _known("NodeName", "filter"),
    _known("TaintToleration", "filter preScore score"),
    _known("NodeAffinity", "preFilter filter preScore score"),
    _known("NodePorts", "preFilter filter"),
    _known("NodeResourcesFit", "preFilter filter preScore score placementScore"),
    _known("VolumeRestrictions", "preFilter filter"),
    _known("NodeVolumeLimits", "preFilter filter"),
    _known("VolumeBinding", "preFilter filter preScore score reserve preBind"),
    _known("VolumeZone", "preFilter filter"),
    _known("PodTopologySpread", "preFilter filter preScore score"),
    _known("InterPodAffinity", "preFilter filter preScore score"),
    _known("DynamicResources", "preEnqueue preFilter filter postFilter score reserve preBind", _NO_DEVICES),
    _known("DefaultPreemption", "preEnqueue postFilter"),
    _known("NodeResourcesBalancedAllocation", "preScore score"),
    _known("ImageLocality", "score"),
    _known("DefaultBinder", "bind"),
    _known("NodeDeclaredFeatures", "preFilter filter", _NO_FEATURES),
    _known("GangScheduling", "preEnqueue permit", _NO_GROUPS),
    _known("TopologyPlacementGenerator", "placementGenerate", _NO_GROUPS),
    _known("PodGroupPodsCount", "placementScore", _NO_GROUPS),
)
CATALOGUE: Mapping[str, KnownPlugin] = {plugin.name: plugin for plugin in _TABLE}

DEFAULT_WEIGHTS: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
"""The weights of the default set; a score without a weight counts once."""

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
