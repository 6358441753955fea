"""What pods are to their workload: names and ordinals; active, ready, available, rejected before they ran, guarded.

Ready is the kubelet's word; available is ready for `minReadySeconds` (podutil.IsPodAvailable). A rejected pod is
recreated at once, to be placed elsewhere. If the next one is rejected on the same node, another is created only after
an interval, which doubles from 1 s to 2 min and counts from the rejected pod's creation; a pod that runs on the node,
or ten minutes, end it. Rejected pods keep their ephemeral claims: the last one stays for a minute, for people to look
at, others go when they are replaced. All of it is in memory: a restarted controller creates one at once.

A PodDisruptionBudget guards pods: how many there should be, how many are healthy, how many may go.

    disruptionsAllowed = max(0, currentHealthy - desiredHealthy), and 0 while no pod is expected

A pod is healthy if it is ready, not terminating, and has no eviction in `disruptedPods`. An entry there is removed when
the pod terminates, or after two minutes. Mirrors trySync of pkg/controller/disruption.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from tonnage import errors, quantity
from tonnage.clock import Clock, exponential_s, remaining_s
from tonnage.objects import apps_v1, batch_v1, selectors
from tonnage.objects.core_v1 import VOLUME_ATTACHMENT_LIMIT_EXCEEDED, VOLUME_NODE_AFFINITY, Pod, ReplicationController
from tonnage.objects.meta import Condition, Key, Object
from tonnage.objects.small_groups import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus

NUMBERED_NAME: Final = re.compile(r"(.*)-([0-9]+)")
LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels: no words by accident. The alphabet of upstream's generated names."""
_MAX_GENERATED_BASE: Final = 63 - 5


def ordinal_of(name: str) -> int:
    """The number at the end of a pod's name; -1 if there is none, or one beyond 32 bits."""
    parts = NUMBERED_NAME.fullmatch(name)
    number = quantity.whole_number(parts[2]) if parts else -1
    return number if number < 2**31 else -1


def generated_name(prefix: str, rng: random.Random) -> str:
    """`prefix` and five letters, chosen here so that a create whose answer got lost can be looked up."""
    return prefix[:_MAX_GENERATED_BASE] + "".join(rng.choice(LETTERS) for _ in range(5))


def is_active(pod: Pod) -> bool:
    """True if it has not ended and is not terminating."""
    return not pod.is_terminal and not pod.metadata.is_terminating


def is_ready(pod: Pod) -> bool:
    condition = pod.condition("Ready")
    return condition is not None and condition.is_true


def ready_since(pod: Pod) -> datetime | None:
    """When it became ready; None while it is not, or if the time is unknown."""
    condition = pod.condition("Ready")
    return condition.last_transition_time if condition is not None and condition.is_true else None


def with_ready_since(pod: Pod, at: datetime) -> Pod:
    conditions = tuple(
        msgspec.structs.replace(condition, last_transition_time=at) if condition.type == "Ready" else condition
        for condition in pod.status.conditions
    )
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=conditions))


def is_available(pod: Pod, min_ready_s: int, now: datetime) -> bool:
    if not is_ready(pod):
        return False
    since = ready_since(pod)
    return min_ready_s == 0 or (since is not None and since + timedelta(seconds=min_ready_s) <= now)


def next_check_s(pods: Iterable[Pod], min_ready_s: int, now: datetime) -> float | None:
    """Seconds until the first of these ready pods becomes available; None if there is none to wait for."""
    if min_ready_s <= 0:
        return None
    sinces = (ready_since(pod) for pod in pods)
    left_s = [(since + timedelta(seconds=min_ready_s) - now).total_seconds() for since in sinces if since is not None]
    return min((seconds for seconds in left_s if seconds > 0), default=None)


def earliest(*times_s: float | None) -> float | None:
    return min((each for each in times_s if each is not None), default=None)


