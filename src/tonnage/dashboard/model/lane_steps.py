"""Steps of a pod's lane, derived from changes of objects, from the scheduler's memory, and from Events. Pure.

Timestamps of objects have whole seconds, and some changes have none. A step seen as it happens takes the clock's time
if the timestamp is within two seconds of it, so that steps within one second keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from tonnage.dashboard.model import capacity_rows, volume_rows
from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.dashboard.wire import PodStep
from tonnage.objects.core_v1 import Event, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.quantity import Quantity
from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.scheduling.volumes.volume_reach import is_on_its_way
from tonnage.whatif.scheduler_memory import RememberedCapacity

API, SCHEDULER = "api", "scheduler"
_COARSE: Final = timedelta(seconds=2)

EVENT_KINDS: Final = {
    "Scheduled": "bound",
    "FailedScheduling": "refused",
    "Provisioning": "provisioning",
    "ProvisioningSucceeded": "provisioned",
    "ProvisioningFailed": "provision-failed",
    "VolumeRebuilt": "rebuilt",
    "SuccessfulAttachVolume": "attached",
    "FailedAttachVolume": "attach-failed",
    "CapacityAwareRescheduling": "rebuilding",
    "Started": "started",
    "Killing": "terminating",
    "VolumeAttachmentLimitExceeded": "failed",
}
"""Event reasons that report what objects show as well: such an Event becomes a step only if the objects gave none."""
PASSED_OVER: Final = frozenset(
    (
        *("WaitForFirstConsumer", "WaitForPodScheduled", "ExternalProvisioning", "AffinitySet", "AffinityUnset"),
        *("Pulled", "Created"),
    )
)
"""Event reasons that add nothing to what objects show."""
ORDER: Final = (
    *("created", "refused", "decided", "reserved", "nominated", "provisioning", "provisioned", "rebuilding", "bound"),
    *("attaching", "rebuilt", "attached", "started"),
)
"""The order of step kinds with equal times; other kinds come last."""


_BOOKKEEPING: Final = frozenset(("reserved", "released", "nominated", "detached", "event"))
"""Kinds of steps about what is kept for a pod, not about the pod."""
_TURNS: Final = frozenset(
    ("failed", "succeeded", "terminating", "deleted", "provision-failed", "attach-failed", "rebuilding")
)
"""Kinds of steps after which a pod that had started is in another state."""


def headline_of(steps: Sequence[PodStep]) -> int:
    """Number of the step that says what happened to the pod; -1 without one. A pod that runs has started, whatever is
    reported after that of its volumes."""
    found = -1
    for number, step in enumerate(steps):
        has_started = found >= 0 and steps[found].kind == "started"
        if step.kind in _TURNS or not (has_started or step.kind in _BOOKKEEPING):
            found = number
    return found


def happened_at(told: datetime | None, now: datetime) -> datetime:
    """When a change seen now happened: the object's timestamp, or the clock where the two agree."""
    return now if told is None or abs(now - told) < _COARSE else told


# -- pods -------------------------------------------------------------------------------------------------------------


def created_at(told: datetime | None, seen_at: datetime) -> datetime:
    """When an object was created: within the second of its timestamp, and not after it was first seen."""
    if told is None or seen_at - told >= _COARSE:
        return told or seen_at
    return max(told, min(seen_at, told + timedelta(seconds=1)))


def pod_steps(old: Pod | None, new: Pod, now: datetime, seen_at: datetime | None = None) -> Iterator[PodStep]:
    """The steps between two states of a pod. Without `old`: every step that its state shows, seen at `seen_at`."""
    if old is None:
        at = created_at(new.metadata.creation_timestamp, seen_at or now)
        yield PodStep(at=at, kind="created", text="created", source=API)
    yield from _decision_steps(old, new, now)
    if new.spec.node_name and not (old is not None and old.spec.node_name):
        scheduled = new.condition("PodScheduled")
        told = scheduled.last_transition_time if scheduled is not None and scheduled.is_true else None
        if told is None and old is None:
            told = new.status.start_time  # its kubelet has seen it, so it was bound by then
        yield _on(new, "bound", f"bound to {new.spec.node_name}", happened_at(told, now))
    phase = new.status.phase
    if old is None or old.status.phase != phase:
        if phase == "Running":
            yield _on(new, "started", f"runs on {new.spec.node_name}", happened_at(_started_at(new), now))
        elif phase == "Failed":
            why = ": ".join(each for each in (new.status.reason, new.status.message) if each)
            yield _on(new, "failed", f"failed: {why}" if why else "failed", happened_at(_ended_at(new), now))
        elif phase == "Succeeded":
            yield _on(new, "succeeded", "ended well", happened_at(_ended_at(new), now))
    if new.metadata.is_terminating and not (old is not None and old.metadata.is_terminating):
        asked_at = new.metadata.deletion_timestamp
        if asked_at is not None:  # it is the request plus the grace period
            asked_at -= timedelta(seconds=new.metadata.deletion_grace_period_seconds or 0)
        yield _on(new, "terminating", "is being deleted", happened_at(asked_at, now))


