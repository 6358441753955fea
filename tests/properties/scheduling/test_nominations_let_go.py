"""Nobody waits for ever for room that nobody else is entitled to (KEP-5278, on virtual time).

Random small clusters, with pods nominated to nodes that take them, do not, or do not exist; some gated, some residents
on their way out. The engine is driven as the live loop drives it, until nothing has moved for six minutes (longer than
the flush of the unschedulable pool). Then sums done by hand say for every pod that still waits: no node has the room,
but for what gated pods of its priority or higher, which may run there, hold there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import Node, Pod
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.queue.queues import QueueName
from tonnage.scheduling.queue.waiting_pods import uid_of
from tonnage.testing.builders import node, pod

GATED: dict[str, Any] = {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}], "preemptionPolicy": "Never"}
FREE: dict[str, Any] = {"preemptionPolicy": "Never"}
ZONES = ("", "1", "2")


@dataclass(repr=False)
class NominatedEngine:
    """A cluster, its waiting pods, and who was bound where."""

    engine: Engine
    clock: VirtualClock
    nodes: list[Node]
    pods: dict[str, Pod]
    cpu_of: dict[str, int]
    bound: dict[str, str] = field(default_factory=dict)
    unlucky: random.Random = field(default_factory=lambda: random.Random(0))

    def __repr__(self) -> str:
        told = [f"{each.name}={each.status.allocatable['cpu']}/{each.metadata.labels['zone']}" for each in self.nodes]
        for uid, each in self.pods.items():
            gated = " gated" if each.spec.scheduling_gates else ""
            zone = each.spec.node_selector.get("zone", "")
            told.append(
                f"{each.name}({self.cpu_of[uid]} p{each.spec.priority} zone={zone} ->{each.status.nominated_node_name}"
                f"{gated} on={each.spec.node_name})"
            )
        return " ".join(told)

    def run(self, seconds: int, *, every: int = 1, fails: float = 0.0) -> None:
        for _ in range(0, seconds, every):
            while (queued := self.engine.pop()) is not None:
                attempt = self.engine.attempt(queued)
                if attempt.placement is None:
                    diagnosis = attempt.decision.diagnosis if attempt.decision is not None else None
                    plugins = diagnosis.rejecting_plugins() if diagnosis is not None else ()
                    self.engine.requeue(queued, self.pods[queued.uid], plugins=plugins)
                elif self.unlucky.random() < fails:
                    self.engine.done(queued.pod)
                    self.engine.withdraw(attempt.placement)
                    self.engine.failed_on(queued, attempt.placement.node, "bad luck")
                    self.engine.requeue(queued, self.pods[queued.uid])
                else:
                    self.bind(queued.uid, attempt.placement.node)
                if self.engine.queue.pending_pods()[QueueName.ACTIVE] == 0:  # those that back off wait their time
                    break
            self.clock.advance(float(every))
            self.engine.tick(self.clock.monotonic())

    def bind(self, uid: str, on: str) -> None:
        old, cpu = self.pods[uid], self.cpu_of[uid]
        new = pod(old.name, cpu=str(cpu), priority=old.spec.priority, on=on)
        self.engine.done(old)
        self.engine.update(old, new)
        self.pods[uid], self.bound[uid] = new, on

    def used(self, on: str) -> int:
        return sum(self.cpu_of[uid] for uid, at in self.bound.items() if at == on)


@st.composite
def worlds(draw: st.DrawFn) -> NominatedEngine:
    clock = VirtualClock()
    engine = Engine(default_configuration().profiles, clock=clock, rng=random.Random(draw(st.integers(0, 99))))
    count = draw(st.integers(1, 3))
    nodes = [
        node(f"n{i}", cpu=str(draw(st.integers(3, 6))), labels={"zone": draw(st.sampled_from("12"))})
        for i in range(count)
    ]
    world = NominatedEngine(engine, clock, nodes, {}, {})
    made: list[Any] = list(nodes)
    for i in range(draw(st.integers(0, 3))):
        resident = pod(f"resident-{i}", cpu="1", on=f"n{draw(st.integers(0, count - 1))}")
        world.pods[uid_of(resident)], world.cpu_of[uid_of(resident)] = resident, 1
        world.bound[uid_of(resident)] = resident.spec.node_name
        made.append(resident)
    for i in range(draw(st.integers(1, 8))):
        cpu, zone = draw(st.integers(1, 5)), draw(st.sampled_from(ZONES))
        nominated_to = draw(st.sampled_from(("", *(f"n{at}" for at in range(count + 1)))))
        waiting = pod(
            f"p{i}",
            cpu=str(cpu),
            priority=draw(st.integers(0, 1)),
            node_selector={"zone": zone} if zone else None,
            spec=draw(st.sampled_from((FREE, FREE, FREE, GATED))),
            status={"nominatedNodeName": nominated_to} if nominated_to else None,
        )
        world.pods[uid_of(waiting)], world.cpu_of[uid_of(waiting)] = waiting, cpu
        made.append(waiting)
    engine.load(made)
    return world


def free_for(world: NominatedEngine, waiting: Pod, on: Node) -> int:
    """The CPUs of a node less those of pods there, and of gated pods that are nominated to it and go first."""
    whole = on.status.allocatable["cpu"].value()
    entitled = sum(
        world.cpu_of[uid]
        for uid, each in world.pods.items()
        if not each.spec.node_name
        and each.spec.scheduling_gates
        and each.status.nominated_node_name == on.name
        and each.spec.priority >= waiting.spec.priority
        and each.spec.node_selector.get("zone", "") in ("", on.metadata.labels["zone"])  # it may run there
        and world.cpu_of[uid] <= whole  # one that is larger than the node is not held for
    )
    return whole - world.used(on.name) - entitled


def fits_by_hand(world: NominatedEngine, waiting: Pod) -> list[str]:
    wanted = waiting.spec.node_selector.get("zone", "")
    return [
        each.name
        for each in world.nodes
        if wanted in ("", each.metadata.labels["zone"])
        and world.cpu_of[uid_of(waiting)] <= free_for(world, waiting, each)
    ]


def check(world: NominatedEngine) -> None:
    for each in world.nodes:
        assert world.used(each.name) <= each.status.allocatable["cpu"].value()
    for waiting in world.pods.values():
        if not waiting.spec.node_name and not waiting.spec.scheduling_gates:
            assert fits_by_hand(world, waiting) == [], f"{waiting.name} waits, and nobody else is entitled to the room"


@given(worlds(), st.floats(0.0, 0.6))
@settings(max_examples=tries(60), deadline=None)
def test_no_pod_waits_for_ever_while_a_node_fits_it_and_nobody_else_is_entitled_to_the_room(world, fails):
    world.run(40, fails=fails)
    world.run(480, every=10)
    check(world)


@given(worlds(), st.data())
@settings(max_examples=tries(60), deadline=None)
def test_nor_when_gates_open_residents_leave_nodes_come_and_nominations_change(world, data):
    """Half a minute is enough, long before the unschedulable pool is flushed: every backoff is over by then."""
    world.run(30)
    for _ in range(data.draw(st.integers(1, 4))):
        world.run(data.draw(st.integers(0, 20)))
        if data.draw(st.integers(0, 4)) == 0:
            name = f"n{len(world.nodes)}"
            labels = {"zone": data.draw(st.sampled_from("12"))}
            world.nodes.append(node(name, cpu=str(data.draw(st.integers(1, 6))), labels=labels))
            world.engine.add(world.nodes[-1])
            continue
        uid = data.draw(st.sampled_from(sorted(world.pods)))
        old = world.pods[uid]
        if old.spec.node_name:
            del world.pods[uid], world.bound[uid]
            world.engine.delete(old)
        else:
            nominated_to = data.draw(st.sampled_from(("", *(f"n{at}" for at in range(len(world.nodes) + 1)))))
            new = pod(
                old.name,
                cpu=str(world.cpu_of[uid]),
                priority=old.spec.priority,
                node_selector=dict(old.spec.node_selector),
                spec=GATED if old.spec.scheduling_gates and data.draw(st.booleans()) else FREE,
                status={"nominatedNodeName": nominated_to} if nominated_to else None,
            )
            world.pods[uid] = new
            world.engine.update(old, new)
        if not world.pods:
            break
    world.run(30)
    check(world)
