"""What all plugins have, whatever their extension points; their answers; and the `Cycle` of an attempt.

The bits of a judgement's integer say which of its reasons apply to a node. There are 63; further reasons share one
name, so that a node is never admitted because its reason had no bit.
"""

from __future__ import annotations

import random
from abc import ABC
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.columns import Ints, Mask, Rows
from tonnage.scheduling.events import ClusterEvent, HintFn

if TYPE_CHECKING:
    from tonnage.scheduling.cluster.cluster import Cluster
    from tonnage.scheduling.cluster.pod_info import PodInfo


MAX_SCORE = 100


Bits = npt.NDArray[np.int64]


EventHint = tuple[ClusterEvent, HintFn | None]
"""A mask of events and an optional hint; without a hint, each of these events is worth an attempt."""


class Code(Enum):
    """A plugin's answer about a pod as a whole."""

    SUCCESS = "success"
    UNSCHEDULABLE = "unschedulable: preemption may help"
    UNRESOLVABLE = "unschedulable and unresolvable: it may not"
    WAIT = "wait: a Permit plugin holds the pod"
    SKIP = "skip: nothing to do for this pod, do not ask again in this cycle"
    PENDING = "pending: somebody else has to act first"
    ERROR = "error: something broke"


@dataclass(frozen=True, slots=True)
class Status:
    """A plugin's answer about a pod, with countable reasons in upstream's wording."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_success(self) -> bool:
        return self.code in (Code.SUCCESS, Code.SKIP)

    @property
    def is_rejection(self) -> bool:
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)


SUCCESS = Status()


SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    return Status(Code.UNRESOLVABLE, reasons)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A filter's answer for the rows it was asked about. Bit i of `bits[k]` is set if `reasons[i]` applies to row k; 0
    lets the row pass. `unresolvable`: the refused rows for which preemption cannot help: all, none, or a mask."""

    bits: Bits
    reasons: tuple[str, ...]
    unresolvable: bool | Mask = True


def refuse(refused: Mask, reason: str, *, unresolvable: bool) -> Judgement:
    """The most common answer: one reason, and the rows it applies to."""
    return Judgement(refused.astype(np.int64), (reason,), unresolvable)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A PreFilter plugin's answer that only these rows remain; the others are refused in its name."""

    rows: frozenset[int]


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """SUCCESS if room can be made on `nominated_node`; otherwise why that would not help. Nothing is done yet: the
    caller deletes the `victims`, which are listed most important first."""

    status: Status
    nominated_node: str = ""
    victims: tuple[PodInfo, ...] = ()
    budget_violations: int = 0
    """How many victims violate a PodDisruptionBudget."""
    withdraws_nomination: bool = False
    """True if no node helps: the pod's nomination is cleared, if nominations are cleared at all."""


def scaled_to_max(scores: Ints, *, reverse: bool = False) -> Ints:
    """0..100 in proportion to the largest, integer division; reversed, the smallest gets 100. Mirrors
    helper.DefaultNormalizeScore: with a largest of 0, all are 0, or 100 if reversed."""
    largest = int(scores.max(initial=0))
    if largest == 0:
        return np.full_like(scores, MAX_SCORE if reverse else 0)
    part: Ints = MAX_SCORE * scores // largest
    return MAX_SCORE - part if reverse else part


MAX_REASONS = 63
"""The most reasons of a judgement: they are the bits of an integer."""
SEARCH_ENDED = "node(s) may have enough free storage, but the search for it ended at its limit of steps"
"""Not a final refusal: the pod is tried again, and the search continues."""

OTHER_REASONS = "node(s) were refused for other reasons"
"""Stands for all reasons without a bit."""