def _decision_steps(old: Pod | None, new: Pod, now: datetime) -> Iterator[PodStep]:
    scheduled, before = new.condition("PodScheduled"), old.condition("PodScheduled") if old is not None else None
    if scheduled is not None and not scheduled.is_true and scheduled.message:
        was = before.message if before is not None and not before.is_true else ""
        if scheduled.message != was:
            # The condition's time is that of the first refusal; a new message is a refusal at this moment.
            told = scheduled.last_transition_time if before is None or before.is_true else None
            yield PodStep(at=happened_at(told, now), kind="refused", text=scheduled.message, source=SCHEDULER)
    nominated = new.status.nominated_node_name
    is_news = nominated != old.status.nominated_node_name if old is not None else not new.spec.node_name
    if nominated and is_news and not new.is_terminal:
        text = f"nominated for {nominated}"
        yield PodStep(at=now, kind="nominated", text=text, node=nominated, source=SCHEDULER)


def _on(pod: Pod, kind: str, text: str, at: datetime) -> PodStep:
    return PodStep(at=at, kind=kind, text=text, node=pod.spec.node_name, source=API)


def _started_at(pod: Pod) -> datetime | None:
    states = [container_status.state.running for container_status in pod.status.container_statuses]
    found = [state.started_at for state in states if state is not None and state.started_at is not None]
    return min(found, default=None) or pod.status.start_time


def _ended_at(pod: Pod) -> datetime | None:
    states = [container_status.state.terminated for container_status in pod.status.container_statuses]
    return max((each.finished_at for each in states if each is not None and each.finished_at is not None), default=None)


# -- claims, volumes, attachments -------------------------------------------------------------------------------------


def claim_steps(
    objects: KnownObjects, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim, came_from: str, now: datetime
) -> Iterator[PodStep]:
    """The steps of a claim between two states. `came_from` is the previous node of a volume that moves."""
    node, before = new.selected_node, old.selected_node if old is not None else ""
    volume = objects.volumes.get(new.spec.volume_name)
    if node and not new.is_bound and node != before:
        text = f"a volume of {new.requested_size} is to be made on {node}"
        yield PodStep(at=now, kind="provisioning", text=text, node=node, claim=new.key, source=API)
    elif before and not node and not new.is_bound:
        text = f"nothing is made on {before}: the pod is sent elsewhere"
        yield PodStep(at=now, kind="provision-failed", text=text, node=before, claim=new.key, source=API)
    if new.is_bound and not (old is not None and old.is_bound):
        at = volume.metadata.creation_timestamp if volume is not None else None
        if at is None and old is None:
            at = new.metadata.creation_timestamp  # it was bound when first seen
        text = f"bound to volume {new.spec.volume_name}"
        where = volume_rows.place_of(objects, volume).node if volume is not None else ""
        yield PodStep(at=happened_at(at, now), kind="provisioned", text=text, node=where, claim=new.key, source=API)
    is_moving = volume is not None and is_on_its_way(new, volume)
    was_told = old is not None and old.rebuild_target == node and old.selected_node == node
    if is_moving and not was_told:
        start = f" from {came_from}" if came_from and came_from != node else ""
        text = f"its volume {new.spec.volume_name} is being rebuilt{start} on {node}"
        yield PodStep(at=now, kind="rebuilding", text=text, node=node, claim=new.key, source=SCHEDULER)


