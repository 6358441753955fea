"""What happened to each pod, step by step: one lane per pod, by uid. Changes go in, rows come out. Pure.

A pod that already runs when first seen gets a lane at its next step; the lane then begins with creation, binding and
start as the objects show them. A step that an object and an Event both report counts once, and so does a repeated
refusal. Beyond `MOST_LANES` finished lanes are dropped first, pods without claims before others, older before newer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from tonnage.dashboard.model import lane_steps, volume_rows
from tonnage.dashboard.model.capacity_rows import classes_of, reached
from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.dashboard.wire import LaneRow, PodStep
from tonnage.objects.core_v1 import Event, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.whatif.scheduler_memory import RememberedCapacity, SchedulerMemory

MOST_STEPS: Final = 60
SAME: Final = timedelta(seconds=15)
"""An object and an Event that report the same step within this time are one step."""
_ONCE: Final = frozenset(("created", "bound", "started", "succeeded", "failed", "terminating", "deleted"))
_LEAST: Final = ("event", "refused", "released", "detached")
"""Kinds of steps that a lane drops first when it grows too long."""
_UNDER_WAY: Final = frozenset(("rebuilding", "attaching", "terminating"))
_OVER: Final = frozenset(("rebuilt", "attached", "detached", "started"))
"""Kinds of steps that end work under way. Refusals neither begin nor end it: they may arrive late."""


@dataclass(slots=True)
class Lane:
    pod: Key
    uid: str
    has_claims: bool
    steps: list[PodStep] = field(default_factory=list)
    state: str = ""
    """The pod's phase, or "gone"."""
    heard: set[PodStep] = field(default_factory=set)
    """The steps that came from Events."""

    @property
    def is_done(self) -> bool:
        if self.state in ("gone", "Failed", "Succeeded"):
            return True
        last = next((step.kind for step in reversed(self.steps) if step.kind in _UNDER_WAY | _OVER), "")
        return self.state == "Running" and last not in _UNDER_WAY

    @property
    def last_at(self) -> datetime:
        return self.steps[-1].at

    def told(self) -> tuple[PodStep, ...]:
        """The steps with times that never go backwards: some steps know only their second."""
        found: list[PodStep] = []
        for step in self.steps:
            is_behind = not found or step.at >= found[-1].at
            found.append(step if is_behind else msgspec.structs.replace(step, at=found[-1].at))
        return tuple(found)

    def row(self) -> LaneRow:
        steps = self.told()
        return LaneRow(pod=self.pod, steps=steps, headline=lane_steps.headline_of(steps), done=self.is_done)

    def add(self, step: PodStep, *, is_heard: bool = False) -> bool:
        """Insert a step by its time. False if the lane already has it."""
        if any(_is_same(step, known, is_heard != (known in self.heard)) for known in self.steps):
            return False
        if is_heard:
            self.heard.add(step)
        at = len(self.steps)
        while at and _comes_first(step, self.steps[at - 1]):
            at -= 1
        if at and step.kind == "refused" and _last_refusal(self.steps[:at]) == step.text:
            return False
        self.steps.insert(at, step)
        if len(self.steps) > MOST_STEPS:
            least = (number for number, each in enumerate(self.steps[:-1]) if number and each.kind in _LEAST)
            self.heard.discard(self.steps.pop(next(least, 1)))
        return True


def _is_same(step: PodStep, known: PodStep, is_by_another: bool) -> bool:
    """True if two steps are the same. `is_by_another`: one comes from an object, the other from an Event."""
    if step.kind != known.kind:
        return False
    if step.kind in _ONCE:
        return True
    is_about_same = step.claim == known.claim or (is_by_another and not (step.claim and known.claim))
    if not is_about_same:
        return False
    if step.text == known.text and step.at == known.at:
        return True
    if is_by_another and step.kind != "event" and (not step.node or not known.node or step.node == known.node):
        return abs(step.at - known.at) <= SAME and (step.kind != "refused" or step.text == known.text)
    # Provisioned and then bound: one step.
    return step.kind == "provisioned" and step.text.startswith("bound to ")


def _comes_first(step: PodStep, other: PodStep) -> bool:
    if "created" in (step.kind, other.kind):  # nothing happens to a pod before its creation, whatever the clocks say
        return step.kind == "created"
    is_same_second = step.at.replace(microsecond=0) == other.at.replace(microsecond=0)
    if is_same_second and (step.at.microsecond == 0) != (other.at.microsecond == 0):
        return _rank(step) < _rank(other)  # an object knows only the second, an Event the microsecond
    return (step.at, _rank(step)) < (other.at, _rank(other))


