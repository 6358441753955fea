"""A sequence of decisions with the scheduler's memory, on virtual time: a race as a repeatable script.

    apply, delete ──► objects (`ReplayObjects`)   ──► engine ──► schedule: attempt, explained ──► explanation
                                                         ▲         fail_binding: that attempt is undone
    advance ──► clock ──► tick ──────────────────────────┘         restart: a new engine, objects are kept

What a scheduler would write before a binding is assumed in memory and not written to the objects: the script says what
the cluster shows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from tonnage.clock import VirtualClock
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.engine.attempt import Attempt, Placement
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.queue.waiting_pods import QueuedPod, uid_of
from tonnage.scheduling.volumes.reservations.holds import Hold
from tonnage.whatif.creation import ReplayObjects, renewed
from tonnage.whatif.scheduler_memory import SchedulerMemory
from tonnage.whatif.sources import clock_of, engine_over


class ReplayError(TonnageError):
    """A step that is impossible in the replay's state."""


def no_profile(pod: Pod, engine: Engine) -> ReplayError:
    return ReplayError(
        f"pod {pod.key} asks for schedulerName {pod.spec.scheduler_name}, and no profile has that name",
        hint=f"the profiles are {', '.join(engine.profiles)}",
    )


class _OnItsWay(NamedTuple):
    """A pod that was placed on a node and is not bound yet."""

    queued: QueuedPod
    placement: Placement


