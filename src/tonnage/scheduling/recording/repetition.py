"""Repeats a recording: the same calls to an engine of the same configuration and seed, at the same times. No I/O.

    repetition = Repetition(header, profiles)
    for line in lines:
        difference = repetition.repeat(line)        # None, or where the engine decides otherwise than recorded

Every pop, attempt and PostFilter is compared with the line's result. After a difference the two states differ, and
later lines mean nothing: stop there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tonnage.clock import VirtualClock
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.engine.attempt import Attempt, EngineSettings, Placement
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.framework import PostFilterPlugin
from tonnage.scheduling.plugins.volume_binding import assumed_in
from tonnage.scheduling.queue import queues, waiting_pods
from tonnage.scheduling.recording import recording_engine


class BrokenRecording(TonnageError):
    """A line that cannot follow the lines before it."""


class RecordedObjects:
    """The objects that the recorded scheduler knew."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Key], Object] = {}

    def take(self, line: recording_engine.RecordedLine) -> tuple[Object | None, Object | None]:
        """(before, now) of an add, update or delete. Raises BrokenRecording."""
        if line.op == "delete":
            found = self._known.pop((line.kind, line.key), None)
            if found is None:
                raise BrokenRecording(f"{line.kind} {line.key} is deleted and was never there")
            return found, None
        if not bytes(line.object):
            raise BrokenRecording(f'"{line.op}" has no object')
        new = recording_engine.read_object(line.object)
        place = (type(new).__name__, new.key)
        before = self._known.get(place)
        if line.op == "update" and before is None:
            raise BrokenRecording(f"{place[0]} {place[1]} is updated and was never there")
        self._known[place] = new
        return (before if line.op == "update" else None), new

    def pod(self, key: Key) -> Pod | None:
        found = self._known.get(("Pod", key))
        return found if isinstance(found, Pod) else None


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a repetition differs from its recording. A node is empty for nowhere."""

    what: str
    """`attempt`: the pod goes elsewhere. `pop`: another pod is tried. `postFilter`: room is made elsewhere."""
    pod: Key
    recorded: str
    repeated: str
    at: datetime
    explanation: Explanation | None = None


class Repetition:
    """An engine that starts empty, like the recorded one."""

    def __init__(
        self,
        header: recording_engine.Header,
        profiles: Iterable[ResolvedProfile],
        *,
        initial_backoff_s: float = queues.INITIAL_BACKOFF_S,
        max_backoff_s: float = queues.MAX_BACKOFF_S,
        explained_decision: int | None = None,
    ) -> None:
        """`explained_decision`: the number of the attempt to explain, from 1; explaining all is slow."""
        # It shows the times of the current line.
        self.clock = recording_engine.LatchedClock(VirtualClock(), recording_engine.time_of(header))
        self.objects = RecordedObjects()
        self.engine = Engine(
            profiles,
            clock=self.clock,
            rng=random.Random(header.seed),
            settings=EngineSettings(
                initial_backoff_s=initial_backoff_s,
                max_backoff_s=max_backoff_s,
                takes_any_pod=header.takes_any_pod,
                implies_namespaces=header.implies_namespaces,
                max_unschedulable_s=header.max_unschedulable_s,
            ),
        )
        self.decisions = 0
        self._explained_decision = explained_decision
        self._queued: dict[str, waiting_pods.QueuedPod] = {}
        self._last: Attempt | None = None
        self._placements: dict[str, Placement] = {}
        self._finished: set[str] = set()  # pods whose binding the API has accepted

    def repeat(self, line: recording_engine.RecordedLine) -> Difference | None:
        """Repeat a line. Raises BrokenRecording if it is impossible."""
        self.clock.held = recording_engine.time_of(line)
        match line.op:
            case "add" | "update" | "delete":
                self._changed(line)
            case "pop":
                return self._popped(line)
            case "attempt":
                return self._attempted(line)
            case "postFilter":
                return self._post_filtered(line)
            case "done":
                self.engine.done(_known(self._queued, line, "popped").pod)
            case "failedOn":
                self.engine.failed_on(_known(self._queued, line, "popped"), line.node, line.why)
            case "requeue":
                queued, newest = _known(self._queued, line, "popped"), self.objects.pod(line.key) if line.flag else None
                self.engine.requeue(queued, newest, plugins=line.plugins, nomination=line.nomination)
            case "withdraw" | "bindingFinished" | "overdueBinding":
                self._bound(line)
            case "preemptionBegins" | "preemptionEnds":
                self._preemption(line)
            case "makeWay":
                self.engine.make_way(line.node, below=line.below)
            case "open":
                self.engine.open()
            case "tick":
                self.engine.tick(line.at)
        return None

    def _changed(self, line: recording_engine.RecordedLine) -> None:
        old, new = self.objects.take(line)
        if new is None:
            if old is not None:
                self.engine.delete(old)
        elif old is None:
            self.engine.add(new)
        else:
            self.engine.update(old, new)
        if isinstance(new or old, Pod):
            self._forget_if_settled(waiting_pods.uid_of(new or old))  # type: ignore[arg-type]  # one of them is there

    def _forget_if_settled(self, uid: str) -> None:
        """Forget a pod that is bound and confirmed, or gone: later lines do not name it, and its state is large."""
        if uid in self._finished and uid not in self.engine.assumed:
            self._finished.discard(uid)
            self._placements.pop(uid, None)
            self._queued.pop(uid, None)

    def _popped(self, line: recording_engine.RecordedLine) -> Difference | None:
        queued = self.engine.pop()
        if (queued.uid if queued is not None else "") != line.uid:
            return self._apart(line, line.key, queued.info.key if queued is not None else "")
        if queued is not None:
            self._queued[queued.uid] = queued
        return None

    def _post_filtered(self, line: recording_engine.RecordedLine) -> Difference | None:
        if self._last is None or self._last.pod.uid != line.uid:
            raise BrokenRecording(f'"postFilter" of pod {line.key}, which was not tried just before')
        outcome = self.engine.post_filter(self._last)
        node = outcome.result.nominated_node if outcome is not None else ""
        return None if node == line.node else self._apart(line, line.node, node)

    def _attempted(self, line: recording_engine.RecordedLine) -> Difference | None:
        self.decisions += 1
        explains = self.decisions == self._explained_decision
        attempt = self.engine.attempt(_known(self._queued, line, "popped"), explains=explains)
        self._last = attempt
        node = ""
        if attempt.placement is not None:
            self._placements[line.uid] = attempt.placement
            node = attempt.placement.node
        if node == line.node:
            return None
        return self._apart(line, line.node, node, attempt.explanation)

    def _apart(
        self, line: recording_engine.RecordedLine, recorded: str, repeated: str, explained: Explanation | None = None
    ) -> Difference:
        return Difference(line.op, line.key, recorded, repeated, self.clock.now(), explained)

    def _bound(self, line: recording_engine.RecordedLine) -> None:
        if line.op == "overdueBinding" and line.uid not in self._placements:
            return  # it was confirmed, or gone, before
        placement = _known(self._placements, line, "placed")
        if line.op == "bindingFinished":
            self.engine.binding_finished(placement)
            self._finished.add(line.uid)
            self._forget_if_settled(line.uid)
        elif line.op == "overdueBinding":
            found = recording_engine.read_object(line.object) if bytes(line.object) else None
            pod = found if isinstance(found, Pod) else None
            self.engine.overdue_binding(placement, pod, was_answered=bool(line.flag))
            self._finished.discard(line.uid)
        else:
            assumed = assumed_in(placement.cycle)
            if assumed is not None:
                assumed.mark_all_written(line.written)
            self.engine.withdraw(placement)
            del self._placements[line.uid]

    def _preemption(self, line: recording_engine.RecordedLine) -> None:
        queued = _known(self._queued, line, "popped")
        profile = self.engine.profile_of(queued.pod)
        named = [each for each in profile.plugins if each.name in line.plugins] if profile is not None else []
        plugin = next((each for each in named if isinstance(each, PostFilterPlugin)), None)
        if plugin is None:
            raise BrokenRecording(f"there is no PostFilter plugin {', '.join(line.plugins)}")
        if line.op == "preemptionBegins":
            self.engine.preemption_begins(plugin, queued.info)
        else:
            self.engine.preemption_ends(plugin, queued.info, succeeded=line.flag)


def _known(kept: dict[str, Any], line: recording_engine.RecordedLine, done: str) -> Any:
    found = kept.get(line.uid)
    if found is None:
        raise BrokenRecording(f'"{line.op}" of pod {line.key or line.uid}, which was not {done} before')
    return found