def with_reasons(known: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    """Reasons with more appended, without duplicates. `OTHER_REASONS` stands for those that do not fit."""
    found = dict.fromkeys(known)
    for reason in more:
        if reason not in found:
            found[reason if len(found) < MAX_REASONS - 1 else OTHER_REASONS] = None
    return tuple(found)


def reason_place(reasons: tuple[str, ...], reason: str) -> int:
    """The bit of a reason."""
    return reasons.index(reason if reason in reasons else OTHER_REASONS)


T = TypeVar("T")


class PluginTimes(Protocol):
    """Measures plugins. A cycle that has one runs every plugin through it."""

    def run(self, point: str, plugin: str, work: Callable[..., Any], *given: Any) -> Any:
        """Return `work(*given)`, measured for this plugin and extension point."""
        ...


class Cycle:
    """One attempt to place one pod: what plugins read, and where they keep notes.

    `state` holds a plugin's notes under its name, from PreFilter to PostBind. `feasible`: the rows that passed the
    filters, for PreScore and Score, computed on demand.
    """

    def __init__(self, pod: PodInfo, cluster: Cluster) -> None:
        self.pod = pod
        self.cluster = cluster
        self.nominated_here: Sequence[PodInfo] = ()
        """Nominated pods that count as if they were on the row in question; see Decider.new_cycle."""
        self.nominated: Mapping[int, Sequence[PodInfo]] = {}
        """By row, the nominated pods that this pod must leave room for."""
        self.state: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.apart: tuple[Hashable, ...] = ()
        """What makes this pod differ, for row-local plugins, from pods of the same signature."""
        self.unshared: set[str] = set()
        """Row-local plugins whose answers to this pod are not shared."""
        self.passing: Mask | None = None
        """A mask over all rows that passed the filters; None before Filter."""
        self.times: PluginTimes | None = None
        """Set if this cycle is measured."""
        self._feasible: npt.NDArray[np.intp] | None = None

    def run(self, point: str, plugin: Plugin, work: Callable[..., T], *given: Any) -> T:
        """Call a plugin's method at an extension point."""
        if self.times is None:
            return work(*given)
        measured: T = self.times.run(point, plugin.name, work, *given)
        return measured

    @property
    def signature(self) -> Hashable:
        """Equal for pods that row-local plugins cannot tell apart."""
        return (self.pod.signature, self.apart) if self.apart else self.pod.signature

    def tell_apart(self, plugin: str, *facts: Hashable) -> None:
        """In PreFilter of a row-local plugin: share its answers only with pods of equal facts."""
        self.apart = (*self.apart, plugin, *facts)

    def is_unlike_others(self, plugin: str) -> None:
        """In PreFilter of a row-local plugin: do not share its answers to this pod."""
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
    """What a profile passes to its plugins after creating them. `decider` is its decision.Decider."""

    @property
    def decider(self) -> Any: ...

    @property
    def rng(self) -> random.Random: ...


@dataclass(frozen=True, slots=True)
class PluginCounter:
    """A counter of a plugin, for /metrics. `name` is without the `_total` suffix."""

    name: str
    help: str
    value: int
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventToRecord:
    """A Normal event about an object."""

    regarding: Object
    reason: str
    action: str
    note: str


class RowAccount(Protocol):
    """A plugin's account of one row for people, beyond its reasons."""

    def document(self) -> Any:
        """The account as `explain -o json` shows it."""
        ...


class Plugin(ABC):
    """What every plugin has. Methods that a class does not override are not called."""

    def __init_subclass__(cls, **options: Any) -> None:
        """A subclass that judges differently does not inherit `sign` and `reach`."""
        super().__init_subclass__(**options)
        for said in ("sign", "reach"):
            says = next(kind for kind in cls.__mro__ if said in vars(kind))
            if any(getattr(cls, name, None) is not getattr(says, name, None) for name in ("pre_filter", "filter")):
                setattr(cls, said, getattr(Plugin, said))

    name: ClassVar[str]
    row_local: ClassVar[bool] = False
    node_only: ClassVar[bool] = False

    def connect(self, handle: Handle) -> None:  # noqa: B027  # most plugins need nothing of it
        """Called once, before the plugin is used."""

    def indexes(self) -> Iterable[type]:
        """The indexes that this plugin reads by `Cluster.index`; plugins/registry.py adds them."""
        return ()

    def counters(self) -> Iterable[PluginCounter]:
        """Its counters; those of all profiles are summed."""
        return ()

    def events_to_record(self, cycle: Cycle) -> Iterable[EventToRecord]:
        """After an attempt without a node: events about other objects than the pod. Only the live scheduler calls it,
        once per attempt: the plugin must remember what it has reported."""
        return ()

    def account(self, cycle: Cycle) -> Mapping[int, RowAccount] | None:
        """For `explain`, after the filters: the account of each row; None if there is none."""
        return None

    def nearest_miss(self, cycle: Cycle, row: int, account: RowAccount | None) -> Any:
        """For `explain`: how near a row that this plugin refused came; None if unknown. `account`: the row's."""
        return None

    def events(self) -> Iterable[EventHint]:
        """The events that may make a refused pod schedulable: masks, each with an optional hint (events.py). Without
        any, the pod waits for the periodic flush."""
        return ()

    def reach(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
        """The rows where an event may change this plugin's answer; None, as for most plugins, if it may be any.

        Called after the event was applied. A pod is not woken if the `row_local` plugins that refused it still refuse
        all of these rows.
        """
        return None

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable | None:
        """What PreFilter and Filter read of a pod: pods of one sign are refused on the same nodes. None: like no other.

        Of refused pods of one sign, one at a time is tried again (queue/unschedulable_pods.py). A sign may depend on
        the pod and its claims, not on the state of the cluster. Mirrors SignPlugin (KEP-5598).
        """
        return None