class Replay(ReplayObjects):
    """One cluster and one scheduler, moved by steps.

    Time starts at `starts_at`, else at the objects' latest timestamp, else at a fixed time. `memory` is the memory of
    the cluster's live scheduler.
    """

    def __init__(
        self,
        objects: Iterable[Object],
        profiles: Sequence[ResolvedProfile],
        *,
        takes_any_pod: bool = False,
        starts_at: datetime | None = None,
        memory: SchedulerMemory | None = None,
    ) -> None:
        found = list(objects)
        super().__init__(VirtualClock(starts_at) if starts_at is not None else clock_of(found), found)
        self.profiles = profiles
        self._fresh_engine = partial(engine_over, self, profiles, clock=self.clock, takes_any_pod=takes_any_pod)
        self._start()
        if memory is not None:
            memory.laid_into(self.engine, found)

    def _start(self) -> None:
        self.engine = self._fresh_engine()
        self._on_their_way: dict[str, _OnItsWay] = {}

    def pod(self, key: Key) -> Pod:
        """Raises ReplayError when there is no such pod."""
        found = self.get(Pod, key)
        if found is None:
            raise ReplayError(
                f'there is no pod "{key}" among the {len(self.of(Pod))} there are now',
                hint="give it with the manifests or in an apply step before this one",
            )
        return found

    # -- decisions ----------------------------------------------------------------------------------------------------

    def schedule(self, key: Key) -> Explanation:
        """Decide about a pod, reserve, assume. Raises ReplayError for a pod that a scheduler would not take up."""
        attempt = self.attempt(key, explains=True)
        if attempt.explanation is None:
            raise RuntimeError(f"the attempt to place {key} was not explained")
        return _told(attempt, attempt.explanation)

    def attempt(self, key: Key, *, explains: bool = False) -> Attempt:
        """Like `schedule`, but without an explanation, which costs as much as the decision.

        `placement` says where the pod was sent; `decision.diagnosis` why it fits nowhere.
        """
        pod = self.pod(key)
        self._check_waiting(pod)
        queued = self.engine.queue.take_nowait(pod)
        if queued is None:
            raise no_profile(pod, self.engine)
        attempt = self.engine.attempt(queued, explains=explains)
        if attempt.exception is not None:
            raise attempt.exception
        if attempt.placement is None:
            self.engine.requeue(queued, pod, plugins=_refusers(attempt))
        else:
            self.engine.done(pod)
            self._on_their_way[uid_of(pod)] = _OnItsWay(queued, attempt.placement)
        return attempt

    def fail_binding(self, key: Key) -> str:
        """Undo a pod's last decision. Returns its node. Raises ReplayError when there is no decision to fail."""
        pod = self.pod(key)
        sent = self._on_their_way.get(uid_of(pod))
        if sent is None:
            found = f"it is bound to {pod.spec.node_name}" if pod.spec.node_name else "it has not been sent to a node"
            raise ReplayError(
                f"the binding of pod {key} cannot fail: {found}",
                hint="schedule it first, and fail it before it is bound",
            )
        self._take_back(sent)
        self.engine.failed_on(sent.queued, sent.placement.node, "its binding failed")
        self.engine.requeue(sent.queued, pod)
        return sent.placement.node

    def withdraw(self, key: Key) -> None:
        """Take back a pod's last decision as if it had not been made; no node is blamed."""
        pod = self.pod(key)
        sent = self._on_their_way[uid_of(pod)]
        self._take_back(sent)
        self.engine.requeue(sent.queued, pod)

    def nominate(self, key: Key, node: str) -> None:
        """Nominate a pod that does not fit yet to a node where others are preempted for it."""
        self.engine.queue.nominator.expect(self.pod(key), node)

    def hold(self, holds: Mapping[Reservation, Sequence[Hold]]) -> None:
        """Hold exactly this capacity."""
        pods = (self.get(Pod, hold.pod) for of_mode in holds.values() for hold in of_mode)
        self.engine.held.agree_with(holds, {pod.key: PodInfo(pod) for pod in pods if pod is not None})

    @contextmanager
    def changed(self, objects: Sequence[Object], gone: Sequence[Object] = ()) -> Iterator[None]:
        """Try a change: inside, `objects` are applied and `gone` deleted; afterwards everything is as before. Capacity
        is held inside as it was before: our own changes to an object end no hold."""
        holds = self.engine.held.holds()
        before = [(each, self.get(type(each), each.key)) for each in objects]
        try:
            for each in gone:
                self.remove(type(each), each.key)
            for each in objects:
                self.apply(renewed(each))
            self.hold(holds)
            yield
        finally:
            for each, old in reversed(before):
                if old is None:
                    self.remove(type(each), each.key)
                else:
                    self.apply(renewed(old))
            for each in gone:
                self.apply(each)
            self.hold(holds)

    def _check_waiting(self, pod: Pod) -> None:
        sent = self._on_their_way.get(uid_of(pod))
        problem = hint = ""
        if sent is not None:
            problem = f"is placed already: it was sent to {sent.placement.node}"
            hint = "a fail_binding step undoes that"
        elif pod.is_terminal:
            problem, hint = f"has ended ({pod.status.phase})", "delete it, and apply it again"
        elif pod.spec.node_name:
            problem, hint = f"is placed already: it is bound to {pod.spec.node_name}", "delete it, and apply it again"
        elif pod.metadata.is_terminating:
            problem, hint = "is being deleted, so schedulers ignore it", "leave out its metadata.deletionTimestamp"
        if problem:
            raise ReplayError(f"pod {pod.key} {problem}", hint=hint)

    def _take_back(self, sent: _OnItsWay) -> None:
        del self._on_their_way[sent.queued.uid]
        self.engine.withdraw(sent.placement)

    # -- the cluster --------------------------------------------------------------------------------------------------

    def apply(self, new: Object) -> str:
        """Create or replace an object: `created`, `configured` or `unchanged`, as kubectl says.

        Raises ReplayError for a pod that would leave its node.
        """
        if isinstance(new, Pod):
            self._check_stays(new)
        before = self.get(type(new), new.key)
        now = self.put(new)
        if now is before:
            return "unchanged"
        return "configured" if before is not None and before.uid == now.uid else "created"

    def _came(self, before: Object | None, now: Object) -> None:
        if isinstance(now, Pod):
            self._check_placement(now)
        if before is None:
            self.engine.add(now)
        else:
            self.engine.update(before, now)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object; `namespace` is empty for cluster-scoped kinds. Raises ReplayError if it does not exist."""
        key = f"{namespace}/{name}" if namespace else name
        found = self.named(kind, key)
        if found is None:
            raise ReplayError(f"there is no {kind} {key} to delete")
        self.remove(type(found), key)

    def advance(self, seconds: float) -> datetime:
        """Advance the clock and expire holds. Returns the new time. Raises ReplayError at the end of time."""
        try:
            self.clock.now() + timedelta(seconds=seconds)
        except OverflowError:
            raise ReplayError(f"virtual time ends with the year 9999, before {seconds:g} s have passed") from None
        self.clock.advance(seconds)
        self.engine.tick(self.clock.monotonic())
        return self.clock.now()

    def restart(self) -> list[tuple[Key, str]]:
        """Drop the scheduler's memory and start again from the objects. Returns the assumed pods with their nodes."""
        forgotten = [(way.placement.pod.key, way.placement.node) for way in self._on_their_way.values()]
        self._start()
        return forgotten

    def _check_stays(self, new: Pod) -> None:
        before = self.get(Pod, new.key)
        if before is None or new.uid not in ("", before.uid):
            return
        if before.spec.node_name and new.spec.node_name != before.spec.node_name:
            told = f"cannot be bound to {new.spec.node_name} as well" if new.spec.node_name else "cannot be unbound"
            raise ReplayError(
                f"pod {new.key} is bound to {before.spec.node_name} and {told}", hint="delete it, and apply it again"
            )

    def _check_placement(self, pod: Pod) -> None:
        """Compare a changed pod with its placement. Bound to the assumed node, it is confirmed; bound elsewhere, its
        binding has failed; unbound, it stays assumed."""
        sent = self._on_their_way.get(uid_of(pod))
        if sent is None:
            return
        if pod.spec.node_name == sent.placement.node:
            del self._on_their_way[uid_of(pod)]
        elif pod.spec.node_name or pod.is_terminal:
            self._take_back(sent)

    def _gone(self, found: Object) -> None:
        sent = self._on_their_way.get(uid_of(found)) if isinstance(found, Pod) else None
        if sent is not None:  # its binding finds no pod, and fails
            self._take_back(sent)
        self.engine.delete(found)


def _refusers(attempt: Attempt) -> Iterable[str]:
    diagnosis = attempt.decision.diagnosis if attempt.decision is not None else None
    if attempt.status.plugin:
        return (attempt.status.plugin,)
    return diagnosis.rejecting_plugins() if diagnosis is not None else ()


def _told(attempt: Attempt, explanation: Explanation) -> Explanation:
    """The explanation, with what refused the pod after the decision."""
    decision = attempt.decision
    if attempt.placement is not None or attempt.status.is_success or decision is None or not decision.fits:
        return explanation
    status = attempt.status
    told = (
        f"{explanation.message}; {attempt.stage.value} plugin "
        f'"{status.plugin}" refused {decision.node}: {status.message}'
    )
    return dataclasses.replace(explanation, node="", message=told)