def scaled_value(count_or_percent: int | str, total: int, *, round_up: bool) -> int:
    """`3` is 3 and `"25%"` a quarter of `total`, rounded as asked. Raises ValueError for anything else."""
    if isinstance(count_or_percent, int):
        return count_or_percent
    number, sign, rest = count_or_percent.partition("%")
    if not sign or rest or not number.lstrip("-").isdecimal():
        raise ValueError(f'invalid value for IntOrString: invalid type: string is not a percentage: "{number}"')
    # Whole numbers throughout: -(-a // b) rounds a / b up.
    percent = quantity.whole_number(number)
    return -(-percent * total // 100) if round_up else percent * total // 100


FIRST_S: Final = 1.0
MAX_S: Final = 120.0
FORGET_S: Final = 600.0
KEEP_S: Final = 60.0
REJECTED: Final = "Pod was rejected: "
"""Prefix of a rejected pod's `status.message`, whatever the reason."""
_REASONS: Final = (VOLUME_ATTACHMENT_LIMIT_EXCEEDED, VOLUME_NODE_AFFINITY)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def is_rejected(pod: Pod) -> bool:
    status = pod.status
    return status.phase == "Failed" and (status.reason in _REASONS or status.message.startswith(REJECTED))


def interval_s(rejections: int) -> float:
    """Seconds between two pods for one node: none after its first rejection, then 1 s, doubling to 2 min."""
    return exponential_s(FIRST_S, rejections - 2, max_s=MAX_S) if rejections > 1 else 0.0


@dataclass(slots=True)
class _Node:
    """The rejections of one owner's pods on one node."""

    rejections: int
    at_s: float
    known: frozenset[str]
    """The owner's pods at the last rejection that counted; only the rejection of a later pod counts again."""


@dataclass(frozen=True, slots=True)
class _Rejection:
    name: str
    seen_s: float
    due_s: float
    """When a pod may be created in its place."""


@dataclass(slots=True)
class _Owner:
    nodes: dict[str, _Node] = field(default_factory=dict)
    rejections: dict[str, _Rejection] = field(default_factory=dict)
    """By the pod's uid; kept after the pod is gone until the time has come."""


class RejectedPods:
    """The rejected pods of the workloads of one kind, by the workload's key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._owners: dict[Key, _Owner] = {}

    def observe(self, owner: Key, pods: Sequence[Pod]) -> None:
        """Note what happened to an owner's pods. `pods` are all of them, from a synced cache."""
        if owner not in self._owners and not any(map(is_rejected, pods)):
            return
        now_s, uids = self._clock.monotonic(), frozenset(pod.uid for pod in pods)
        of = self._owners.setdefault(owner, _Owner())
        of.rejections = {
            uid: each for uid, each in of.rejections.items() if uid in uids or self._left_s(each.due_s) > 0
        }
        running = [pod for pod in pods if pod.status.phase == "Running" and not pod.metadata.is_terminating]
        for node, last in tuple(of.nodes.items()):
            runs_since = any(pod.spec.node_name == node and pod.uid not in last.known for pod in running)
            if runs_since or now_s - last.at_s > interval_s(last.rejections) + FORGET_S:
                del of.nodes[node]
        for pod in pods:
            if is_rejected(pod) and pod.uid not in of.rejections:
                self._note(of, pod, uids)
        if not of.rejections and not of.nodes:
            del self._owners[owner]

    def held_back(self, owner: Key) -> set[str]:
        """The names of rejected pods that must not be replaced yet."""
        found = self._owners.get(owner)
        rejections = found.rejections.values() if found is not None else ()
        return {rejection.name for rejection in rejections if self._left_s(rejection.due_s) > 0}

    def to_delete(self, owner: Key, pods: Iterable[Pod]) -> list[Pod]:
        """The rejected pods to delete: all but the last one, and that one after a minute."""
        found = self._owners.get(owner)
        if found is None:
            return []
        rejected = [pod for pod in pods if pod.uid in found.rejections and not pod.metadata.is_terminating]
        rejected.sort(key=lambda pod: (pod.metadata.creation_timestamp or _EPOCH, pod.name))
        if rejected and self._left_s(found.rejections[rejected[-1].uid].seen_s + KEEP_S) > 0:
            rejected.pop()
        return rejected

    def next_check_s(self, owner: Key) -> float | None:
        """Seconds until a pod may be created, or the last rejected one deleted; None if nothing waits."""
        found = self._owners.get(owner)
        if found is None:
            return None
        times_s = (time_s for each in found.rejections.values() for time_s in (each.due_s, each.seen_s + KEEP_S))
        return min((left_s for left_s in map(self._left_s, times_s) if left_s > 0), default=None)

    def forget(self, owner: Key) -> None:
        self._owners.pop(owner, None)

    def _note(self, of: _Owner, pod: Pod, uids: frozenset[str]) -> None:
        now_s, node = self._clock.monotonic(), pod.spec.node_name
        last = of.nodes.get(node)
        if last is None:
            last = of.nodes[node] = _Node(1, now_s, uids)
        elif pod.uid not in last.known:
            last.rejections, last.at_s, last.known = last.rejections + 1, now_s, uids
        made_at = pod.metadata.creation_timestamp or self._clock.now()
        made_s = now_s - max((self._clock.now() - made_at).total_seconds(), 0.0)
        of.rejections[pod.uid] = _Rejection(pod.name, now_s, made_s + interval_s(last.rejections))

    def _left_s(self, time_s: float) -> float:
        return remaining_s(time_s, self._clock.monotonic())


DELETION_TIMEOUT: Final = timedelta(minutes=2)
"""How long an eviction may take from its entry to the pod's deletion."""
STALE_CONDITION: Final = timedelta(minutes=2)
"""How long a pod that is not terminating may keep the condition DisruptionTarget."""
_CONDITION: Final = "DisruptionAllowed"
_MOST_PODS: Final = 2**31 - 1
"""The largest number of a status."""

Sized = apps_v1.Deployment | apps_v1.ReplicaSet | apps_v1.StatefulSet | ReplicationController
_OWNERS_OF_PODS: Final[Mapping[tuple[str, str], type[Object]]] = {
    ("", "ReplicationController"): ReplicationController,
    ("apps", "StatefulSet"): apps_v1.StatefulSet,
    ("apps", "ReplicaSet"): apps_v1.ReplicaSet,
}
"""By API group and kind: workloads whose size is known."""
Find = Callable[[type[Object], Key], Object | None]
"""An object by its class and key, None if there is none."""


class NoController(errors.TonnageError):
    """A budget needs a workload's size, and the pod's controller is unknown."""


@dataclass(frozen=True, slots=True)
class ExpectedCounts:
    """How many pods should exist and how many must be healthy; `unmanaged` pods have no controller."""

    pods: int
    healthy: int
    unmanaged: tuple[str, ...] = ()


def expected_pods(spec: PodDisruptionBudgetSpec, pods: Sequence[Pod], find: Find) -> ExpectedCounts:
    """Count by the budget's limit: a percentage needs the size of the pods' workloads, a number does not.

    Raises NoController, and ValueError for a limit that is neither number nor percentage.
    """
    if spec.max_unavailable is None and spec.min_available is None:
        return ExpectedCounts(0, 0)
    if spec.max_unavailable is None and isinstance(spec.min_available, int):
        return ExpectedCounts(len(pods), spec.min_available)
    count, unmanaged = _expected_scale(pods, find)
    if spec.max_unavailable is not None:
        healthy = max(0, count - scaled_value(spec.max_unavailable, count, round_up=True))
    else:
        healthy = scaled_value(spec.min_available or 0, count, round_up=True)
    return ExpectedCounts(count, healthy, unmanaged)


def workload_of_size(pod: Pod, find: Find) -> Sized | None:
    """The workload of a pod; the Deployment's for a ReplicaSet that a Deployment made. None: unknown."""
    owner = pod.metadata.controller
    kind = _OWNERS_OF_PODS.get((owner.api_version.rpartition("/")[0], owner.kind)) if owner is not None else None
    found = find(kind, f"{pod.namespace}/{owner.name}") if owner is not None and kind is not None else None
    if found is None or owner is None or found.uid != owner.uid:
        return None
    above = found.metadata.controller
    if isinstance(found, apps_v1.ReplicaSet) and above is not None and above.kind == "Deployment":
        found, owner = find(apps_v1.Deployment, f"{pod.namespace}/{above.name}"), above
    return found if isinstance(found, Sized) and found.uid == owner.uid else None


def makers_of(objects: Iterable[Object]) -> dict[str, Object]:
    """By uid: the sets and jobs that a workload may have made."""
    return {each.uid: each for each in objects if isinstance(each, apps_v1.ReplicaSet | batch_v1.Job)}


def workload_of(pod: Pod, makers: Mapping[str, Object]) -> str:
    """KIND/NAMESPACE/NAME of a pod's controller; through a ReplicaSet or Job to the Deployment or CronJob."""
    owner = pod.metadata.controller
    if owner is None:
        return ""
    made_by = makers.get(owner.uid)
    owner = (made_by.metadata.controller if made_by is not None else None) or owner
    return f"{owner.kind}/{pod.namespace}/{owner.name}"


def _expected_scale(pods: Iterable[Pod], find: Find) -> tuple[int, tuple[str, ...]]:
    """The sum of sizes of all workloads of these pods, every workload once; and the pods without a controller."""
    asked: set[str] = set()
    sizes: dict[str, int] = {}
    unmanaged: list[str] = []
    for pod in pods:
        controller = pod.metadata.controller
        if controller is None:
            unmanaged.append(pod.name)
        elif controller.uid not in asked:
            asked.add(controller.uid)
            found = workload_of_size(pod, find)
            if found is None:
                raise NoController(f'found no controllers for pod "{pod.name}"')
            sizes[found.uid] = found.spec.replicas
    return min(sum(sizes.values()), _MOST_PODS), tuple(unmanaged)


def disrupted_pods(
    noted: Mapping[str, datetime], pods: Iterable[Pod], now: datetime
) -> tuple[dict[str, datetime], list[Pod], float | None]:
    """Evictions still to happen, pods not deleted in time, and seconds until the next look; other entries are done."""
    waiting: dict[str, datetime] = {}
    not_deleted: list[Pod] = []
    for pod in pods:
        noted_at = noted.get(pod.name)
        if noted_at is None or pod.metadata.is_terminating:
            continue
        if noted_at + DELETION_TIMEOUT < now:
            not_deleted.append(pod)
        else:
            waiting[pod.name] = noted_at
    left_s = [(noted_at + DELETION_TIMEOUT - now).total_seconds() for noted_at in waiting.values()]
    return waiting, not_deleted, min(left_s, default=None)


def status_of(
    budget: PodDisruptionBudget,
    pods: Iterable[Pod],
    wanted: ExpectedCounts,
    waiting: Mapping[str, datetime],
    now: datetime,
) -> PodDisruptionBudgetStatus:
    healthy = sum(is_ready(pod) and not pod.metadata.is_terminating and pod.name not in waiting for pod in pods)
    allowed = max(0, healthy - wanted.healthy) if wanted.pods > 0 else 0
    generation, reason = budget.metadata.generation, "SufficientPods" if allowed else "InsufficientPods"
    return PodDisruptionBudgetStatus(
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=wanted.healthy,
        expected_pods=wanted.pods,
        observed_generation=generation,
        disrupted_pods=waiting,
        conditions=_conditions(budget, reason, now, generation, is_allowed=bool(allowed)),
    )


def failed_status(budget: PodDisruptionBudget, message: str, now: datetime) -> PodDisruptionBudgetStatus:
    conditions = _conditions(budget, "SyncFailed", now, budget.status.observed_generation, message=message)
    return msgspec.structs.replace(budget.status, disruptions_allowed=0, conditions=conditions)


def stale_after_s(pod: Pod, now: datetime) -> float | None:
    """Seconds until a pod's DisruptionTarget is stale; None if it has none, or its kubelet set it."""
    condition = pod.condition("DisruptionTarget")
    if condition is None or not condition.is_true or condition.reason == "TerminationByKubelet":
        return None
    if pod.metadata.is_terminating or pod.is_terminal or condition.last_transition_time is None:
        return None
    return max(0.0, (condition.last_transition_time + STALE_CONDITION - now).total_seconds())


def _conditions(
    budget: PodDisruptionBudget,
    reason: str,
    now: datetime,
    generation: int,
    *,
    is_allowed: bool = False,
    message: str = "",
) -> tuple[Condition, ...]:
    """The budget's conditions with this one replaced; its transition time is that of the last change of status."""
    known = {condition.type: condition for condition in budget.status.conditions}
    was, status = known.get(_CONDITION), "True" if is_allowed else "False"
    known[_CONDITION] = Condition(
        type=_CONDITION,
        status=status,
        last_transition_time=was.last_transition_time if was is not None and was.status == status else now,
        reason=reason,
        message=message,
        observed_generation=generation,
    )
    return tuple(known.values())


def with_true_status(
    budget: PodDisruptionBudget, pods: Sequence[Pod], find: Find, now: datetime
) -> PodDisruptionBudget:
    """The budget as its controller would leave it, given these pods."""
    mine = [pod for pod in pods if pod.namespace == budget.namespace and guards(budget, pod)]
    try:
        wanted = expected_pods(budget.spec, mine, find)
        status = status_of(budget, mine, wanted, {}, now)
    except (NoController, ValueError) as exc:
        status = failed_status(budget, str(exc), now)
    return msgspec.structs.replace(budget, status=status)


def guards(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """True if a budget selects a pod of its namespace; an invalid selector selects none."""
    try:
        return selectors.selects(budget.spec.selector, pod.metadata.labels)
    except selectors.InvalidSelector:
        return False
