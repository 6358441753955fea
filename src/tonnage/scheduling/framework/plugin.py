"""What every plugin has, whatever its extension points; what plugins answer; and the `Cycle` in which they are asked.

A judgement says in the bits of one integer which of its reasons hold against a node. There is room for 63; those that
find none go by one name together, so that a node is never let in because its reason had no bit.
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
"""A mask of events and a closer look at those it covers; without one, each of them is worth a try."""


class Code(Enum):
    """What a plugin says about a pod as a whole."""

    SUCCESS = "success"
    UNSCHEDULABLE = "unschedulable: preemption may help"
    UNRESOLVABLE = "unschedulable and unresolvable: it may not"
    WAIT = "wait: a Permit plugin holds the pod"
    SKIP = "skip: nothing to do for this pod, do not ask again in this cycle"
    PENDING = "pending: somebody else has to act first"
    ERROR = "error: something broke"


@dataclass(frozen=True, slots=True)
class Status:
    """A plugin's word on a pod, with countable reasons in upstream's wording."""

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
    """A filter's answer over the rows it was asked about.

    Bit i of `bits[k]` is set when `reasons[i]` holds against row k; 0 lets the row pass. `unresolvable` says for which
    of the refused rows preemption cannot help: all, none, or as a mask.
    """

    bits: Bits
    reasons: tuple[str, ...]
    unresolvable: bool | Mask = True


def refuse(refused: Mask, reason: str, *, unresolvable: bool) -> Judgement:
    """The commonest answer: one reason, and the rows it holds against."""
    return Judgement(refused.astype(np.int64), (reason,), unresolvable)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A PreFilter plugin may leave only some nodes in the race; the others are refused in its name."""

    rows: frozenset[int]


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """SUCCESS when room can be made on `nominated_node`; else a status that says why that would not help.

    Nothing is done yet: whoever runs the plugin deletes the `victims`, the most important first in the list.
    """

    status: Status
    nominated_node: str = ""
    victims: tuple[PodInfo, ...] = ()
    budget_violations: int = 0
    """How many of the victims go against a PodDisruptionBudget."""
    withdraws_nomination: bool = False
    """All nodes were looked at in vain: where nominations are cleared at all, this pod's is."""


def scaled_to_max(scores: Ints, *, reverse: bool = False) -> Ints:
    """0..100 in proportion to the largest, integer division; reversed, the smallest gets 100.

    Mirrors helper.DefaultNormalizeScore: with a largest of 0, all are 0, or 100 when reversed.
    """
    largest = int(scores.max(initial=0))
    if largest == 0:
        return np.full_like(scores, MAX_SCORE if reverse else 0)
    part: Ints = MAX_SCORE * scores // largest
    return MAX_SCORE - part if reverse else part


MAX_REASONS = 63
"""A judgement names at most so many reasons: they are the bits of an integer."""
SEARCH_ENDED = "node(s) may have enough free storage, but the search for it ended at its limit of steps"
"""Not a refusal for good: whoever is told this is tried again, and the search goes on where it ended."""

OTHER_REASONS = "node(s) were refused for other reasons"
"""Stands for those that found no room among them."""


def with_reasons(known: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    """Reasons with more appended, each once. When there is no room left, `OTHER_REASONS` stands for the rest."""
    found = dict.fromkeys(known)
    for reason in more:
        if reason not in found:
            found[reason if len(found) < MAX_REASONS - 1 else OTHER_REASONS] = None
    return tuple(found)


def reason_place(reasons: tuple[str, ...], reason: str) -> int:
    """Which bit a reason has."""
    return reasons.index(reason if reason in reasons else OTHER_REASONS)


T = TypeVar("T")


class PluginTimes(Protocol):
    """Whoever measures plugins. A cycle that has one runs every plugin through it."""

    def run(self, point: str, plugin: str, work: Callable[..., Any], *given: Any) -> Any:
        """`work(*given)`, measured as this plugin's at this extension point."""
        ...


class Cycle:
    """One attempt to place one pod: what plugins see, and where they leave notes for themselves.

    `state` holds a plugin's notes under its name, from PreFilter to PostBind. `feasible` are the rows that passed the
    filters, in PreScore and Score, listed when first asked for.
    """

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


@dataclass(frozen=True, slots=True)
class PluginCounter:
    """Something a plugin counts, for /metrics. `name` goes without the `_total` it is shown with."""

    name: str
    help: str
    value: int
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventToRecord:
    """What people are to be told about an object, as a Normal event."""

    regarding: Object
    reason: str
    action: str
    note: str


class RowAccount(Protocol):
    """What a plugin has to tell people about one row, beyond its reasons."""

    def document(self) -> Any:
        """As `explain -o json` shows it."""
        ...


class Plugin(ABC):
    """What every plugin has. Methods a class does not override are not called."""

    def __init_subclass__(cls, **options: Any) -> None:
        """A class that judges otherwise than the one it is made from does not inherit its `sign` and `reach`."""
        super().__init_subclass__(**options)
        for said in ("sign", "reach"):
            says = next(kind for kind in cls.__mro__ if said in vars(kind))
            if any(getattr(cls, name, None) is not getattr(says, name, None) for name in ("pre_filter", "filter")):
                setattr(cls, said, getattr(Plugin, said))

    name: ClassVar[str]
    row_local: ClassVar[bool] = False
    node_only: ClassVar[bool] = False

    def connect(self, handle: Handle) -> None:  # noqa: B027  # most plugins need nothing of it
        """Called once, before the plugin is first asked."""

    def indexes(self) -> Iterable[type]:
        """The indexes of a cluster that this plugin reads by `Cluster.index`, so that they are kept; see
        plugins/registry.py.
        """
        return ()

    def counters(self) -> Iterable[PluginCounter]:
        """What it has counted so far; the counters of all profiles are added up."""
        return ()

    def events_to_record(self, cycle: Cycle) -> Iterable[EventToRecord]:
        """After an attempt that found no node: what people are to be told about other objects than the pod.

        Asked by the live scheduler alone, once an attempt: a plugin keeps in mind what it told.
        """
        return ()

    def account(self, cycle: Cycle) -> Mapping[int, RowAccount] | None:
        """For `explain`, after the filters: what it can tell about each row; None when it has nothing to tell."""
        return None

    def nearest_miss(self, cycle: Cycle, row: int, account: RowAccount | None) -> Any:
        """For `explain`: how near a row that this plugin refused came; None when unknown. `account` is the row's, if
        any.
        """
        return None

    def events(self) -> Iterable[EventHint]:
        """What may make a pod that this plugin turned away schedulable: masks of events, each with an optional hint.

        See events.py. Without any, the pod waits for the periodic flush.
        """
        return ()

    def reach(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
        """The rows on which an event may have changed this plugin's mind; None, as for most, when it may be any.

        Asked after the event was applied. A pod is not woken if all of these rows are refused now by those who turned
        it away and look at nothing but rows (`row_local`).
        """
        return None

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable | None:
        """What PreFilter and Filter read of a pod, so that pods of one sign are refused on the same nodes; or None.

        Of refused pods of one sign, one at a time is tried again (queue/unschedulable_pods.py). None: the pod is like
        no other. A sign may say what the pod and its claims are, not how the cluster is. Mirrors SignPlugin (KEP-5598).
        """
        return None
