"""Lanes: what happened to each pod, in order, once, and not without end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.filled_cluster import FilledCluster
from support.virtual_clock import VirtualClock
from tonnage.dashboard.model.lane_steps import headline_of
from tonnage.dashboard.model.lanes import MOST_LANES, MOST_STEPS
from tonnage.dashboard.wire import CapacityRow, LaneRow, PodStep, VolumeRow
from tonnage.objects.codec import convert, to_doc
from tonnage.objects.core_v1 import Event
from tonnage.objects.core_v1.persistent_volume import REBUILD_TARGET
from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import (
    attachment,
    capacity,
    claim,
    driver,
    pod_with,
    storage_class,
    volume,
)
from tonnage.whatif.scheduler_memory import AssumedPod, RememberedCapacity, SchedulerMemory

START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def stamp(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def refused(message: str) -> dict[str, Any]:
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}


def event(name: str, reason: str, message: str, *, seconds: float, about: str = "Pod", of: str = "db-0") -> Event:
    return convert(
        Event,
        {
            "kind": "Event",
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "involvedObject": {"kind": about, "namespace": "default", "name": of, "uid": f"default-{of}"},
            "reason": reason,
            "message": message,
            "lastTimestamp": stamp(seconds),
            "source": {"component": "somebody"},
        },
    )


class Story:
    """A cluster on virtual time: what happens, and the lanes of it."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.cluster = FilledCluster(clock=self.clock)
        self.cluster.put(node("a"), node("b"), storage_class(), driver(rebuilding=True), capacity("fast", "a", "100Gi"))

    def at(self, seconds: float, *objects) -> None:
        self.to(seconds)
        self.cluster.put(*objects)

    def to(self, seconds: float) -> None:
        """Let it be so many seconds after the start."""
        self.clock.advance((START + timedelta(seconds=seconds) - self.clock.now()).total_seconds())

    def pod(self, **options):
        return pod_with("db-0", "data", metadata={"creationTimestamp": stamp(0)}, **options)

    def hear(self, *events: Event) -> None:
        self.cluster.model.tick(self.clock.now())
        for each in events:
            self.cluster.model.heard(each)
        self.cluster.settle()

    def remember(self, memory: SchedulerMemory | None) -> None:
        self.cluster.model.tick(self.clock.now())
        self.cluster.model.remember(memory)
        self.cluster.settle()

    def lane(self, uid: str = "default-db-0"):
        return self.cluster.collections.of(LaneRow)[uid]

    def told(self) -> list[tuple[float, str]]:
        return [(round((step.at - START).total_seconds(), 1), step.kind) for step in self.lane().steps]


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_pod_and_its_claim_from_creation_to_running(story: Story):
    story.at(0.3, claim("data", "20Gi"), story.pod())
    story.at(0.5, story.pod(status=refused("0/2 nodes are available")))
    story.at(2.1, claim("data", "20Gi", selected_node="a"))
    story.at(2.2, story.pod(status={"nominatedNodeName": "a"}))
    story.at(3.0, volume("pv", "20Gi", on="a", claim="default/data"))
    story.at(3.1, claim("data", "20Gi", selected_node="a", volume="pv"))
    story.at(3.2, story.pod(on="a"))
    story.at(3.5, attachment("att", "pv", "a", attached=False))
    story.at(4.0, attachment("att", "pv", "a"))
    assert not story.lane().done
    story.at(5.0, story.pod(on="a", status={"phase": "Running"}))
    assert story.told() == [
        (0.3, "created"),
        (0.5, "refused"),
        (2.1, "provisioning"),
        (2.2, "nominated"),
        (3.0, "provisioned"),
        (3.2, "bound"),
        (3.5, "attaching"),
        (4.0, "attached"),
        (5.0, "started"),
    ]
    assert story.lane().done
    assert [step.text for step in story.lane().steps][1:5:2] == ["0/2 nodes are available", "nominated for a"]