def volume_steps(
    objects: KnownObjects,
    old: PersistentVolume | None,
    new: PersistentVolume,
    claim: PersistentVolumeClaim,
    now: datetime,
) -> Iterator[PodStep]:
    before, after = (old.spec.node_affinity.required if old is not None else None), new.spec.node_affinity.required
    if old is not None and (before is None) == (after is None):
        return
    where = volume_rows.place_of(objects, new).node
    if old is None:
        at = happened_at(new.metadata.creation_timestamp, now)
        text = f"volume {new.name} of {new.size} made" + (f" on {where}" if where else "")
        yield PodStep(at=at, kind="provisioned", text=text, node=where, claim=claim.key, source=API)
        return
    if after is None:
        home = volume_rows.place_of(objects, old).node
        text = f"volume {new.name} may leave {home}" if home else f"volume {new.name} may be rebuilt elsewhere"
        yield PodStep(at=now, kind="event", text=text, node=home, claim=claim.key, source=API)
    else:
        is_arrival = bool(claim.rebuild_target) and where == claim.rebuild_target
        text = f"volume {new.name} has arrived on {where}" if is_arrival else f"volume {new.name} is on {where}"
        kind = "rebuilt" if is_arrival else "event"
        yield PodStep(at=now, kind=kind, text=text, node=where, claim=claim.key, source=API)


def attachment_steps(
    old: VolumeAttachment | None, new: VolumeAttachment | None, claim: Key, now: datetime
) -> Iterator[PodStep]:
    """The steps of the attachment of a claim's volume. None stands for an attachment that does not exist."""
    attachment = new or old
    if attachment is None:
        return
    node, volume = attachment.spec.node_name, attachment.spec.source.persistent_volume_name

    def step(kind: str, text: str, at: datetime) -> PodStep:
        return PodStep(at=at, kind=kind, text=text, node=node, claim=claim, source=API)

    if new is None:
        yield step("detached", f"volume {volume} is detached from {node}", now)
        return
    if old is None:
        at = happened_at(new.metadata.creation_timestamp, now)
        yield step("attaching", f"volume {volume} is to be attached to {node}", at)
    if new.status.attached and not (old is not None and old.status.attached):
        # No timestamp tells when it was attached: not before its creation.
        at = now if old is not None else happened_at(new.metadata.creation_timestamp, now)
        yield step("attached", f"volume {volume} is attached to {node}", at)
    error, before = new.status.attach_error, old.status.attach_error if old is not None else None
    if error is not None and (before is None or before.message != error.message):
        yield step("attach-failed", f"{node} refuses volume {volume}: {error.message}", happened_at(error.time, now))


# -- the scheduler's memory, and Events -------------------------------------------------------------------------------


def held_step(objects: KnownObjects, held: RememberedCapacity, now: datetime, *, is_over: bool = False) -> PodStep:
    """The step for capacity that is now kept back for a pod; with `is_over`, for its release."""
    capacity = objects.capacities.get(held.capacity)
    nodes = capacity_rows.reached(objects, capacity.node_topology) if capacity is not None else []
    node = nodes[0] if len(nodes) == 1 else ""
    what = f"{Quantity.from_bytes(held.bytes)} of" if held.mode is Reservation.LEDGER else "the whole of"
    whose = f"{capacity.storage_class_name} on {node}" if capacity is not None and node else held.capacity
    claim = held.claims[0] if len(held.claims) == 1 else ""
    if not is_over:
        text = f"{what} {whose} is kept back: {held.why}"
        return PodStep(
            at=created_at(held.since, now), kind="reserved", text=text, node=node, claim=claim, source=SCHEDULER
        )
    text = f"{what} {whose} is no longer kept back"
    return PodStep(at=now, kind="released", text=text, node=node, claim=claim, source=SCHEDULER)


def event_at(event: Event) -> datetime | None:
    series = event.series.last_observed_time if event.series is not None else None
    times = (series, event.last_timestamp, event.event_time, event.first_timestamp)
    # A busy component may write the Event seconds later: creationTimestamp counts only without other times.
    found = max((at for at in times if at is not None), default=event.metadata.creation_timestamp)
    return datetime.combine(found.date(), found.timetz()) if found is not None else None


def event_step(event: Event, now: datetime) -> PodStep:
    about, kind = event.involved_object, EVENT_KINDS.get(event.reason, "event")
    if kind == "rebuilding" and event.action == "Scheduling":
        kind = "event"  # the volume may be rebuilt elsewhere, but no node fits its pod now: nothing moves
    text = event.message if kind != "event" else f"{event.reason}: {event.message}"
    return PodStep(
        at=event_at(event) or now,
        kind=kind,
        text=text,
        claim=about.key if about.kind == "PersistentVolumeClaim" else "",
        source=event.source.component or event.reporting_component or API,
    )
