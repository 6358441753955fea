"""One attempt to place one pod, as plugins see it."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Mask

if TYPE_CHECKING:
    from tonnage.scheduling.cluster.cluster import Cluster
    from tonnage.scheduling.cluster.pod_info import PodInfo
    from tonnage.scheduling.framework.plugin import Plugin

T = TypeVar("T")


class PluginTimes(Protocol):
    """Whoever measures plugins. A cycle that has one runs every plugin through it."""

    def run(self, point: str, plugin: str, work: Callable[..., Any], *given: Any) -> Any:
        """`work(*given)`, measured as this plugin's at this extension point."""
        ...


class Cycle:
    """One attempt to place one pod: what plugins see, and where they leave notes for themselves.

    `state` holds a plugin's notes under its name, from PreFilter to PostBind. `feasible` are the rows that passed the
    filters, in PreScore and Score; most decisions need only their mask, so that they are listed when first asked for.
    """

    __slots__ = (
        "_feasible",
        "apart",
        "cluster",
        "nominated",
        "nominated_here",
        "passing",
        "pod",
        "skip_filter",
        "skip_score",
        "state",
        "times",
        "unshared",
    )

    def __init__(self, pod: PodInfo, cluster: Cluster) -> None:
        self.pod = pod
        self.cluster = cluster
        self.nominated_here: Sequence[PodInfo] = ()
        """Pods that are expected on the row in question and count as if they were there; see Decider.new_cycle."""
        self.nominated: Mapping[int, Sequence[PodInfo]] = {}
        """By row, the pods that are expected there and that this one has to leave room for."""
        self.state: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.apart: tuple[Hashable, ...] = ()
        """What makes this pod differ, for row-local plugins, from pods of the same signature."""
        self.unshared: set[str] = set()
        """Row-local plugins whose answers to this pod are nobody else's."""
        self.passing: Mask | None = None
        """Over all rows: did the row pass the filters? None before they were asked."""
        self.times: PluginTimes | None = None
        """Set in the cycles that are measured."""
        self._feasible: npt.NDArray[np.intp] | None = None

    def run(self, point: str, plugin: Plugin, work: Callable[..., T], *given: Any) -> T:
        """Ask a plugin at an extension point: `work`, its method, with what it is given."""
        if self.times is None:
            return work(*given)
        measured: T = self.times.run(point, plugin.name, work, *given)
        return measured

    @property
    def signature(self) -> Hashable:
        """Equal for pods that row-local plugins cannot tell apart."""
        return (self.pod.signature, self.apart) if self.apart else self.pod.signature

    def tell_apart(self, plugin: str, *facts: Hashable) -> None:
        """In PreFilter, by a row-local plugin: share its answers only with pods of which it tells the same."""
        self.apart = (*self.apart, plugin, *facts)

    def is_unlike_others(self, plugin: str) -> None:
        """In PreFilter, by a row-local plugin: do not share its answers to this pod, ask it every time."""
        self.unshared.add(plugin)

    @property
    def feasible(self) -> npt.NDArray[np.intp]:
        if self._feasible is None:
            self._feasible = np.flatnonzero(self.passing) if self.passing is not None else np.zeros(0, dtype=np.intp)
        return self._feasible

    @feasible.setter
    def feasible(self, rows: npt.NDArray[np.intp]) -> None:
        self._feasible = rows


class Handle(Protocol):
    """What a profile hands its plugins once all of them are made. `decider` is its decision.Decider."""

    @property
    def decider(self) -> Any: ...

    @property
    def rng(self) -> random.Random: ...