def test_a_volume_that_is_rebuilt_is_told_in_the_lane_of_its_pod(story: Story):
    story.at(0, node("a", unschedulable=True), volume("pv", on="a", claim="default/data"), claim("data", volume="pv"))
    story.at(10, story.pod())
    story.at(11, volume("pv", claim="default/data"))
    moved = claim("data", volume="pv", selected_node="b", metadata={"annotations": {REBUILD_TARGET: "b"}})
    story.at(12, moved)
    story.at(13, attachment("att", "pv", "b", error="no pool has room"))
    story.at(14, attachment("att", "pv", "b"))
    story.at(15, volume("pv", on="b", claim="default/data"))
    kinds = [step.kind for step in story.lane().steps]
    assert kinds[-6:] == ["event", "rebuilding", "attaching", "attach-failed", "attached", "rebuilt"]
    texts = [step.text for step in story.lane().steps]
    assert "b refuses volume pv: no pool has room" in texts
    assert "volume pv has arrived on b" in texts


def test_a_rebuild_says_where_the_volume_comes_from(story: Story):
    objects = [node("a", unschedulable=True), volume("pv", claim="default/data"), attachment("att", "pv", "a")]
    story.at(0, *objects, claim("data", volume="pv", selected_node="a"))
    story.at(1, story.pod())
    story.at(2, claim("data", volume="pv", selected_node="b", metadata={"annotations": {REBUILD_TARGET: "b"}}))
    assert story.lane().steps[-1].text == "its volume pv is being rebuilt from a on b"


def test_what_the_scheduler_remembers_is_told_with_the_pod_it_is_for(story: Story):
    story.at(0.2, claim("data", "20Gi"), story.pod())
    held = RememberedCapacity(
        Reservation.LEDGER, "kube-system/fast-a", "u", "default/db-0", ["default/data"], 20 << 30, START, "waits"
    )
    story.to(0.7)
    story.remember(SchedulerMemory(held=[held], pods=[AssumedPod("default/db-0", "default-db-0", "a")]))
    story.to(4)
    story.remember(SchedulerMemory())
    assert story.told() == [(0.2, "created"), (0.7, "decided"), (0.7, "reserved"), (4.0, "released")]
    assert story.lane().steps[2].text == "20Gi of fast on a is kept back: waits"


def test_a_promise_that_every_object_of_a_group_tells_is_one_step_of_the_claims_class(story: Story):
    story.at(
        0, storage_class("fast", group="disks"), storage_class("slow", group="disks"), capacity("slow", "a", "1Ti")
    )
    story.at(0.2, claim("data", "20Gi", class_name="slow"), story.pod())
    held = [
        RememberedCapacity(
            Reservation.LEDGER, f"kube-system/{name}-a", "u", "default/db-0", ["default/data"], 20 << 30, START, "w"
        )
        for name in ("fast", "slow")
    ]
    story.remember(SchedulerMemory(held=held))
    story.to(4)
    story.remember(SchedulerMemory())
    assert [each.text for each in story.lane().steps[1:]] == [
        "20Gi of slow on a is kept back: w",
        "20Gi of slow on a is no longer kept back",
    ]


def test_nothing_happens_to_a_pod_before_it_is_created(story: Story):
    story.at(0.8, claim("data"), story.pod())
    early = to_doc(event("e1", "FailedScheduling", "no room", seconds=0))
    story.hear(convert(Event, {**early, "eventTime": stamp(0).replace("Z", ".300000Z")}))
    assert [kind for _, kind in story.told()] == ["created", "refused"]


def test_a_decision_that_is_heard_of_late_stands_before_what_follows_from_it(story: Story):
    story.at(0.2, claim("data"), story.pod())
    story.at(0.4, claim("data", selected_node="a"))
    story.to(0.9)
    story.remember(SchedulerMemory(pods=[AssumedPod("default/db-0", "default-db-0", "a")]))
    assert story.told() == [(0.2, "created"), (0.4, "decided"), (0.4, "provisioning")]


def promise(name: str, seconds: float = 0) -> RememberedCapacity:
    since = START + timedelta(seconds=seconds)
    return RememberedCapacity(
        Reservation.LEDGER, f"kube-system/{name}", "u", "default/db-0", ["default/data"], 20 << 30, since, "waits"
    )


def test_a_scheduler_that_cannot_be_asked_for_a_while_has_let_nothing_go(story: Story):
    story.at(0.2, claim("data", "20Gi"), story.pod())
    known = SchedulerMemory(held=[promise("fast-a")], pods=[AssumedPod("default/db-0", "default-db-0", "a")])
    for second, memory in enumerate((known, None, None, known), start=1):
        story.to(second)
        story.remember(memory)
        kept = story.cluster.collections.of(CapacityRow)["kube-system/fast-a"].reserved
        assert len(kept) == (0 if memory is None else 1)
    assert [kind for _, kind in story.told()] == ["created", "decided", "reserved"]
    story.remember(None)
    story.to(9)
    story.remember(SchedulerMemory())
    assert story.told()[-1] == (9.0, "released")


