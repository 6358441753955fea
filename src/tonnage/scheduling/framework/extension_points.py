"""The extension points, in the order in which they run. A plugin is a class of one or several of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.columns import Ints, Rows
from tonnage.scheduling.framework.plugin import SUCCESS, Cycle, Judgement, Narrowing, Plugin, PostFilterResult, Status

if TYPE_CHECKING:
    from tonnage.scheduling.cluster.pod_info import PodInfo

Kind = TypeVar("Kind", bound=Object)


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

    def refusal_note(self, cycle: Cycle, refused: Mapping[str, npt.NDArray[np.intp]]) -> str:
        """For a pod that fits nowhere: a sentence for people beyond the reasons that are counted; mostly empty.

        `refused` are the rows that this plugin refused, by its reasons. The sentence goes into the pod's condition: it
        must not change while nothing does.
        """
        return ""

    def passes_with_fewer_pods(self, cycle: Cycle) -> bool:
        """After PreFilter: a row that passes for this pod would pass as well if any pods of that row were gone."""
        return self.node_only


class PostFilterPlugin(Plugin):
    @abstractmethod
    def post_filter(self, cycle: Cycle, diagnosis: Any) -> PostFilterResult:
        """Nothing fits: make room, or say why that would not help. (Preemption.) `diagnosis` is a Diagnosis."""


class PreScorePlugin(Plugin):
    @abstractmethod
    def pre_score(self, cycle: Cycle) -> Status | None:
        """Look at the pod and the feasible rows once. SKIP spares this plugin's Score."""


class ScorePlugin(Plugin):
    @abstractmethod
    def score(self, cycle: Cycle, rows: Rows) -> Ints | None:
        """An integer for each of these rows: 0..100 as it is, or anything when `normalize` brings it there.

        None stands for 0 on every row.
        """

    normalizes: ClassVar[bool] = False

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
        """The pod was deleted or is going, another has its name, or it has a node: nothing is to be done for it."""
        ...

    def event(self, regarding: Object, reason: str, action: str, note: str) -> None:
        """Tell people about an object: a Normal event."""
        ...


class PreBindPlugin(Plugin):
    def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Status:
        """SKIP when `pre_bind` has nothing to do for this pod: no call is made in its name, no nomination needed."""
        return SUCCESS

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
