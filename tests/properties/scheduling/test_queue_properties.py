"""The scheduling queue as a state machine, against a model that keeps one flat record a pod.

The model has no heaps, no index and no shared event list: a pod's record says where it is, the next pod to pop is found
by sorting all of them, an event asks every pod, and a pod in flight keeps a list of events of its own. After every step
each pod must be where the model has it: none lost, none twice, none out of order, and no event that came in flight
forgotten.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from examples_tried import tries
from support.scheduling_sight import in_flight, in_flight_events
from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    UNSCHEDULED_POD_UPDATE,
    ActionType,
    ClusterEvent,
    EventResource,
    Hint,
)
from tonnage.scheduling.framework import SUCCESS, PreEnqueuePlugin, Status, unresolvable
from tonnage.scheduling.queue.queues import QueueName
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue
from tonnage.scheduling.queue.waiting_pods import QueuedPod, QueueingRules
from tonnage.testing.builders import pod

NODE_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
CSI_NODE_ADD = ClusterEvent(EventResource.CSI_NODE, ActionType.ADD)  # nobody registers for it
OWN_LABEL = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.UPDATE_POD_LABEL)

NAMES = ["a", "b", "c", "d", "e", "f"]
NODES = ["", "n", "m"]
# What each plugin hears of, and whether it looks closer: then an event helps only the pods it names.
HEARS = {
    "Look": {NODE_LABEL: True, NODE_ADD: True},
    "Trust": {NODE_LABEL: False},
    "Room": {ASSIGNED_POD_DELETE: False, NODE_ADD: True},
    "Self": {OWN_LABEL: False},
    "Gate": {NODE_ADD: False},
    "Deaf": {},
}
PLUGINS = ["Look", "Trust", "Room", "Self", "Deaf"]

names = st.sampled_from(NAMES)
nodes = st.sampled_from(NODES)
refusers = st.frozensets(st.sampled_from(PLUGINS), min_size=1, max_size=3)


def look_closer(waiting: PodInfo, event: ClusterEvent, old: Any, new: Any) -> Hint:
    return Hint.QUEUE if waiting.pod.name in new else Hint.SKIP


def registered(mask: ClusterEvent) -> ClusterEvent:
    """What a plugin writes to hear of this: pods are registered as pods."""
    return ClusterEvent(EventResource.POD, mask.action) if mask.resource.endswith("Pod") else mask


class Gate(PreEnqueuePlugin):
    name = "Gate"

    def __init__(self) -> None:
        self.holds: set[str] = set()

    def pre_enqueue(self, pod: PodInfo) -> Status:
        return unresolvable("held") if pod.pod.name in self.holds else SUCCESS


@dataclass(eq=False)
class Record:
    """All there is to know of one pod. `where` is active, backoff, pool, flight, or binding (popped and done)."""

    pod: Pod
    queued_at: float
    order: int
    where: str = ""
    refused_by: frozenset[str] = frozenset()
    gated: bool = False
    refusals: int = 0
    errors: int = 0
    flushed_at: float = -math.inf
    gone: bool = False
    nominated: str = ""
    popped: QueuedPod | None = None
    meanwhile: list[tuple[ClusterEvent, Any]] = field(default_factory=list)

    @property
    def turn(self) -> tuple[float, ...]:
        return (-self.pod.spec.priority, self.queued_at, self.order)

    @property
    def backs_off_until(self) -> float:
        failures = self.errors or self.refusals
        return math.floor(self.queued_at + min(10, 2.0 ** (failures - 1))) if failures else -math.inf


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.gate = Gate()
        hints = {
            plugin: tuple((registered(mask), look_closer if looks else None) for mask, looks in heard.items())
            for plugin, heard in HEARS.items()
        }
        self.queue = SchedulingQueue(self.clock, {"default-scheduler": QueueingRules([self.gate], hints)})
        self.records: dict[str, Record] = {}
        self.orders = 0
        self.uids = 0

    # -- the model ----------------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self.clock.monotonic()

    def next_order(self) -> int:
        self.orders += 1
        return self.orders

    def at(self, *places: str) -> list[Record]:
        return [record for record in self.records.values() if record.where in places]

    def place(self, record: Record, *, backoff_counts: bool) -> None:
        """Towards being tried: past the gate, and after the backoff where that counts."""
        record.gated = record.pod.name in self.gate.holds
        if record.gated:
            record.where = "pool"
            record.refused_by |= {"Gate"}
        elif backoff_counts and record.backs_off_until >= math.floor(self.now()):
            record.where = "backoff"
        else:
            record.where = "active"

    def helps(self, record: Record, event: ClusterEvent, named: Any) -> str:
        """ "no" or "backoff"."""
        if event is FORCE_ACTIVATE:
            return "backoff"
        agreeing = {
            plugin
            for plugin in record.refused_by
            if event in HEARS[plugin] and (not HEARS[plugin][event] or record.pod.name in named)
        }
        return "backoff" if agreeing else "no"

    def happens(
        self, event: ClusterEvent, named: Any, at_most_priority: int | None = None, but_not: Record | None = None
    ) -> None:
        for record in self.records.values():
            if record is but_not:
                continue
            if at_most_priority is not None and record.pod.spec.priority > at_most_priority:
                continue
            if record.where == "flight":
                record.meanwhile.append((event, named))
            elif record.where == "pool" and not (record.gated and event not in HEARS["Gate"]):
                answer = self.helps(record, event, named)
                if answer != "no":
                    self.place(record, backoff_counts=answer == "backoff")

    def room_was_given_up(self, gone: Pod, but_not: Record | None = None) -> None:
        self.happens(ASSIGNED_POD_DELETE, (), gone.spec.priority, but_not)

    def activated(self, record: Record) -> None:
        if record.where == "pool":
            self.place(record, backoff_counts=False)
        elif record.where == "backoff":
            record.where = "active"
        elif record.where == "flight":
            record.meanwhile.append((FORCE_ACTIVATE, ()))

    # -- pods come, change and go -------------------------------------------------------------------------------------

    @initialize(priorities=st.lists(st.sampled_from([0, 0, 5]), min_size=len(NAMES), max_size=len(NAMES)))
    def begin(self, priorities: list[int]) -> None:
        for name, priority in zip(NAMES, priorities, strict=True):
            self.make(name, priority, "")

    @precondition(lambda self: len(self.records) < len(NAMES))
    @rule(data=st.data(), priority=st.sampled_from([0, 0, 5]), held=st.booleans(), node=nodes)
    def add(self, data: st.DataObject, priority: int, held: bool, node: str) -> None:
        name = data.draw(st.sampled_from([name for name in NAMES if name not in self.records]))
        if held:
            self.gate.holds.add(name)
        self.make(name, priority, node)

    def make(self, name: str, priority: int, node: str) -> None:
        self.uids += 1
        made = pod(name, priority=priority, metadata={"uid": f"uid-{self.uids}"}, status={"nominatedNodeName": node})
        record = self.records[name] = Record(made, self.now(), self.next_order(), nominated=node)
        self.place(record, backoff_counts=False)
        self.queue.add(made)

    @rule(name=names, relabel=st.booleans(), node=st.none() | nodes)
    def update(self, name: str, relabel: bool, node: str | None) -> None:
        record = self.records.get(name)
        if record is None or record.gone or record.where == "binding":
            return
        old = record.pod
        was = old.status.nominated_node_name
        self.uids += 1
        new = pod(
            name,
            priority=old.spec.priority,
            labels={"turn": str(self.uids)} if relabel else dict(old.metadata.labels),
            metadata={"uid": old.uid},
            status={"nominatedNodeName": was if node is None else node},
        )
        record.pod = new
        event = OWN_LABEL if relabel else UNSCHEDULED_POD_UPDATE
        told, is_news, before = new.status.nominated_node_name, False, record.nominated
        if told != was:
            is_news = told not in ("", record.nominated)
            record.nominated = told
        if record.where == "flight":
            record.meanwhile.append((event, ()))
        if before and before != record.nominated:
            self.room_was_given_up(old)
        if is_news:
            self.activated(record)
        if record.where == "pool":
            answer = self.helps(record, event, ())
            if answer != "no":
                self.place(record, backoff_counts=answer == "backoff")
        self.queue.update(old, new)

    @rule(name=names, bound_to=nodes)
    def delete(self, name: str, bound_to: str) -> None:
        record = self.records.get(name)
        if record is None or record.gone:
            return
        node = record.nominated or record.pod.status.nominated_node_name
        record.nominated, record.gone = "", True
        if record.where not in ("flight", "binding"):
            del self.records[name]
        if node and node != bound_to:
            self.room_was_given_up(record.pod)
        self.queue.delete(record.pod, bound_to=bound_to)

    @rule(name=names, node=st.none() | nodes)
    def nominate(self, name: str, node: str | None) -> None:
        record = self.records.get(name)
        if record is None:
            return
        if not record.gone and record.where != "binding":
            before = record.nominated
            record.nominated = record.pod.status.nominated_node_name if node is None else node
            if before and before != record.nominated:
                self.room_was_given_up(record.pod, but_not=record)
        self.queue.nominator.expect(record.pod, node)

    @rule(node=nodes, below=st.sampled_from([0, 5, 9]))
    def release(self, node: str, below: int) -> None:
        lesser = [
            each for each in self.records.values() if each.nominated == node != "" and each.pod.spec.priority < below
        ]
        tried = [each for each in lesser if not (each.where == "pool" and each.gated)]
        for record in tried:
            record.nominated = ""
            self.activated(record)
        for record in tried:
            self.room_was_given_up(record.pod, but_not=record)
        found = self.queue.nominator.release(node, below=below)
        assert sorted(each.pod.name for each in found) == sorted(record.pod.name for record in lesser)

    @rule(name=names)
    def the_gate_is_said_to_be_open(self, name: str) -> None:
        record = self.records.get(name)
        if record is None:
            return
        if record.where == "pool" and record.gated:
            self.place(record, backoff_counts=True)
        self.queue.gate_opened(record.pod, "Gate")

    @rule(name=names)
    def preemption_failed(self, name: str) -> None:
        record = self.records.get(name)
        if record is None:
            return
        if record.where == "pool":
            record.queued_at, record.errors = self.now(), record.errors + 1
            self.place(record, backoff_counts=True)
        self.queue.preemption_failed(record.pod)

    @rule(name=names)
    def open_or_close_the_gate(self, name: str) -> None:
        self.gate.holds ^= {name}

    # -- attempts -----------------------------------------------------------------------------------------------------

    @rule()
    def pop(self) -> None:
        popped = self.queue.pop_nowait()
        active = sorted(self.at("active"), key=lambda record: record.turn)
        early = sorted(
            (record for record in self.at("backoff") if not record.errors),
            key=lambda record: (record.backs_off_until, record.turn),
        )
        expected = next(iter(active + early), None)
        assert (popped and popped.pod) is (expected and expected.pod)
        if expected is not None:
            expected.where, expected.popped, expected.meanwhile = "flight", popped, []
            assert popped is not None and popped.left_behind.tried_on == expected.nominated

    @rule(refused_by=refusers)
    def pop_and_refuse(self, refused_by: frozenset[str]) -> None:
        before = self.at("flight")
        self.pop()
        for record in self.at("flight"):
            if record not in before:
                self.comes_back(record, refused_by)

    @precondition(lambda self: self.at("flight"))
    @rule(data=st.data(), refused_by=refusers)
    def refuse(self, data: st.DataObject, refused_by: frozenset[str]) -> None:
        self.comes_back(data.draw(st.sampled_from(self.at("flight"))), refused_by)

    @precondition(lambda self: self.at("flight"))
    @rule(data=st.data())
    def break_something(self, data: st.DataObject) -> None:
        self.comes_back(data.draw(st.sampled_from(self.at("flight"))), frozenset())

    def comes_back(self, record: Record, refused_by: frozenset[str]) -> None:
        assert record.popped is not None
        nominated_at_pop = record.popped.pod.status.nominated_node_name
        landed = self.queue.add_unschedulable_if_not_present(record.popped, unschedulable_plugins=refused_by)
        if record.gone:
            assert landed is None
            del self.records[record.pod.name]
            return
        if not record.nominated or record.pod.status.nominated_node_name != nominated_at_pop:
            record.nominated = record.pod.status.nominated_node_name
        self.failed(record, refused_by)
        answers = {self.helps(record, event, named) for event, named in record.meanwhile}
        if record.nominated not in ("", record.popped.left_behind.tried_on):
            answers.add("at once")
        if not record.refused_by or "at once" in answers or "backoff" in answers:
            self.place(record, backoff_counts="at once" not in answers)
        else:
            record.where = "pool"

    def failed(self, record: Record, refused_by: frozenset[str]) -> None:
        record.refused_by, record.gated = refused_by, False
        record.queued_at, record.order, record.flushed_at = self.now(), self.next_order(), -math.inf
        if record.refused_by:
            record.refusals += 1
            record.errors = 0
        else:
            record.errors += 1

    @precondition(lambda self: self.at("flight"))
    @rule(data=st.data(), node=nodes)
    def assume_and_bind(self, data: st.DataObject, node: str) -> None:
        record = data.draw(st.sampled_from(self.at("flight")))
        if record.nominated not in ("", node):
            self.room_was_given_up(record.pod, but_not=record)
        self.queue.pod_assumed(record.pod, node)
        self.queue.done(record.pod)
        assert record.popped is not None
        record.where, record.nominated = "binding", ""
        record.popped.left_behind = record.popped.left_behind._replace(tried_on=node)  # as the engine does

    @precondition(lambda self: self.at("binding"))
    @rule(data=st.data(), works=st.booleans())
    def binding_ends(self, data: st.DataObject, works: bool) -> None:
        record = data.draw(st.sampled_from(self.at("binding")))
        assert record.popped is not None
        if works:
            del self.records[record.pod.name]
            return
        newest = None if record.gone else record.pod
        landed = self.queue.add_unschedulable_if_not_present(record.popped, pod=newest)
        if record.gone:
            assert landed is None
            del self.records[record.pod.name]
            return
        record.nominated = record.pod.status.nominated_node_name
        self.failed(record, frozenset())
        self.place(record, backoff_counts=record.nominated in ("", record.popped.left_behind.tried_on))

    # -- what makes pods move -----------------------------------------------------------------------------------------

    @rule(
        event=st.sampled_from([NODE_LABEL, NODE_ADD, ASSIGNED_POD_DELETE, CSI_NODE_ADD]),
        named=st.frozensets(names),
    )
    def something_happens(self, event: ClusterEvent, named: frozenset[str]) -> None:
        self.happens(event, named)
        self.queue.move_all_to_active_or_backoff(event, None, named)

    @rule(which=st.frozensets(names, max_size=2))
    def activate(self, which: frozenset[str]) -> None:
        chosen = [self.records[name] for name in sorted(which & self.records.keys())]
        for record in chosen:
            self.activated(record)
        self.queue.activate([record.pod for record in chosen])

    @rule(quarters=st.integers(1, 9))
    def a_moment_passes(self, quarters: int) -> None:
        self.clock.advance(quarters / 4)
        due_at = self.queue.next_backoff_completion_at()
        through = [record for record in self.at("backoff") if record.backs_off_until < math.floor(self.now())]
        assert (due_at is not None and due_at <= self.now()) is bool(through)
        for record in through:
            record.where = "active"
        self.queue.flush_backoff_completed(self.now())

    @rule(minutes=st.sampled_from([1, 2, 5]))
    def minutes_pass(self, minutes: int) -> None:
        self.clock.advance(60 * minutes + 1)
        for record in self.at("pool"):
            if self.now() - max(record.queued_at, record.flushed_at) > 300:
                record.flushed_at = self.now()
                self.place(record, backoff_counts=True)
        self.queue.flush_unschedulable_leftover(self.now())

    # -- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def every_pod_is_where_the_model_has_it_and_nowhere_else(self) -> None:
        found = [
            (queued.pod.name, str(queue), queued.unschedulable_plugins)
            for queue in QueueName
            for queued in self.queue.pods_in(queue)
        ]
        wanted = [
            (
                record.pod.name,
                record.where if record.where != "pool" else "gated" if record.gated else "unschedulable",
                record.refused_by,
            )
            for record in self.at("active", "backoff", "pool")
        ]
        assert sorted(found) == sorted(wanted)
        assert sorted(each.name for each in in_flight(self.queue)) == sorted(
            record.pod.name for record in self.at("flight")
        )

    @invariant()
    def counts_are_true(self) -> None:
        assert {str(queue): count for queue, count in self.queue.pending_pods().items()} == {
            "active": len(self.at("active")),
            "backoff": len(self.at("backoff")),
            "unschedulable": sum(not record.gated for record in self.at("pool")),
            "gated": sum(record.gated for record in self.at("pool")),
        }
        refusals: dict[tuple[str, str], int] = {}
        for record in self.at("active", "backoff", "pool"):
            for plugin in record.refused_by:
                key = (plugin, "default-scheduler")
                refusals[key] = refusals.get(key, 0) + 1
        assert self.queue.refusals() == refusals

    @invariant()
    def nominations_are_those_of_pods_that_wait(self) -> None:
        wanted = {record.pod.name: record.nominated for record in self.records.values() if record.nominated}
        found = {each.pod.name: node for node in NODES for each in self.queue.nominator.pods_on(node)}
        assert found == wanted
        assert len(self.queue.nominator) == len(wanted)

    @invariant()
    def no_event_is_kept_for_nobody(self) -> None:
        if not self.at("flight"):
            assert in_flight_events(self.queue) == 0


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=tries(150), stateful_step_count=60, deadline=None)
