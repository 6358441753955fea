"""`explain` agrees with a live scheduler: what only that one knows is asked of it and laid into the engine."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from support.configurations import storage_configuration
from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import INCLUDED_CLAIMS
from tonnage.scheduler.debug_pages import DebugPages
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.attempt import EngineSettings
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.queue.waiting_pods import uid_of
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume
from tonnage.whatif.explain import explain_pod, remark_on
from tonnage.whatif.scheduler_memory import NominatedPod, SchedulerMemory, memory_from
from tonnage.whatif.simulate.played_cluster import PlayedCluster
from tonnage.whatif.sources import ClusterState


class Live:
    """A scheduler on objects as the API has them: decisions are assumed and never written."""

    def __init__(self, *objects: Object, mode: str) -> None:
        self.objects = [driver(), storage_class(), *objects]
        self.clock = VirtualClock()
        self.profile = parse(storage_configuration(reservation=mode), source="config.yaml").profiles[0]
        settings = EngineSettings(takes_any_pod=True, implies_namespaces=True)
        self.engine = Engine([self.profile], clock=self.clock, rng=random.Random(0), settings=settings)
        self.engine.load(self.objects)

    def decide(self) -> str:
        queued = self.engine.pop()
        assert queued is not None
        attempt = self.engine.attempt(queued)
        assert attempt.placement is not None
        return attempt.placement.node

    def pages(self) -> tuple[Any, Any, Any]:
        """/debug/reservations, /debug/assumed and /debug/nominations, as they come over the wire."""
        held, assumed = DebugPages(self.engine).reservations(), DebugPages(self.engine).assumed()
        told: tuple[Any, Any, Any] = json.loads(json.dumps([held, assumed, DebugPages(self.engine).nominations()]))
        return told

    @property
    def memory(self) -> SchedulerMemory:
        return memory_from("http://x", *self.pages())

    def explained(self, asked: Pod, *, memory: SchedulerMemory | None = None) -> dict[str, Any]:
        return explain_pod(asked, self.objects, self.profile, clock=self.clock, memory=memory).document()


def with_volumes(mode: str, *more: Object) -> tuple[Live, Pod]:
    first, second = pod_with("first", "one", priority=1), pod_with("second", "two")
    room = [capacity(node="a", free="100Gi"), node("a", cpu="4")]
    return Live(first, second, claim("one", "60Gi"), claim("two", "60Gi"), *room, *more, mode=mode), second


@pytest.mark.parametrize("mode", ["Object", "Ledger"])
def test_capacity_that_the_scheduler_keeps_back_counts(mode):
    live, second = with_volumes(mode)
    assert live.decide() == "a"
    alone = live.explained(second)
    agreed = live.explained(second, memory=live.memory)
    assert alone["node"] == "a"
    assert agreed["node"] is None
    assert "default/first" in agreed["volumes"]["a"][0]["miss"]
    assert agreed == live.engine.explain(second).document()


@pytest.mark.parametrize("mode", ["Object", "Ledger"])
def test_without_anything_kept_back_the_answer_is_the_same(mode):
    live, second = with_volumes(mode)
    assert live.explained(second) == live.explained(second, memory=live.memory)


@pytest.mark.parametrize("mode", ["Object", "Ledger"])
def test_the_pod_that_holds_the_room_is_decided_as_if_it_were_new(mode):
    live, _ = with_volumes(mode)
    assert live.decide() == "a"
    first = next(each for each in live.objects if each.key == "default/first")
    assert isinstance(first, Pod)
    assert live.explained(first, memory=live.memory)["node"] == "a"
    assert remark_on(first, live.memory) == "default/first is on its way to a; this is decided as if it were not"


def test_a_pod_on_its_way_takes_up_its_node():
    live = Live(node("a", cpu="2"), pod("big", cpu="2", priority=1), asked := pod("next", cpu="1"), mode="Ledger")
    assert live.decide() == "a"
    assert live.explained(asked)["node"] == "a"
    assert live.explained(asked, memory=live.memory) == live.engine.explain(asked).document()
    assert live.explained(asked, memory=live.memory)["node"] is None


def test_a_nomination_that_the_scheduler_holds_nothing_for_is_not_in_the_way():
    expected = pod("expected", cpu="2", status={"nominatedNodeName": "a"})
    live = Live(node("a", cpu="2"), expected, asked := pod("next", cpu="1"), mode="Ledger")
    assert live.explained(asked, memory=live.memory)["node"] is None
    live.engine.queue.nominator.let_go(expected)
    assert live.explained(asked)["node"] is None
    agreed = live.explained(asked, memory=live.memory)
    assert agreed["node"] == "a"
    assert agreed == live.engine.explain(asked).document()


def test_a_nomination_that_is_not_in_the_api_yet_is():
    live = Live(node("a", cpu="2"), expected := pod("expected", cpu="2"), asked := pod("next", cpu="1"), mode="Ledger")
    live.engine.queue.nominator.expect(expected, "a")
    agreed = live.explained(asked, memory=live.memory)
    assert agreed["node"] is None
    assert agreed == live.engine.explain(asked).document()
    held, assumed, _ = live.pages()
    without = memory_from("http://x", held, assumed, None)  # a scheduler that has no such page
    assert live.explained(asked, memory=without)["node"] == "a"


def test_a_node_that_failed_the_pod_is_passed_over_here_too():
    live = Live(node("a", cpu="8"), node("b", cpu="1"), asked := pod("next", cpu="1"), mode="Ledger")
    assert live.explained(asked)["node"] == "a"
    live.engine.queue.nominator.failed_nodes.failed(uid_of(asked), "a", "no room after all")
    (told,) = live.pages()[1]["failedNodes"]
    assert set(told) == {"uid", "node", "times", "why", "until"}
    agreed = live.explained(asked, memory=live.memory)
    assert agreed["node"] == "b"
    assert agreed == live.engine.explain(asked).document()


def test_a_volume_on_its_way_to_a_claim_is_taken():
    free = volume("free", "60Gi")
    live, second = with_volumes("Ledger", free)
    assert live.decide() == "a"
    assert live.memory.volumes[0].claim == "default/one"
    agreed = live.explained(second, memory=live.memory)
    assert agreed == live.engine.explain(second).document()
    assert agreed["volumes"]["a"][0]["kind"] == "dynamic"


def test_what_the_api_shows_by_now_stands():
    live, second = with_volumes("Ledger")
    assert live.decide() == "a"
    memory = live.memory
    bound = [
        msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, node_name="a"))
        if isinstance(each, Pod) and each.name == "first"
        else each
        for each in live.objects
    ]
    answer = explain_pod(second, bound, live.profile, clock=live.clock, memory=memory)
    assert not answer.node


@pytest.mark.parametrize("mode", ["Object", "Ledger"])
def test_what_is_held_until_a_refresh_counts_when_the_volume_is_long_made(mode):
    live, second = with_volumes(mode)
    assert live.decide() == "a"
    bound = claim("one", "60Gi", volume="made", selected_node="a", metadata={"resourceVersion": "9"})
    made = volume("made", "60Gi", on="a", claim="default/one", metadata={"creationTimestamp": "2000-01-01T00:00:00Z"})
    live.engine.add(made)
    live.engine.update(next(each for each in live.objects if each.key == bound.key), bound)
    live.objects = [made, *(bound if each.key == bound.key else each for each in live.objects)]
    live.clock.advance(59.0)  # in the API the volume looks as if its object had to show it by now
    agreed = live.explained(second, memory=live.memory)
    assert agreed["node"] is None
    assert agreed == live.engine.explain(second).document()


def test_a_promise_that_the_scheduler_has_ended_does_not_count():
    """The claim still has its selected-node here, but the scheduler has seen the object that includes it."""
    sent = claim("one", "60Gi", selected_node="a")
    asked = pod_with("second", "two")
    live = Live(node("a"), capacity(node="a", free="100Gi"), sent, claim("two", "60Gi"), asked, mode="Ledger")
    assert live.explained(asked)["node"] is None
    assert live.explained(asked, memory=SchedulerMemory())["node"] == "a"


def test_a_scheduler_that_is_configured_otherwise_is_noted():
    live, second = with_volumes("Object")
    assert live.decide() == "a"
    ledger = parse(storage_configuration(reservation="Ledger"), source="config.yaml").profiles[0]
    notes: list[str] = []
    explain_pod(second, live.objects, ledger, clock=live.clock, memory=live.memory, note=notes.append)
    assert notes == [
        "the scheduler keeps capacity back in mode Object, and this configuration does not; give its --config"
    ]


def test_the_pages_have_the_shape_that_is_documented():
    free = volume("free", "60Gi")
    live, _ = with_volumes("Object", free)
    assert (live.decide(), live.decide()) == ("a", "a")
    held, assumed, _ = live.pages()
    (only,) = held
    assert set(only) == {"mode", "capacity", "uid", "pod", "claims", "bytes", "since", "why"}
    assert (only["mode"], only["pod"], only["claims"]) == ("Object", "default/second", ["default/two"])
    assert [(each["pod"], each["node"], set(each)) for each in assumed["pods"]] == [
        ("default/first", "a", {"pod", "uid", "node"}),
        ("default/second", "a", {"pod", "uid", "node"}),
    ]
    assert assumed["claims"] == [
        {
            "claim": "default/two",
            "uid": assumed["claims"][0]["uid"],
            "annotations": {"volume.kubernetes.io/selected-node": "a"},
        }
    ]
    (bound,) = assumed["volumes"]
    assert (bound["volume"], bound["claim"], set(bound)) == (
        "free",
        "default/one",
        {"volume", "uid", "claim", "claimUid"},
    )


def test_of_equals_that_were_nominated_in_the_same_second_the_schedulers_order_counts():
    live = Live(node("a", cpu="1"), first := pod("z-first", cpu="1"), second := pod("a-second", cpu="1"), mode="Ledger")
    live.engine.queue.nominator.expect(first, "a")
    live.engine.queue.nominator.expect(second, "a")
    assert [live.explained(each, memory=live.memory)["node"] for each in (first, second)] == ["a", None]


@pytest.mark.parametrize("mode", ["Object", "Ledger"])
def test_a_world_goes_on_from_what_the_scheduler_knows(mode):
    """The first pod is on its way to a; whatever comes there, it is the first that runs, and the second waits."""
    live, second = with_volumes(mode, node("b", cpu="4"), capacity(node="b", free="60Gi"))
    sent_to = live.decide()
    state = ClusterState(live.objects, "the test", live.clock, memory=live.memory)
    world = PlayedCluster(state, [live.profile]).world
    assert {each.name: each.spec.node_name for each in world.pods()} == {
        "first": sent_to,
        second.name: "a" if sent_to == "b" else "b",
    }


def test_in_a_world_a_nomination_that_was_let_go_holds_nothing():
    """Without the memory, the nominated pod of a higher priority keeps the processor that it cannot use."""
    large = pod("large", cpu="3", priority=5, status={"nominatedNodeName": "a"}, node_selector={"no": "where"})
    small = pod("small", cpu="2")
    live = Live(large, small, node("a", cpu="4"), mode="Ledger")
    since = live.clock.now()
    let_go = SchedulerMemory(nominations=[NominatedPod("a", large.key, large.uid, False, since)])
    state = ClusterState(live.objects, "the test", live.clock, memory=let_go)
    world = PlayedCluster(state, [live.profile]).world
    assert {each.name: each.spec.node_name for each in world.pods()} == {"large": "", "small": "a"}


def test_in_a_world_a_volume_that_the_figures_show_and_its_claim_does_not_is_not_made_twice():
    """In the middle of a burst: of 100Gi 60 are taken, the figures name the claim, and it is not bound yet."""
    first = claim("one", "60Gi", selected_node="a")
    told = capacity(node="a", pools=["40Gi"], metadata={"annotations": {INCLUDED_CLAIMS: first.uid}})
    state = ClusterState(
        [driver(), storage_class(), node("a", cpu="4"), told, first, pod_with("first", "one")],
        "the test",
        VirtualClock(),
    )
    world = PlayedCluster(state, [parse(storage_configuration(), source="config.yaml").profiles[0]]).world
    assert [each.status.phase for each in world.pods()] == ["Running"]
    assert [disk.pools for disk in world.storage.disks] == [[40 << 30]]


def test_what_the_figures_show_by_now_is_not_kept_back_any_more():
    """The scheduler is asked first: when the objects are listed, the volume may have been made and published."""
    live, second = with_volumes("Ledger")
    live.decide()
    memory = live.memory
    first = next(each for each in live.objects if each.key == "default/one")
    told = capacity(node="a", pools=["60Gi"], metadata={"annotations": {INCLUDED_CLAIMS: first.uid}})
    live.objects = [told if each.key == told.key else each for each in live.objects]
    assert live.explained(second, memory=memory)["node"] == "a"


def test_what_the_figures_of_another_class_show_is_still_kept_back():
    live, second = with_volumes("Ledger", storage_class("slow"), capacity("slow", node="a", free="100Gi"))
    live.decide()
    memory = live.memory
    first = next(each for each in live.objects if each.key == "default/one")
    told = capacity("slow", node="a", pools=["60Gi"], metadata={"annotations": {INCLUDED_CLAIMS: first.uid}})
    live.objects = [told if each.key == told.key else each for each in live.objects]
    assert live.explained(second, memory=memory)["node"] is None
