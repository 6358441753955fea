"""The extension points, in the order in which they run. A plugin extends one or several of these classes."""

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