def _rank(step: PodStep) -> int:
    return lane_steps.ORDER.index(step.kind) if step.kind in lane_steps.ORDER else len(lane_steps.ORDER)


def _last_refusal(steps: list[PodStep]) -> str:
    """The last refusal, unless the pod has progressed since."""
    for step in reversed(steps):
        if step.kind == "refused":
            return step.text
        if step.kind in ("decided", "bound", "nominated"):
            return ""
    return ""


MOST_LANES: Final = 500
MOST_WAITING: Final = 1000
"""Limit of Events kept for pods that are not known yet."""
LATELY: Final = timedelta(seconds=60)
"""A pod that started less than this ago gets a lane at once."""

_FOLLOWS_DECISION: Final = frozenset(("nominated", "provisioning", "rebuilding", "bound"))


class Lanes:
    """Every lane. `home` returns the last known node of a claim's volume."""

    def __init__(self, objects: KnownObjects, home: Callable[[Key], str]) -> None:
        self._objects = objects
        self._home = home
        self._lanes: dict[str, Lane] = {}
        self._first_seen: dict[str, tuple[Pod, datetime]] = {}  # pods added since the last `take`, and when
        self._changed: set[str] = set()
        self._memory = SchedulerMemory()
        self._waiting: OrderedDict[str, list[tuple[PodStep, bool]]] = OrderedDict()
        """Steps of unknown pods and claims by uid, with True for steps from Events."""
        self._heard: OrderedDict[str, datetime] = OrderedDict()  # Events by uid, with their last time

    def changed(self, old: Object | None, new: Object | None, now: datetime) -> None:
        """An object was added, changed or removed. `objects` already knows it."""
        match new if new is not None else old:
            case Pod():
                self._pod(old, new, now)  # type: ignore[arg-type]
            case PersistentVolumeClaim():
                if isinstance(new, PersistentVolumeClaim):
                    before = old if isinstance(old, PersistentVolumeClaim) and old.uid == new.uid else None
                    home = self._home(new.key)
                    self._tell(new.key, lane_steps.claim_steps(self._objects, before, new, home, now), now)
            case PersistentVolume():
                self._volume(old, new, now)  # type: ignore[arg-type]
            case VolumeAttachment():
                self._attachment(old, new, now)  # type: ignore[arg-type]

    def remembered(self, memory: SchedulerMemory, now: datetime) -> None:
        """Add the steps for what changed in the scheduler's memory since the last call."""
        before, self._memory = self._memory, memory
        known = {each.uid: each.node for each in before.pods}
        for each in memory.pods:
            pod = self._objects.pods.get(each.pod)
            if known.get(each.uid) != each.node and pod is not None and pod.uid == each.uid:
                at, text = self._before_what_follows(each.uid, each.node, now), f"sent to {each.node}"
                step = PodStep(at=at, kind="decided", text=text, node=each.node, source=lane_steps.SCHEDULER)
                self._add(pod, (step,), now)
        had, has = self._promises(before.held), self._promises(memory.held)
        for holder in has.keys() - had.keys():
            self._held(has[holder], lane_steps.held_step(self._objects, has[holder], now), now)
        for holder in had.keys() - has.keys():
            self._held(had[holder], lane_steps.held_step(self._objects, had[holder], now, is_over=True), now)

    def heard(self, event: Event, now: datetime) -> None:
        at = lane_steps.event_at(event) or now
        if event.reason in lane_steps.PASSED_OVER:
            return
        if self._heard.get(event.uid) == at:
            return
        self._heard[event.uid] = at
        while len(self._heard) > MOST_WAITING:
            self._heard.popitem(last=False)
        about, step = event.involved_object, lane_steps.event_step(event, now)
        if about.kind == "Pod":
            pod = self._objects.pods.get(about.key)
            if pod is None or pod.uid != about.uid:
                lane = self._lanes.get(about.uid)
                if lane is None:
                    self._keep(about.uid, step, is_heard=True)
                elif lane.add(step, is_heard=True):
                    self._changed.add(about.uid)
            elif about.uid in self._first_seen or about.uid in self._lanes or not _runs(pod):
                self._add(pod, (step,), now, is_heard=True)
        elif about.kind == "PersistentVolumeClaim":
            claim = self._objects.claims.get(about.key)
            users = [self._objects.pods[key].uid for key in self._objects.pods_of_claim[about.key]]
            if claim is None or claim.uid != about.uid or not self._first_seen.keys().isdisjoint(users):
                self._keep(about.uid, step, is_heard=True)
            else:
                self._tell(about.key, (step,), now, is_heard=True)

    def take(self, now: datetime) -> Iterator[tuple[str, LaneRow | None]]:
        """Rows of the lanes that changed since the last call; None for a dropped lane."""
        first_seen, self._first_seen = self._first_seen, {}
        begun: list[tuple[Pod, datetime]] = []
        for uid, (pod, seen_at) in first_seen.items():
            known = self._objects.pods.get(pod.key)
            if known is None or known.uid != uid or (uid not in self._lanes and self._is_old_news(known, now)):
                self._waiting.pop(uid, None)
            else:
                begun.append((known, seen_at))
        if len(begun) > MOST_LANES:  # a cluster seen for the first time: only the pods whose lanes would stay
            begun.sort(key=lambda each: (bool(each[0].claim_names()), each[0].metadata.creation_timestamp or each[1]))
        for known, seen_at in begun[-MOST_LANES:]:
            self._lane(known, now, seen_at)
        for uid in self._surplus():
            del self._lanes[uid]
            self._changed.add(uid)
        changed, self._changed = self._changed, set()
        for uid in sorted(changed):
            lane = self._lanes.get(uid)
            yield uid, None if lane is None else lane.row()

    def forget(self) -> None:
        self._changed.update(self._lanes)
        self._lanes.clear()
        self._first_seen.clear()
        self._waiting.clear()
        self._heard.clear()

    # -- what changed -------------------------------------------------------------------------------------------------

    def _pod(self, old: Pod | None, new: Pod | None, now: datetime) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._pod_gone(old, now)
            old = None
        if new is None:
            return
        if old is None or new.uid in self._first_seen:
            self._first_seen.setdefault(new.uid, (new, now))
            return
        steps = list(lane_steps.pod_steps(old, new, now))
        if steps or new.uid in self._lanes:
            self._add(new, steps, now)

    def _pod_gone(self, old: Pod, now: datetime) -> None:
        self._first_seen.pop(old.uid, None)
        if old.uid not in self._lanes and old.is_terminal:
            return  # the clean-up of a pod that ended long ago
        lane = self._lane(old, now)
        lane.state = "gone"
        step = PodStep(at=now, kind="deleted", text="is gone", node=old.spec.node_name, source=lane_steps.API)
        lane.add(step)
        self._changed.add(old.uid)

    def _volume(self, old: PersistentVolume | None, new: PersistentVolume | None, now: datetime) -> None:
        if new is None:
            return
        key = volume_rows.claim_of(self._objects, new)
        claim = self._objects.claims.get(key) if key is not None else None
        if claim is not None:
            self._tell(claim.key, lane_steps.volume_steps(self._objects, old, new, claim, now), now)

    def _attachment(self, old: VolumeAttachment | None, new: VolumeAttachment | None, now: datetime) -> None:
        found = new or old
        volume = self._objects.volumes.get(found.spec.source.persistent_volume_name) if found is not None else None
        key = volume_rows.claim_of(self._objects, volume) if volume is not None else None
        if found is not None and key is not None:
            self._tell(key, lane_steps.attachment_steps(old, new, key, now), now, on=found.spec.node_name)

    def _before_what_follows(self, uid: str, node: str, at: datetime) -> datetime:
        """`at`, or the time of an earlier step that follows from placing the pod on this node: the memory of the
        scheduler is polled, and later steps may be seen first."""
        lane = self._lanes.get(uid)
        for step in reversed(lane.steps) if lane is not None else ():
            if step.kind in ("refused", "decided"):
                break
            if step.node == node and step.kind in _FOLLOWS_DECISION:
                at = min(at, step.at)
        return at

    def _held(self, held: RememberedCapacity, step: PodStep, now: datetime) -> None:
        pod = self._objects.pods.get(held.pod)
        if pod is not None and not pod.is_terminal:
            if step.kind == "reserved" and step.node:
                at = max(held.since, self._before_what_follows(pod.uid, step.node, step.at))
                step = msgspec.structs.replace(step, at=at)
            self._add(pod, (step,), now)

    def _promises(self, held: Iterable[RememberedCapacity]) -> dict[tuple[object, ...], RememberedCapacity]:
        """Every promise once: a promise is charged to all objects of the same pools."""
        found: dict[tuple[object, ...], RememberedCapacity] = {}
        for each in sorted(held, key=lambda one: one.capacity):
            capacity = self._objects.capacities.get(each.capacity)
            where = reached(self._objects, capacity.node_topology) if capacity is not None else [each.capacity]
            classes = classes_of(self._objects, each)
            is_own = capacity is not None and capacity.storage_class_name in classes
            promise = (each.mode, each.pod, *each.claims, *where)
            if is_own or promise not in found:
                found[promise] = each
        return found

    # -- lanes --------------------------------------------------------------------------------------------------------

    def _tell(
        self, claim: Key, steps: Iterable[PodStep], now: datetime, *, on: str = "", is_heard: bool = False
    ) -> None:
        """Add steps to the lanes of the pods that use a claim. `on` skips pods on other nodes."""
        pods = [self._objects.pods[key] for key in sorted(self._objects.pods_of_claim[claim])]
        found = list(steps) if any(pod.uid not in self._first_seen for pod in pods) else []
        for pod in pods if found else ():
            is_elsewhere = on and pod.spec.node_name not in ("", on)
            if is_elsewhere or pod.is_terminal or pod.uid in self._first_seen:
                continue
            if pod.uid not in self._lanes and is_heard and _runs(pod):
                continue
            # Steps from before the pod belong to another pod, and old steps do not start a lane.
            begins = pod.metadata.creation_timestamp if pod.uid in self._lanes else now - LATELY
            news = [step for step in found if begins is None or step.at >= begins]
            if news:
                self._add(pod, news, now, is_heard=is_heard)

    def _add(self, pod: Pod, steps: Iterable[PodStep], now: datetime, *, is_heard: bool = False) -> None:
        if pod.uid in self._first_seen:
            for step in steps:
                self._keep(pod.uid, step, is_heard=is_heard)
            return
        lane = self._lane(pod, now)
        lane.state = pod.status.phase
        for step in steps:
            lane.add(step, is_heard=is_heard)
        self._changed.add(pod.uid)

    def _lane(self, pod: Pod, now: datetime, seen_at: datetime | None = None) -> Lane:
        """The lane of a pod. A new lane begins with the past steps that objects show."""
        lane = self._lanes.get(pod.uid)
        if lane is None:
            lane = self._lanes[pod.uid] = Lane(pod.key, pod.uid, bool(pod.claim_names()))
            for step, is_heard in self._history(pod, now, seen_at):
                lane.add(step, is_heard=is_heard)
            self._changed.add(pod.uid)
        lane.state = pod.status.phase
        for step, is_heard in self._waiting.pop(pod.uid, ()):
            lane.add(step, is_heard=is_heard)
            self._changed.add(pod.uid)
        return lane

    def _history(self, pod: Pod, now: datetime, seen_at: datetime | None) -> Iterator[tuple[PodStep, bool]]:
        yield from ((step, False) for step in lane_steps.pod_steps(None, pod, now, seen_at))
        created = pod.metadata.creation_timestamp
        for key in pod.claim_keys():
            claim = self._objects.claims.get(key)
            if claim is None:
                continue
            steps = [(step, False) for step in self._claim_history(pod, claim, now)]
            for step, is_heard in (*steps, *self._waiting.get(claim.uid, ())):
                if created is None or step.at >= created:  # earlier steps belong to another pod
                    yield step, is_heard

    def _claim_history(self, pod: Pod, claim: PersistentVolumeClaim, now: datetime) -> Iterator[PodStep]:
        volume = volume_rows.volume_of(self._objects, claim)
        if volume is None or not claim.is_bound:
            yield from lane_steps.claim_steps(self._objects, None, claim, "", now)
        else:
            made, began = volume.metadata.creation_timestamp, pod.metadata.creation_timestamp
            if made is None or began is None or made >= began:  # a volume created earlier was created for another pod
                yield from lane_steps.volume_steps(self._objects, None, volume, claim, now)
            moves = lane_steps.claim_steps(self._objects, None, claim, self._home(claim.key), now)
            yield from (step for step in moves if step.kind == "rebuilding")
        for key in sorted(self._objects.attachments_of_volume[volume.name]) if volume is not None else ():
            attachment = self._objects.attachments[key]
            if pod.spec.node_name == attachment.spec.node_name:
                yield from lane_steps.attachment_steps(None, attachment, claim.key, now)

    def _keep(self, uid: str, step: PodStep, *, is_heard: bool) -> None:
        self._waiting.setdefault(uid, []).append((step, is_heard))
        self._waiting.move_to_end(uid)
        del self._waiting[uid][:-MOST_STEPS]
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popitem(last=False)

    def _is_old_news(self, pod: Pod, now: datetime) -> bool:
        """True for a pod that started or ended more than `LATELY` ago."""
        if not (_runs(pod) or pod.is_terminal) or pod.metadata.is_terminating:
            return False
        started = pod.status.start_time or pod.metadata.creation_timestamp
        return started is None or now - started > LATELY

    def _surplus(self) -> list[str]:
        too_many = len(self._lanes) - MOST_LANES
        if too_many <= 0:
            return []
        lanes = sorted(self._lanes.values(), key=lambda lane: (not lane.is_done, lane.has_claims, lane.last_at))
        return [lane.uid for lane in lanes[:too_many]]


def _runs(pod: Pod) -> bool:
    return pod.status.phase == "Running"
