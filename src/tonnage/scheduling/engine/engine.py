"""`Engine`: a scheduler without I/O. Objects in, attempts out; the caller passes time and randomness.

    add, update, delete ──► EventHandlers ──► Cluster + indexes, SchedulingQueue
                                                   │
    pop ──► attempt:  decide ──► reserve ──► assume ──► permit ──► Attempt (placement, or why none)
                         ▲                                  │
                         │            binding succeeded ◄───┴───► withdraw, requeue: it failed
    tick ── backoffs end, promises expire, assumed pods are given up

The live scheduler, `replay`, `explain` and the node scaler drive it, so they all decide alike. Single-threaded; never
blocks.

    engine = Engine(configuration.profiles, clock=clock, rng=random.Random(1))
    engine.load(objects)                         # or add, … and then open()
    while (queued := engine.pop()) is not None:
        attempt = engine.attempt(queued)
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tonnage import logs
from tonnage.clock import Clock
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.explain import Explanation, explanation_of
from tonnage.scheduling.decision.scheduling_cycle import Decision
from tonnage.scheduling.engine.attempt import (
    AssumedPods,
    Attempt,
    AttemptStage,
    EngineHooks,
    EngineSettings,
    Placement,
    PostFilterOutcome,
    broken,
    permit,
    preemption_answer,
    reserve,
    run_post_filter,
    unreserve,
)
from tonnage.scheduling.engine.event_handlers import EventHandlers
from tonnage.scheduling.engine.held_room import EngineNominations, HeldCapacity
from tonnage.scheduling.engine.profiles import INDEXES, Assembled, EngineWaking, add_indexes, assemble
from tonnage.scheduling.framework import Code, EventToRecord, PostFilterPlugin, Status
from tonnage.scheduling.plugins.volume_binding import VolumeBinding
from tonnage.scheduling.preemption.preemption import DefaultPreemption
from tonnage.scheduling.preemption.ranked_residents import DisruptionBudgets
from tonnage.scheduling.queue.nominator import nominated_to
from tonnage.scheduling.queue.scheduling_queue import FLUSH_UNSCHEDULABLE_EVERY_S, SchedulingQueue
from tonnage.scheduling.queue.waiting_pods import LeftBehind, QueuedPod, uid_of

_log = logs.logger("tonnage.scheduler")

_RETRIES_IN_A_ROW: Final = 16
"""After this many retries of failed pods, a pod that was never tried comes next: some milliseconds."""


class Engine:
    """A scheduler: its cluster, its queue and its profiles."""

    def __init__(
        self,
        profiles: Iterable[ResolvedProfile],
        *,
        clock: Clock,
        rng: random.Random,
        settings: EngineSettings | None = None,
        hooks: EngineHooks | None = None,
    ) -> None:
        settings, hooks = settings or EngineSettings(), hooks or EngineHooks()
        self.clock = clock
        self._rng = rng
        self._hooks = hooks
        self._takes_any_pod = settings.takes_any_pod
        resolved = tuple(profiles)
        is_shown = resolved[0].gates.NominatedNodeNameForExpectation
        self.profiles: Mapping[str, Assembled] = {
            resolved_profile.scheduler_name: assemble(resolved_profile, rng) for resolved_profile in resolved
        }
        self._first_profile = next(iter(self.profiles.values()))
        # Budgets are ordinary objects; `open` creates all other indexes from the objects known by then.
        self.cluster = add_indexes(Cluster(clock), (DisruptionBudgets,))
        self.assumed = AssumedPods(self.cluster)
        self.queue = SchedulingQueue(
            clock,
            {name: profile.rules for name, profile in self.profiles.items()},
            sort_key=self._first_profile.sort_key,
            initial_backoff_s=settings.initial_backoff_s,
            max_backoff_s=settings.max_backoff_s,
            max_unschedulable_s=settings.max_unschedulable_s,
            nominations_give_way=is_shown,
            retries_in_a_row=_RETRIES_IN_A_ROW if self._first_profile.sorts_by_priority else 0,
            on_queued=hooks.on_queued,
            on_plugin_error=hooks.on_plugin_error,
            rules=EngineWaking(self.cluster, self.profiles),
        )
        self.nominations = EngineNominations(
            self.cluster, self.queue, self.profile_of, self.assumed.__contains__, is_shown=is_shown
        )
        self.held = HeldCapacity(self.cluster, self.queue)
        self._handlers = EventHandlers(
            self.cluster,
            self.assumed,
            self.queue,
            self.held,
            self.nominations,
            is_ours=lambda pod: self.profile_of(pod) is not None,
            on_change=hooks.on_change,
            on_pod_gone=hooks.on_pod_gone,
            implies_namespaces=settings.implies_namespaces,
        )
        self._flushed_at = clock.monotonic()

    # -- objects in ---------------------------------------------------------------------------------------------------

    def add(self, new: Object) -> None:
        self._handlers.changed(None, new)

    def update(self, old: Object, new: Object) -> None:
        self._handlers.changed(old, new)

    def delete(self, old: Object) -> None:
        self._handlers.changed(old, None)

    def load(self, objects: Iterable[Object]) -> None:
        """Add all objects known at the start, in any order, and open. Nodes are added by name, so that equal objects
        give equal rows and, with a seeded rng, equal decisions. Of two pods with one name the later counts."""
        found = list(objects)
        for node in sorted((each for each in found if isinstance(each, Node)), key=lambda node: node.name):
            self.add(node)
        for each in found:
            if not isinstance(each, Node | Pod):
                self.add(each)
        for pod in {each.key: each for each in found if isinstance(each, Pod)}.values():
            self.add(pod)
        self.open()

    def open(self) -> None:
        """Create the indexes that the plugins read from the known objects: at once is far cheaper than row by row. Call
        it before the first attempt; calling it again is safe."""
        wanted = {index for profile in self.profiles.values() for each in profile.plugins for index in each.indexes()}
        add_indexes(self.cluster, [each for each in INDEXES if each in wanted])
        for plugin in [plugin for profile in self.profiles.values() for plugin in profile.plugins]:
            if isinstance(plugin, VolumeBinding):
                plugin.fit_of(self.cluster)  # the holds must know all timeouts before anything happens
        self.held.open()

    def profile_of(self, pod: Pod) -> Assembled | None:
        """The profile that places a pod; None if another scheduler does."""
        assembled = self.profiles.get(pod.spec.scheduler_name)
        return self._first_profile if assembled is None and self._takes_any_pod else assembled

    # -- one pod ------------------------------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        """The next pod to try, or None. The attempt must end in `done`, in `withdraw` and `requeue`, or in `requeue`.
        Pods already counted on a node are skipped: they would be counted twice."""
        while (queued := self.queue.pop_nowait()) is not None:
            if self.cluster.node_of(queued.info.uid) is None:
                return queued
            self.queue.done(queued.pod)
        return None

    def is_settled(self, queued: QueuedPod) -> bool:
        """True if a popped pod needs no attempt: it is gone, terminating, or has a node, bound or assumed."""
        newest = self.queue.newest(queued.uid)
        return newest is None or newest.metadata.is_terminating or self.cluster.node_of(queued.uid) is not None

    def attempt(self, queued: QueuedPod, *, explains: bool = False) -> Attempt:
        """Try to place a popped pod: decide, reserve, assume, permit. Does not raise if a plugin fails. `explains`:
        account for the decision, and do not place a pod that a PreEnqueue plugin blocks."""
        profile = self.profile_of(queued.pod)
        if profile is None:
            raise LookupError(f"no profile has the name {queued.profile}, which pod {queued.info.key} asks for")
        nominator = self.queue.nominator
        expected = tuple(nominator.ahead_of(queued.info)) if len(nominator) else ()
        expected_on = nominator.node_of(queued.pod)
        # The pod as the API will show it after its nomination made here is written.
        pod = nominated_to(queued.pod, expected_on) if expected_on else queued.pod
        info = queued.info if pod is queued.pod else PodInfo(pod)
        attempt = self._place(info, queued.info, profile, expected, explains=explains)
        attempt.queued = queued
        placement, decision = attempt.placement, attempt.decision
        is_refused = attempt.stage is AttemptStage.DECIDE and decision is not None and decision.error is None
        queued.left_behind = LeftBehind(
            tried_on=placement.node if placement is not None else queued.left_behind.tried_on,
            refused_on=self.nominations.refused_on(attempt),
            is_like_others=is_refused and attempt.exception is None,
        )
        if placement is not None:
            placement.queued = queued
            try:
                self.queue.pod_assumed(queued.pod, placement.node)
                self._permit(attempt)
            except Exception:
                self.withdraw(placement)
                raise
        return attempt

    def place(self, pod: PodInfo, profile: Assembled | None = None) -> Attempt:
        """Place a pod that is not queued, ignoring nominations: decide, reserve, assume."""
        return self._place(pod, pod, profile or self._first_profile, ())

    def _place(
        self,
        pod: PodInfo,
        assumed_as: PodInfo,
        profile: Assembled,
        expected: Sequence[tuple[str, PodInfo]],
        *,
        explains: bool = False,
    ) -> Attempt:
        """The sequence of every attempt. `assumed_as`: the pod as the cluster will count it."""
        attempt = Attempt(assumed_as, profile)
        began_at = self.clock.monotonic()
        passed_over = self.queue.nominator.failed_nodes.passed_over(pod.pod)
        try:
            attempt.decision = decision = profile.decider.decide(
                self.cluster,
                pod,
                expected,
                passed_over=passed_over,
                diagnose=explains,
                times=self._hooks.plugin_times(),
            )
        except Exception as exc:  # the scheduling loop must survive a failing plugin
            attempt.exception, attempt.status = exc, broken("", pod)
            return attempt
        finally:
            attempt.decided_in_s = self.clock.monotonic() - began_at
        self._hooks.on_decision(profile.decider, decision)
        if explains:
            try:
                attempt.explanation = self._explained(profile, decision, expected, passed_over)
            except Exception as exc:
                attempt.exception, attempt.status = exc, broken("", pod)
                return attempt
        if not decision.fits or (attempt.explanation is not None and attempt.explanation.held_back):
            attempt.status = decision.error or attempt.status
            return attempt
        placement = Placement(assumed_as, profile, decision.cycle, decision.node)
        attempt.stage = AttemptStage.RESERVE
        attempt.status = reserve(attempt, placement)
        if attempt.status.is_success and not self.assumed.assume(assumed_as, decision.node):
            unreserve(placement)
            attempt.status = Status(Code.ERROR, (f"pod is on node {self.cluster.node_of(assumed_as.uid)} already",))
        elif attempt.status.is_success:
            attempt.placement, attempt.stage = placement, AttemptStage.PLACED
        return attempt

    def _permit(self, attempt: Attempt) -> None:
        """Run the Permit plugins. A rejection undoes the placement; the caller must wait for a WAIT."""
        placement = attempt.placement
        if placement is None:
            return
        status, attempt.waits = permit(attempt, placement)
        if not status.is_success:
            unreserve(placement)
            self.assumed.forget(placement.pod.uid)
            attempt.placement, attempt.stage, attempt.status = None, AttemptStage.PERMIT, status

    def post_filter(self, attempt: Attempt) -> PostFilterOutcome | None:
        """Run PostFilter for an attempt without a node; None if there is no diagnosis."""
        decision = attempt.decision
        if decision is None or decision.diagnosis is None:
            return None
        return run_post_filter(attempt.profile, decision.cycle, decision.diagnosis)

    def events_to_record(self, attempt: Attempt) -> list[EventToRecord]:
        """The events that plugins add for an attempt without a node."""
        found: list[EventToRecord] = []
        decision = attempt.decision
        if decision is None:
            return found
        for plugin in attempt.profile.plugins:
            try:
                found += plugin.events_to_record(decision.cycle)
            except Exception:
                broken(plugin.name, attempt.pod)
        return found

    def explain(self, pod: Pod) -> Explanation:
        """What would be decided about a pod now, node by node. Changes nothing. The pod must not have a node here."""
        info, profile = PodInfo(pod), self.profile_of(pod) or self._first_profile
        expected = tuple(self.queue.nominator.ahead_of(info))
        passed_over = self.queue.nominator.failed_nodes.passed_over(pod)
        decision = profile.decider.decide(self.cluster, info, expected, passed_over=passed_over, diagnose=True)
        return self._explained(profile, decision, expected, passed_over)

    def _explained(
        self,
        profile: Assembled,
        decision: Decision,
        expected: Sequence[tuple[str, PodInfo]],
        passed_over: Mapping[str, str],
    ) -> Explanation:
        """The account of a decision just made, with the preemption that could make room."""
        explanation = explanation_of(
            profile.decider,
            decision,
            expected,
            pre_enqueue=profile.rules.pre_enqueue,
            passed_over=passed_over,
            holder_of=self.nominations.holder_of,
        )
        if not decision.fits and not explanation.held_back and decision.diagnosis is not None:
            lot = self._rng.getstate()  # an explanation must not change later random choices
            explanation.preemption = preemption_answer(run_post_filter(profile, decision.cycle, decision.diagnosis))
            self._rng.setstate(lot)
        return explanation

    # -- after a placement --------------------------------------------------------------------------------------------

    def done(self, pod: Pod) -> None:
        """No plugin can refuse the in-flight pod any more: stop keeping events for it."""
        self.queue.done(pod)

    def binding_finished(self, placement: Placement) -> None:
        """The API accepted the binding; the informer confirms it, or `tick` returns it as overdue."""
        self.assumed.binding_finished(placement, self.clock.monotonic())

    def overdue_binding(self, placement: Placement, found: Pod | None, *, was_answered: bool = True) -> bool:
        """Handle the API's answer about an accepted binding that no informer shows. `found`: the pod, None if gone.

        Returns True if the binding did not happen: the pod is no longer counted, and must be requeued. Unreserve is not
        called: the pod's claims are bound, and their volumes stay. Without an answer, `tick` returns the pod again.
        """
        if not self.assumed.is_waited_for(placement):
            return False  # the informer's event, or the pod's end, came first
        if not was_answered:
            self.assumed.ask_again(placement, self.clock.monotonic())
            return False
        is_same = found is not None and uid_of(found) == placement.pod.uid
        if found is not None and is_same and found.spec.node_name == placement.node:
            return False  # it is bound; only its event is late
        self._forget(placement)
        return found is not None and is_same and not found.spec.node_name

    def withdraw(self, placement: Placement) -> None:
        """Undo a placement: unreserve it, and wake the pods that may fit now."""
        unreserve(placement)
        self._forget(placement)

    def _forget(self, placement: Placement) -> None:
        if self.assumed.forget(placement.pod.uid):
            # The pod is no longer counted: pods rejected because of it may fit now.
            self.queue.assigned_pod_deleted(placement.pod.pod, assumed_on=placement.node)

    def failed_on(self, queued: QueuedPod, node_name: str, why: str) -> None:
        """A pod did not reach the node chosen for it. Call it before `requeue`."""
        self.nominations.failed_on(queued, node_name, why)

    def requeue(
        self,
        queued: QueuedPod,
        newest: Pod | None,
        *,
        plugins: Iterable[str] = (),
        nomination: str | None = None,
    ) -> bool:
        """Put a pod back that these plugins refused. Returns False if it is gone or has a node. `newest`: the API's
        current pod. `nomination`: its new nominated node, "" for none; None leaves it unchanged."""
        if newest is not None and uid_of(newest) != queued.uid:
            newest = None
        if nomination:  # room is being made for this pod only
            queued.left_behind = queued.left_behind._replace(is_like_others=False)
        landed = self.queue.add_unschedulable_if_not_present(queued, unschedulable_plugins=plugins, pod=newest)
        if newest is None or landed is None:
            return False
        nominator, refused_on = self.queue.nominator, queued.left_behind.refused_on
        if nomination is not None:
            nominator.expect(queued.pod, nomination)
        elif refused_on and nominator.node_of(queued.pod) == refused_on:
            nominator.let_go(queued.pod)
        return True

    # -- preemption -------------------------------------------------------------------------------------------------

    def preemption_begins(self, plugin: PostFilterPlugin, pod: PodInfo) -> None:
        """Victims are about to be deleted for a pod: do not try it until they are."""
        if isinstance(plugin, DefaultPreemption):
            plugin.preempting.add(pod.uid)

    def preemption_ends(self, plugin: PostFilterPlugin, pod: PodInfo, *, succeeded: bool | None = None) -> None:
        """The victims are deleted (True), not all of them (False), or none had to go (None)."""
        if isinstance(plugin, DefaultPreemption):
            plugin.preempting.discard(pod.uid)
        if succeeded:
            self.queue.gate_opened(pod.pod, plugin.name)
        elif succeeded is False:
            self.queue.preemption_failed(pod.pod)

    def make_way(self, node_name: str, *, below: int) -> tuple[PodInfo, ...]:
        """Remove nominations of lower priority from a node. Returns their pods."""
        return self.queue.nominator.release(node_name, below=below)

    # -- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now_s: float) -> list[Placement]:
        """End everything that is due; call it once a second. Returns accepted bindings that no informer confirmed: ask
        the API about each, and call `overdue_binding`."""
        self.queue.flush_backoff_completed(now_s)
        if now_s - self._flushed_at >= FLUSH_UNSCHEDULABLE_EVERY_S:
            self._flushed_at = now_s
            self.queue.flush_unschedulable_leftover(now_s)
        overdue = self.assumed.overdue(now_s)
        self.held.expire(now_s)
        self.queue.nominator.failed_nodes.expire(now_s)
        return overdue