def test_times_of_a_lane_never_go_back_though_some_are_told_in_whole_seconds(story: Story):
    story.at(0.2, claim("data"), story.pod())
    story.at(0.98, claim("data", selected_node="a"))
    story.to(1.6)  # promised in the first second, and heard of in the next
    story.remember(SchedulerMemory(held=[promise("fast-a")], pods=[AssumedPod("default/db-0", "default-db-0", "a")]))
    story.to(2.7)
    story.hear(event("e1", "BackOff", "Back-off pulling image", seconds=2))
    kinds = [step.kind for step in story.lane().steps]
    assert kinds == ["created", "decided", "reserved", "provisioning", "event"]
    times = [step.at for step in story.lane().steps]
    assert times == sorted(times)


def test_a_refusal_that_is_told_late_does_not_keep_the_lane_of_a_running_pod_open(story: Story):
    story.at(0.2, story.pod(on="a"), claim("data", volume="pv"), volume("pv", on="a", claim="default/data"))
    story.at(1, attachment("att", "pv", "a", attached=False))
    story.at(2, attachment("att", "pv", "a"))
    story.at(3, story.pod(on="a", status={"phase": "Running"}))
    story.hear(event("e1", "FailedAttachVolume", "waits for its detachment", seconds=20))
    assert story.told()[-1] == (20.0, "attach-failed")
    assert story.lane().done


@pytest.mark.parametrize(("action", "kind"), [("Scheduling", "event"), ("Binding", "rebuilding")])
def test_a_volume_that_finds_no_node_is_not_being_rebuilt(story: Story, action: str, kind: str):
    """The scheduler says so with its decision to place the pod anew; the pod was refused."""
    story.at(0.2, story.pod(), claim("data"))
    story.at(0.5, story.pod(status=refused("0/2 nodes are available")))
    told = event("e1", "CapacityAwareRescheduling", "", seconds=1, about="PersistentVolumeClaim", of="data")
    story.hear(convert(Event, {**to_doc(told), "action": action}))
    assert story.lane().steps[-1].kind == kind
    assert story.lane().steps[story.lane().headline].kind == ("refused" if kind == "event" else "rebuilding")


def test_an_event_happened_when_it_says_not_when_it_was_written_down(story: Story):
    story.at(0.2, story.pod())
    told = event("e1", "BackOff", "Back-off pulling image", seconds=5)
    late = convert(
        Event,
        {
            **to_doc(told),
            "lastTimestamp": None,
            "eventTime": "2026-01-01T12:00:05.250000Z",
            "metadata": {"name": "e1", "namespace": "default", "uid": "e1", "creationTimestamp": stamp(9)},
        },
    )
    story.hear(late)
    assert story.told()[-1] == (5.2, "event")


def test_a_volume_that_was_made_for_the_pod_before_is_no_step_of_this_one(story: Story):
    before = volume("pv", on="a", claim="default/data", metadata={"creationTimestamp": stamp(0)})
    story.at(0.5, before, claim("data", volume="pv"))
    story.at(1.5, pod_with("db-0", "data", metadata={"creationTimestamp": stamp(1)}))
    assert [kind for _, kind in story.told()] == ["created"]


def test_an_event_says_what_objects_do_not(story: Story):
    story.at(0.2, claim("data"), story.pod())
    story.at(1, claim("data", selected_node="a"))
    story.hear(
        event(
            "e1",
            "Provisioning",
            "External provisioner is provisioning",
            seconds=1,
            about="PersistentVolumeClaim",
            of="data",
        ),
        event("e2", "ProvisioningFailed", "no space", seconds=1, about="PersistentVolumeClaim", of="data"),
        event("e3", "BackOff", "Back-off pulling image", seconds=1),
        event("e3", "BackOff", "Back-off pulling image", seconds=1),
        event("e4", "Pulled", "Container image", seconds=1),
    )
    assert sorted(kind for _, kind in story.told()) == ["created", "event", "provision-failed", "provisioning"]
    assert story.cluster.collections.of(VolumeRow)["default/data"].error == "no space"


