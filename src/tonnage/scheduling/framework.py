"""The contract between a decision and its plugins, on one page.

A plugin is a class with a name and some of the methods below; which of them run, in which order and with what weight is
the profile's affair. Upstream's extension points are all here, in its order:

    PreEnqueue  QueueSort │ PreFilter  Filter  PostFilter │ PreScore  Score │ Reserve  Permit
    PreBindPreFlight  PreBind  Bind  PostBind

The difference is that Filter and Score judge *all nodes at once*. A filter gets rows (a slice or an array of row
numbers) and answers with a `Judgement` over exactly those rows; a score answers with integers over exactly those rows.
Who finds that too much writes the per-node form instead (`per_node.py`), and is asked about one node after another.

`row_local = True` promises that the answer for a row depends on nothing but that row's columns and what
`PodInfo.signature` covers. Then equal pods share it, and only rows that changed are asked again. A row-local plugin
that reads more than the pod (its claims, say) tells in PreFilter what else makes pods equal (`Cycle.tell_apart`), or
that this pod is like no other (`Cycle.is_unlike_others`): then it is asked every time, for this pod. `node_only = True`
promises more: nothing but what the row's node says of itself, and `PodInfo.node_constraints`; then the pods of a row
may come and go without it being asked again. Whether PreFilter or PreScore of such a plugin says SKIP is to depend on
the same. A plugin that looks across rows (spreading, pod affinity) says False and is asked every time; it should answer
None fast when it has nothing to say about a pod.

Nothing here does I/O. What must (PreBind, Bind) is handed an `Api` by the program that runs the binding.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.columns import Ints, Mask, Rows
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
    "Minds",
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
    "Ration",
    "ReservePlugin",
    "RowAccount",
    "Rows",
    "ScorePlugin",
    "Status",
    "SumsAsked",
    "minds_everybody",
    "refuse",
    "scaled_to_max",
    "unresolvable",
    "unschedulable",
]

MAX_SCORE = 100

Kind = TypeVar("Kind", bound=Object)
T = TypeVar("T")

Bits = npt.NDArray[np.int64]

EventHint = tuple[ClusterEvent, HintFn | None]
"""A mask of events and a closer look at those it covers; without one, each of them is worth a try."""
Minds = Callable[["PodInfo"], bool]
"""Whether a plugin's answer about a row may change when this pod comes to it."""
Ration = Callable[["PodInfo"], float | None]
"""How much of what changed a pod would use up: 0.0 nothing of it, 1.0 all of it; None when it cannot use it at all."""


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

    Bit i of `bits[k]` is set when `reasons[i]` holds against row k; 0 lets the row pass. reason_bits.py says how many
    there may be. `unresolvable` says for which of the refused rows preemption cannot help: all, none, or as a mask.
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

    name: ClassVar[str]
    row_local: ClassVar[bool] = False
    node_only: ClassVar[bool] = False

    def connect(self, handle: Handle) -> None:  # noqa: B027  # most plugins need nothing of it
        """Called once, before the plugin is first asked."""

    def indexes(self) -> Iterable[type]:
        """The indexes of a cluster that this plugin reads by `Cluster.index`, so that they are kept for it.

        See engine/indexes.py for those there are.
        """
        return ()

    def counters(self) -> Iterable[PluginCounter]:
        """What it has counted so far; the counters of all profiles are added up."""
        return ()

    def failed(self, point: str) -> None:  # noqa: B027  # most plugins keep no count of it
        """An attempt ended because this plugin failed at an extension point, such as "Reserve"."""

    def events_to_record(self, cycle: Cycle) -> Iterable[EventToRecord]:
        """After an attempt that found no node: what people are to be told about other objects than the pod.

        Asked by the live scheduler alone, once an attempt: a plugin keeps in mind what it told. PreBind plugins tell
        by their Api.
        """
        return ()

    def account(self, cycle: Cycle) -> Mapping[int, RowAccount] | None:
        """For `explain`, after the filters: what it can tell about each row; None when it has nothing to tell."""
        return None

    def nearest_miss(self, cycle: Cycle, row: int, account: RowAccount | None) -> Any:
        """For `explain`: how near a row that this plugin refused came; None when unknown.

        `account` is what a plugin's `account` tells about the row, if one has an account to give.
        """
        return None

    def events(self) -> Iterable[EventHint]:
        """What may make a pod that this plugin turned away schedulable: masks of events, each with an optional hint.

        See events.py. Without any, the pod waits for the periodic flush.
        """
        return ()

    def ration(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Ration | None:
        """Share out an event that helps many pods which this plugin turned away, but cannot hold many of them.

        Pods are then woken in the queue's order, as many as the changed object holds, and the others after those were
        tried. None, as for most: whoever the hint says is helped is woken. See queue/rations.py.
        """
        return None

    def reach(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
        """The rows on which an event may have changed this plugin's mind; None, as for most, when it may be any.

        Asked after the event was applied. A pod that this plugin turned away, and that all who did so and look at
        nothing but rows (`row_local`) turn away on these rows now, is not woken.
        """
        return None

    needs_are_of_one_node: ClassVar[bool] = False
    """Every event that this plugin registers for is about one node, and what a pod needs has to be there."""

    def needs(self, pod: PodInfo, cluster: Cluster) -> Mapping[Hashable, int] | None:
        """What a pod that this plugin turned away needs of an event, whatever else it takes; None when it cannot say.

        An event that offers (`offer`) too little of each of these things does not change this plugin's mind, or is
        no use to the pod all the same. The same for all pods of one `sign`, and for as long as it is theirs. With
        both, an event looks only at the pods that it may help, however many wait (queue/needs.py).
        """
        return None

    def offer(self, cluster: Cluster, event: ClusterEvent, old: Any, new: Any) -> Mapping[Hashable, int] | None:
        """How much of what `needs` names there is where an event happened; None, as for most, when it may help anybody.

        Asked after the event was applied, and of events that the plugin registered for.
        """
        return None

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable | None:
        """What PreFilter and Filter read of a pod, so that pods of one sign are refused on the same nodes; or None.

        Of pods that are refused and have the same sign for all who do so, one at a time is tried again
        (queue/equivalence_classes.py). None, unless a plugin says otherwise: the pod is like no other. A sign may say
        what the pod and its claims are, not how the cluster is. One that names what another pod cannot have, a bound
        volume say, tells the pod from all others. A class that judges otherwise than the one it is made from has to
        sign for itself. Mirrors SignPlugin (KEP-5598).
        """
        return None


class PreEnqueuePlugin(Plugin):
    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """May this pod be tried at all?"""


class QueueSortPlugin(Plugin):
    @abstractmethod
    def sort_key(self, pod: PodInfo, queued_at: float) -> Any:
        """Pods are popped in ascending order of this."""


class PreFilterPlugin(Plugin):
    @abstractmethod
    def pre_filter(self, cycle: Cycle) -> Status | Narrowing | None:
        """Look at the pod once. SKIP spares this plugin's Filter; a rejection ends the attempt for all nodes."""


class FilterPlugin(Plugin):
    @abstractmethod
    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        """Judge rows; None when all of them pass."""

    def label_needed(self, pod: PodInfo) -> tuple[str, str] | None:
        """A label, and its value, without which this plugin passes no node; None when there is no such one."""
        return None

    def surely_refuses(self, pod: PodInfo, cluster: Cluster, row: int) -> bool:
        """In plain numbers: this plugin refuses the pod on a row now. False when that takes a closer look."""
        return False

    def surely_passes(self, cycle: Cycle, row: int) -> bool:
        """Whether one row passes, as far as plain numbers tell; False leaves it to `filter`.

        Between two equal pods one row changes, mostly: the one that took the pod before. It mostly takes the next one
        too, and a plugin that can see so at once spares the arrays.
        """
        return False

    def refusal_note(self, cycle: Cycle, refused: Mapping[str, npt.NDArray[np.intp]]) -> str:
        """For a pod that fits nowhere: a sentence for people beyond the reasons that are counted; mostly empty.

        `refused` are the rows that this plugin refused, by its reasons. The sentence goes into the pod's condition: it
        must not change while nothing does.
        """
        return ""

    def passes_with_fewer_pods(self, cycle: Cycle) -> bool:
        """After PreFilter: a row that passes for this pod would pass as well if any pods of that row were gone.

        Preemption need not ask such a plugin again for every pod that it thinks away.
        """
        return self.node_only

    def minds(self, cycle: Cycle) -> Minds | None:
        """After PreFilter: tells of a pod that comes to a row whether this plugin's answer about the row may change.

        None when none would change it. Pods that are nominated to a node count as if they were there: who does not mind
        them is not asked again.
        """
        return None if self.node_only else minds_everybody

    def sums(self, pod: PodInfo) -> SumsAsked | None:
        """What the pod asks for, if a row passes just when it has so much left of each; None if more decides.

        Preemption then adds up what pods would give back for all rows at once, instead of trying them one by one; and
        so are pods added up that are nominated to rows (`filter_beside`).
        """
        return None

    def filter_beside(self, cycle: Cycle, rows: Rows, taken: Mapping[str, Ints]) -> Judgement | None:
        """Judge rows of which so much more is taken, by resource. Asked of a plugin that has `sums`."""
        raise NotImplementedError(f"{self.name} has sums, and cannot judge by them")


def minds_everybody(pod: PodInfo) -> bool:
    return True


class SumsAsked(NamedTuple):
    """Amounts by resource, and the reason that is told when there is too little of each; the last stands for more."""

    amounts: Sequence[tuple[str, int]]
    reasons: tuple[str, ...]


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
    """All nodes were looked at in vain: where nominations are cleared at all, this pod's is. (Upstream: a result
    without a node, as against no result.)"""


class PostFilterPlugin(Plugin):
    @abstractmethod
    def post_filter(self, cycle: Cycle, diagnosis: Any) -> PostFilterResult:
        """Nothing fits: make room, or say why that would not help. (Preemption.) `diagnosis` is a Diagnosis."""

    def preemption_begins(self, pod: PodInfo) -> None:
        """The victims of this plugin's last answer for a pod are being deleted from now on."""

    def preemption_ends(self, pod: PodInfo) -> None:
        """They are gone, or it failed. May be called for a pod whose preemption never began."""


class PreScorePlugin(Plugin):
    @abstractmethod
    def pre_score(self, cycle: Cycle) -> Status | None:
        """Look at the pod and the feasible rows once. SKIP spares this plugin's Score."""


class ScorePlugin(Plugin):
    @abstractmethod
    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """An integer for each of these rows: 0..100 as it is, or anything when `normalize` brings it there."""

    def score_at(self, cycle: Cycle, row: int) -> int:
        """The same for one row; worth writing where plain numbers cost less than arrays of one."""
        return int(self.score(cycle, slice(row, row + 1))[0])

    normalizes: ClassVar[bool] = False
    scores_all_rows: ClassVar[bool] = False
    """Ask about all rows in one slice, feasible or not: for a plugin whose answers lie ready and are not normalised."""

    def tie_break(self, cycle: Cycle, rows: npt.NDArray[np.intp]) -> Ints | None:
        """Of rows with the same best total, those this prefers have the highest number here; None has no preference."""
        return None

    def is_silent(self, cycle: Cycle) -> bool:
        """True when `score` would be 0 for every row: a decision then does without asking."""
        return False

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """The scores of all feasible rows, brought to 0..100. Equal scores stay equal."""
        return scores


class ReservePlugin(Plugin):
    def reserve(self, cycle: Cycle, node_name: str) -> Status:
        """The pod is going to this node: keep what it needs."""
        return SUCCESS

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        """It is not, after all: give it back. Must not fail, and may be called without `reserve`."""


class PermitPlugin(Plugin):
    @abstractmethod
    def permit(self, cycle: Cycle, node_name: str) -> tuple[Status, float]:
        """SUCCESS, a rejection, or WAIT with the seconds after which waiting counts as rejection."""


class Api(Protocol):
    """What a binding may do in the world. The live scheduler has the real one."""

    async def bind(self, pod: PodInfo, node_name: str) -> None: ...

    async def patch(self, current: Kind, patch: Mapping[str, Any]) -> Kind:
        """Merge a patch into an object as it is known here: one that changed meanwhile is a Conflict. Its new state."""
        ...

    async def settled(self, check: Callable[[], Status | None], timeout_s: float) -> Status:
        """Ask `check` now and whenever storage, a node or a pod changes, until it has an answer.

        An ERROR "context deadline exceeded" when it has none in time.
        """
        ...

    def is_gone(self, pod: PodInfo) -> bool:
        """The pod was deleted, or another has its name."""
        ...

    def event(self, regarding: Object, reason: str, action: str, note: str) -> None:
        """Tell people about an object: a Normal event."""
        ...


class PreBindPlugin(Plugin):
    def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Status:
        """SKIP when `pre_bind` has nothing to do for this pod: no call is made in its name, no nomination needed."""
        return SUCCESS

    def writes_node(self, cycle: Cycle) -> bool:
        """Whether what `pre_bind` writes first says where the pod goes, to whoever places pods after us too."""
        return False

    @abstractmethod
    async def pre_bind(self, cycle: Cycle, node_name: str, api: Api) -> Status:
        """Do what must be done in the world before the pod may be bound."""


class BindPlugin(Plugin):
    @abstractmethod
    async def bind(self, cycle: Cycle, node_name: str, api: Api) -> Status:
        """SKIP leaves it to the next Bind plugin."""


class PostBindPlugin(Plugin):
    @abstractmethod
    def post_bind(self, cycle: Cycle, node_name: str) -> None:
        """The pod is bound; tidy up."""


# -- normalising ------------------------------------------------------------------------------------------------------


def scaled_to_max(scores: Ints, *, reverse: bool = False) -> Ints:
    """0..100 in proportion to the largest, integer division; reversed, the smallest gets 100.

    Mirrors helper.DefaultNormalizeScore: with a largest of 0, all are 0, or 100 when reversed.
    """
    largest = int(scores.max(initial=0))
    if largest == 0:
        return np.full_like(scores, MAX_SCORE if reverse else 0)
    part: Ints = MAX_SCORE * scores // largest
    return MAX_SCORE - part if reverse else part
