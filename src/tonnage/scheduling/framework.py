"""The contract between a decision and its plugins, on one page.

A plugin is a class with a name and some of the methods below; the profile decides which of them run, in which order and
with what weight. All of upstream's extension points are here, in its order:

    PreEnqueue  QueueSort │ PreFilter  Filter  PostFilter │ PreScore  Score │ Reserve  Permit
    PreBindPreFlight  PreBind  Bind  PostBind

Filter and Score judge *all nodes at once*: they get rows (a slice or an array of row numbers) and answer for exactly
these. `per_node.py` has the form that judges nodes one by one.

`row_local = True` promises that a row's answer depends only on that row's columns and `PodInfo.signature`: equal pods
share it, and only changed rows are asked again. A row-local plugin that reads more of the pod says so in PreFilter
(`Cycle.tell_apart`, `Cycle.is_unlike_others`). `node_only = True` promises more: only the node itself and
`PodInfo.node_constraints` matter. A SKIP from PreFilter or PreScore must depend on the same. A plugin that reads other
rows says False and runs every time.

Nothing here does I/O. PreBind and Bind get an `Api` from the program that runs the binding.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.columns import Bits, Ints, Judgement, Mask, Rows, refuse
from tonnage.scheduling.events import ClusterEvent, HintFn

if TYPE_CHECKING:
    from tonnage.scheduling.cluster.cluster import Cluster
    from tonnage.scheduling.cluster.pod_info import PodInfo

__all__ = [
    "MAX_SCORE",
    "SKIP",
    "SUCCESS",
    "Api",
    "BindPlugin",
    "Bits",
    "Code",
    "Cycle",
    "EventHint",
    "EventToRecord",
    "FilterPlugin",
    "Handle",
    "Ints",
    "Judgement",
    "Mask",
    "Narrowing",
    "PermitPlugin",
    "Plugin",
    "PluginCounter",
    "PluginTimes",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreScorePlugin",
    "QueueSortPlugin",
    "ReservePlugin",
    "RowAccount",
    "Rows",
    "ScorePlugin",
    "Status",
    "refuse",
    "scaled_to_max",
    "unresolvable",
    "unschedulable",
]

MAX_SCORE = 100


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


T = TypeVar("T")
Kind = TypeVar("Kind", bound=Object)


class PluginTimes(Protocol):
    """Measures plugins. A cycle that has one runs every plugin through it."""

    def run(self, point: str, plugin: str, work: Callable[..., Any], *given: Any) -> Any: ...


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

    @cached_property
    def feasible(self) -> npt.NDArray[np.intp]:
        return np.flatnonzero(self.passing) if self.passing is not None else np.zeros(0, dtype=np.intp)


class Handle(NamedTuple):
    """What a profile passes to its plugins after creating them. `decider` is its decision.Decider."""

    decider: Any
    rng: random.Random


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
    """A plugin's account of one row for people, beyond its reasons; `document` is as `explain -o json` shows it."""

    def document(self) -> Any: ...


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
        """The indexes that this plugin reads by `Cluster.index`; engine/profiles.py adds them."""
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

        Of refused pods of one sign, one at a time is tried again (queue/waiting_pods.py). A sign may depend on
        the pod and its claims, not on the state of the cluster. Mirrors SignPlugin (KEP-5598).
        """
        return None


class PreEnqueuePlugin(Plugin):
    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """May this pod be tried at all?"""


class QueueSortPlugin(Plugin):
    @abstractmethod
    def sort_key(self, pod: PodInfo, queued_at: float) -> Any:
        """Pods are popped in ascending order of this key."""


class PreFilterPlugin(Plugin):
    @abstractmethod
    def pre_filter(self, cycle: Cycle) -> Status | Narrowing | None:
        """Read the pod once. SKIP skips this plugin's Filter; a rejection ends the attempt for all nodes."""


class FilterPlugin(Plugin):
    @abstractmethod
    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        """Judge rows; None if all of them pass."""

    def refusal_note(self, cycle: Cycle, refused: Mapping[str, npt.NDArray[np.intp]]) -> str:
        """A sentence for people about a pod that fits nowhere, beyond the counted reasons; mostly empty.

        `refused`: the rows that this plugin refused, by reason. The sentence goes into the pod's condition: it must not
        change while nothing else does.
        """
        return ""

    def passes_with_fewer_pods(self, cycle: Cycle) -> bool:
        """After PreFilter: True if a row that passes for this pod also passes without any of its pods."""
        return self.node_only


class PostFilterPlugin(Plugin):
    @abstractmethod
    def post_filter(self, cycle: Cycle, diagnosis: Any) -> PostFilterResult:
        """No node fits: make room (preemption), or say why that would not help. `diagnosis` is a Diagnosis."""


class PreScorePlugin(Plugin):
    @abstractmethod
    def pre_score(self, cycle: Cycle) -> Status | None:
        """Read the pod and the feasible rows once. SKIP skips this plugin's Score."""


class ScorePlugin(Plugin):
    @abstractmethod
    def score(self, cycle: Cycle, rows: Rows) -> Ints | None:
        """By row, an integer: 0..100, or any if `normalize` maps it there. None stands for 0 on every row."""

    normalizes: ClassVar[bool] = False

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """Map the scores of all feasible rows to 0..100. Equal scores stay equal."""
        return scores


class ReservePlugin(Plugin):
    def reserve(self, cycle: Cycle, node_name: str) -> Status:
        """The pod will go to this node: reserve what it needs."""
        return SUCCESS

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        """The pod will not go there: undo `reserve`. Must not fail, and may be called without `reserve`."""


class PermitPlugin(Plugin):
    @abstractmethod
    def permit(self, cycle: Cycle, node_name: str) -> tuple[Status, float]:
        """SUCCESS, a rejection, or WAIT with the seconds after which waiting counts as rejection."""


class Api(Protocol):
    """What a binding may do at the API server. The live scheduler has the real one."""

    async def bind(self, pod: PodInfo, node_name: str) -> None: ...

    async def patch(self, current: Kind, patch: Mapping[str, Any]) -> Kind:
        """Merge a patch into an object and return its new state. Raises Conflict if the object has changed."""
        ...

    async def settled(self, check: Callable[[], Status | None], timeout_s: float) -> Status:
        """Call `check` now and whenever storage, a node or a pod changes, until it returns a Status. Returns an ERROR
        "context deadline exceeded" after the timeout."""
        ...

    def is_gone(self, pod: PodInfo) -> bool:
        """True if nothing must be done for the pod: it is gone, terminating, replaced under its name, or has a node."""
        ...

    def event(self, regarding: Object, reason: str, action: str, note: str) -> None:
        """Record a Normal event about an object."""
        ...


class PreBindPlugin(Plugin):
    def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Status:
        """SKIP if `pre_bind` has nothing to do for this pod: it is not called, and no nomination is needed."""
        return SUCCESS

    @abstractmethod
    async def pre_bind(self, cycle: Cycle, node_name: str, api: Api) -> Status:
        """Do what must be done at the API before the pod may be bound."""


class BindPlugin(Plugin):
    @abstractmethod
    async def bind(self, cycle: Cycle, node_name: str, api: Api) -> Status:
        """SKIP leaves it to the next Bind plugin."""


class PostBindPlugin(Plugin):
    @abstractmethod
    def post_bind(self, cycle: Cycle, node_name: str) -> None:
        """The pod is bound; clean up."""