def test_an_event_that_comes_before_its_pod_is_kept_for_it(story: Story):
    story.hear(event("e1", "BackOff", "Back-off pulling image", seconds=0))
    story.at(0.4, story.pod())
    assert [kind for _, kind in story.told()] == ["created", "event"]  # both in one second: first there is a pod


def test_the_same_refusal_again_is_told_once_and_another_one_besides(story: Story):
    story.at(0, story.pod())
    for second, message in enumerate(["full", "full", "fuller", "full"]):
        story.at(second, story.pod(status=refused(message)))
        story.hear(event(f"e{second}", "FailedScheduling", message, seconds=second))
    assert [step.text for step in story.lane().steps if step.kind == "refused"] == ["full", "fuller", "full"]


def test_a_pod_that_goes_is_told_to_its_end_and_its_successor_has_a_lane_of_its_own(story: Story):
    story.at(0.5, story.pod(on="a", status={"phase": "Running"}))
    going = pod_with(
        "db-0",
        "data",
        on="a",
        metadata={
            "creationTimestamp": stamp(0),
            "deletionTimestamp": stamp(40),
            "deletionGracePeriodSeconds": 30,
        },
        status={"phase": "Running"},
    )
    story.at(20, going)
    assert story.told()[-1] == (10.0, "terminating")  # it must be gone at 40, 30 s after it was asked for
    assert not story.lane().done
    story.at(21, pod_with("db-0", "data", metadata={"uid": "another", "creationTimestamp": stamp(21)}))
    assert story.told()[-1] == (21.0, "deleted") and story.lane().done
    assert [step.kind for step in story.lane("another").steps] == ["created"]


def test_pods_that_have_long_been_running_get_a_lane_when_something_happens(story: Story):
    running = {"on": "a", "status": {"phase": "Running", "startTime": stamp(0)}}
    before = volume("pv", on="a", claim="default/data", metadata={"creationTimestamp": stamp(-10)})
    story.at(500, story.pod(**running), claim("data", volume="pv"), before)
    assert not story.cluster.collections.of(LaneRow)
    story.at(600, attachment("att", "pv", "a", error="the path is down"))
    assert [kind for _, kind in story.told()] == ["created", "bound", "started", "attaching", "attach-failed"]


def test_a_failed_pod_says_why(story: Story):
    story.at(0, story.pod(on="a"))
    failed = {"phase": "Failed", "reason": "VolumeAttachmentLimitExceeded", "message": "no slot left"}
    story.at(2, story.pod(on="a", status=failed))
    assert story.lane().steps[-1].text == "failed: VolumeAttachmentLimitExceeded: no slot left"
    assert story.lane().done


def test_a_lane_keeps_its_beginning_and_what_is_newest(story: Story):
    story.at(0, story.pod())
    for number in range(100):
        story.at(number, story.pod(status=refused(f"refusal {number}")))
    steps = story.lane().steps
    assert len(steps) == MOST_STEPS
    assert (steps[0].kind, steps[-1].text) == ("created", "refusal 99")


def test_of_too_many_lanes_those_that_are_done_go_first(story: Story):
    waits = pod_with("waits", "data", metadata={"creationTimestamp": stamp(0)})
    story.at(0, waits)
    for number in range(MOST_LANES + 20):
        made = {"metadata": {"creationTimestamp": stamp(number)}}
        story.at(number, pod_with(f"p{number}", on="a", status={"phase": "Running"}, **made))
    lanes = story.cluster.collections.of(LaneRow)
    assert len(lanes) == MOST_LANES
    assert "default-waits" in lanes and "default-p0" not in lanes and f"default-p{MOST_LANES + 19}" in lanes


@pytest.mark.parametrize(
    ("kinds", "headline"),
    [
        ("", -1),
        ("created", 0),
        ("created refused", 1),
        ("created decided reserved nominated", 1),
        ("created decided bound started released", 3),
        ("created bound started attached detached", 2),  # a pod that runs has started, whatever is told late
        ("created refused decided bound started released terminating", 6),
        ("created bound started rebuilding", 3),
        ("created bound attach-failed event", 2),
        ("created bound started terminating detached deleted released", 5),
        ("reserved released", -1),
    ],
)
def test_the_headline_is_what_happened_to_the_pod_not_bookkeeping(kinds: str, headline: int):
    steps = [PodStep(at=START, kind=kind, text=kind) for kind in kinds.split()]
    assert headline_of(steps) == headline
