"""Leader election on virtual time: one leads, the others wait, and never do two lead."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from client_wire import MemoryServer
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.virtual_clock import VirtualClock
from tonnage.client.http import Client
from tonnage.client.leader import LeaderElector, LeaseLost
from tonnage.client.leadership import Leadership, LeaseTimes
from tonnage.errors import TonnageError

LEASE = "kube-system/tonnage"


@dataclass
class Candidate:
    """A program that wants to lead, with its own way to the server, which can be cut off."""

    world: LeaderRig
    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.wire = Wire(self.world.server)
        client = Client(self.wire, clock=self.world.clock, rng=random.Random(self.name))
        self.is_working = False
        leadership = Leadership(self.name, clock=self.world.clock)
        self.elector = LeaderElector(client, LEASE, leadership, **self.options)
        self.finish = asyncio.Event()
        self.task = asyncio.create_task(self.elector.run(self.work))

    async def work(self) -> None:
        self.is_working = True
        self.note("starts")
        assert sum(other.is_working for other in self.world.candidates) == 1, "two lead"
        try:
            await self.finish.wait()
        finally:
            self.is_working = False
            self.note("work ended")

    def note(self, what: str) -> None:
        self.world.story.append(f"{self.world.clock.monotonic():g} {self.name} {what}")


class Wire:
    """One candidate's way to the server."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self.is_cut = False
        self.is_hanging = False

    @property
    def server(self) -> str:
        return self._server.server

    async def send(self, request):
        if self.is_hanging:
            await asyncio.get_running_loop().create_future()
        self._server.is_away = self.is_cut
        try:
            return await self._server.send(request)
        finally:
            self._server.is_away = False

    def stream(self, request):
        raise AssertionError("a candidate does not watch")

    async def close(self) -> None: ...


class LeaderRig:
    def __init__(self) -> None:
        self.server = MemoryServer()
        self.clock = VirtualClock()
        self.story: list[str] = []
        self.candidates: list[Candidate] = []

    def candidate(self, name: str, **options: object) -> Candidate:
        candidate = Candidate(self, name, options)
        self.candidates.append(candidate)
        return candidate

    async def run(self, seconds: float) -> None:
        await self.clock.run_for(seconds)

    @property
    def spec(self) -> dict[str, Any]:
        return dict(self.server.docs["leases.coordination.k8s.io", "kube-system", "tonnage"]["spec"])

    async def end(self) -> None:
        for candidate in self.candidates:
            candidate.task.cancel()
        await self.run(60.0)
        await asyncio.wait([candidate.task for candidate in self.candidates])


@pytest.fixture
async def world():
    world = LeaderRig()
    yield world
    await world.end()


async def test_a_count_of_transitions_that_cannot_grow_keeps_nobody_from_leading(world):
    a = world.candidate("a")
    await world.run(0.0)
    lease = world.server.docs["leases.coordination.k8s.io", "kube-system", "tonnage"]
    a.wire.is_cut = True
    lease["spec"]["leaseTransitions"] = 2**31 - 1  # by somebody who may write leases
    b = world.candidate("b")
    await world.run(40.0)
    assert b.elector.is_leader and world.spec["leaseTransitions"] == 2**31 - 1


async def test_the_first_to_come_makes_the_lease_and_leads(world):
    a = world.candidate("a")
    await world.run(0.0)
    assert a.elector.is_leader and a.is_working and world.story == ["0 a starts"]
    assert world.spec == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2000-01-01T00:00:00.000000Z",
        "renewTime": "2000-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }


async def test_the_leader_renews_every_two_seconds_with_one_request(world):
    world.candidate("a")
    await world.run(0.0)
    world.server.requests.clear()
    await world.run(10.0)
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/tonnage"
    assert world.server.requests == [f"PUT {path}"] * 5
    assert world.spec["renewTime"] == "2000-01-01T00:00:10.000000Z"
    assert world.spec["acquireTime"] == "2000-01-01T00:00:00.000000Z" and world.spec["leaseTransitions"] == 0


async def test_the_others_wait_as_long_as_it_is_renewed(world):
    world.candidate("a")
    await world.run(0.0)
    b = world.candidate("b")
    await world.run(3600.0)
    assert world.story == ["0 a starts"] and b.elector.leader == "a" and not b.elector.is_leader


async def test_a_leader_that_ends_lets_go_and_the_next_need_not_wait_for_the_lease_to_run_out(world):
    a = world.candidate("a")
    await world.run(0.0)
    b = world.candidate("b")
    await world.run(60.0)
    a.task.cancel()
    await world.run(0.0)
    assert world.spec["holderIdentity"] == "" and world.spec["leaseDurationSeconds"] == 1
    # b looks every 2 s, stretched by up to 1.2 times as much: within 4.4 s.
    await world.run(4.4)
    assert b.is_working
    assert world.story[:2] == ["0 a starts", "60 a work ended"]
    assert world.spec["holderIdentity"] == "b" and world.spec["leaseTransitions"] == 1
    assert b.elector.leader == "b"
    with pytest.raises(asyncio.CancelledError):
        await a.task


async def test_a_leader_that_dies_is_followed_when_its_lease_has_run_out(world):
    a = world.candidate("a", release_on_cancel=False)
    await world.run(0.0)
    b = world.candidate("b")
    await world.run(60.0)  # last renewed at 60
    a.task.cancel()
    await world.run(14.9)
    assert not b.is_working
    # b sees each renewal up to 4.4 s late, counts 15 s from there, and looks again within 4.4 s.
    await world.run(0.1 + 2 * 4.4)
    assert b.is_working and world.spec["leaseTransitions"] == 1


async def test_a_leader_that_is_cut_off_stops_before_anybody_else_may_start(world):
    a = world.candidate("a")
    await world.run(0.0)
    b = world.candidate("b")
    await world.run(60.0)  # last renewed at 60
    a.wire.is_cut = True
    await world.run(60.0)
    # The next renewal is due at 62 and is tried until the deadline, 10 s after the last: at 70, before 60 + 15.
    assert world.story[:2] == ["0 a starts", "70 a work ended"]
    started_at = float(world.story[2].split()[0])
    assert world.story[2] == f"{started_at:g} b starts" and started_at > 75.0
    with pytest.raises(LeaseLost) as caught:
        await a.task
    assert caught.value.message == "lost the lease kube-system/tonnage: it could not be renewed within 10 s"
    assert caught.value.hint == "start again, to wait for the lease"
    assert b.is_working


async def test_a_request_that_hangs_does_not_hold_up_the_deadline(world):
    a = world.candidate("a")
    await world.run(60.0)
    a.wire.is_hanging = True
    await world.run(12.0)
    assert world.story == ["0 a starts", "70 a work ended"]
    assert isinstance(a.task.exception(), LeaseLost)


async def test_a_leader_that_sees_another_in_its_place_stops_at_once(world):
    a = world.candidate("a")
    await world.run(61.0)
    doc = world.server.docs["leases.coordination.k8s.io", "kube-system", "tonnage"]
    world.server.write({**doc, "spec": {**doc["spec"], "holderIdentity": "usurper", "leaseTransitions": 7}})
    await world.run(1.0)
    assert world.story == ["0 a starts", "62 a work ended"]
    with pytest.raises(LeaseLost) as caught:
        await a.task
    assert caught.value.message == 'lost the lease kube-system/tonnage: "usurper" holds it now'
    assert world.spec["holderIdentity"] == "usurper"  # and is not let go of


async def test_a_short_trouble_costs_nothing(world):
    a = world.candidate("a")
    await world.run(60.0)
    a.wire.is_cut = True
    await world.run(8.0)
    a.wire.is_cut = False
    await world.run(60.0)
    assert world.story == ["0 a starts"] and a.elector.is_leader


async def test_a_lost_answer_to_a_renewal_is_found_out_by_looking(world):
    a = world.candidate("a")
    await world.run(1.0)
    world.server.lose_answers = 1
    world.server.requests.clear()
    await world.run(1.0)
    assert [each.partition(" ")[0] for each in world.server.requests] == ["PUT", "GET", "PUT"]
    assert a.is_working and world.spec["acquireTime"] == "2000-01-01T00:00:00.000000Z"


async def test_fields_that_others_put_on_the_lease_stay(world):
    world.candidate("a")
    await world.run(1.0)
    doc = world.server.docs["leases.coordination.k8s.io", "kube-system", "tonnage"]
    world.server.write({**doc, "metadata": {**doc["metadata"], "labels": {"team": "storage"}}})
    await world.run(60.0)
    doc = world.server.docs["leases.coordination.k8s.io", "kube-system", "tonnage"]
    assert doc["metadata"]["labels"] == {"team": "storage"} and doc["spec"]["holderIdentity"] == "a"


async def test_work_that_ends_ends_the_run_and_lets_go(world):
    a = world.candidate("a")
    await world.run(5.0)
    a.finish.set()
    await world.run(0.0)
    assert a.task.done() and a.task.result() is None
    assert world.story == ["0 a starts", "5 a work ended"]
    assert world.spec["holderIdentity"] == ""


async def test_what_the_work_raises_is_passed_on(world):
    async def fails() -> None:
        raise TonnageError("the disk is on fire")

    elector = LeaderElector(
        Client(world.server, clock=world.clock, rng=random.Random(1)), LEASE, Leadership("a", clock=world.clock)
    )
    running = asyncio.create_task(elector.run(fails))
    world.candidate("later")
    await world.run(0.0)
    with pytest.raises(TonnageError, match="the disk is on fire"):
        await running
    assert not elector.is_leader


async def test_a_renewal_that_gets_through_while_letting_go_does_not_keep_the_lease(world):
    class Meddling(MemoryServer):
        meddle = False

        async def send(self, request):
            response = await super().send(request)
            if self.meddle and request.method == "GET":  # after the look that a release begins with
                self.meddle = False
                doc = self.docs["leases.coordination.k8s.io", "kube-system", "tonnage"]
                self.write({**doc, "spec": {**doc["spec"], "renewTime": "2000-01-01T00:00:07.000000Z"}})
            return response

    world.server = Meddling()
    a = world.candidate("a")
    await world.run(1.0)
    world.server.meddle = True
    a.task.cancel()
    await world.run(0.0)
    assert world.spec["holderIdentity"] == ""


async def test_a_leader_that_did_not_notice_its_end_is_not_healthy(world):
    a = world.candidate("a")
    await world.run(0.0)
    assert a.elector.is_healthy
    world.clock.advance(35.0)  # the process slept: 15 s of lease and 20 s of patience
    assert a.elector.is_healthy
    world.clock.advance(0.1)
    assert not a.elector.is_healthy


async def test_two_that_come_at_once_do_not_both_lead(world):
    candidates = [world.candidate(name) for name in "abcde"]
    await world.run(300.0)
    assert sum(each.is_working for each in candidates) == 1
    assert sum(each.elector.is_leader for each in candidates) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"identity": ""}, "a candidate needs an identity of its own"),
        ({"renew_deadline_s": 15.0}, "leaseDuration (15 s) must be greater than renewDeadline"),
        ({"retry_period_s": 9.0}, "renewDeadline (10 s) must be greater than retryPeriod*JitterFactor"),
        ({"retry_period_s": 0.0}, "retryPeriod must be greater than zero"),
    ],
)
def test_times_that_cannot_work_are_refused(options, told):
    with pytest.raises(ValueError) as caught:
        Leadership(options.pop("identity", "a"), LeaseTimes(**options), clock=VirtualClock())
    assert str(caught.value) == told


@settings(max_examples=tries(25), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["cut", "mend", "kill", "end"]), st.integers(0, 20))))
def test_whatever_happens_two_never_lead_at_once(acts):
    async def run() -> None:
        world = LeaderRig()
        for name in "abc":
            world.candidate(name)
        for name, act, seconds in acts:
            candidate = next(each for each in reversed(world.candidates) if each.name == name)
            match act:
                case "cut":
                    candidate.wire.is_cut = True
                case "mend":
                    candidate.wire.is_cut = False
                case "kill":
                    candidate.wire.is_cut = True
                    candidate.task.cancel()
                case "end":
                    candidate.task.cancel()
            await world.run(float(seconds))
            assert sum(each.is_working for each in world.candidates) <= 1
        for candidate in world.candidates:
            candidate.wire.is_cut = False
            if candidate.task.done() and not candidate.task.cancelled():
                candidate.task.exception()
        await world.run(60.0)
        alive = [each for each in world.candidates if not each.task.done()]
        assert sum(each.is_working for each in world.candidates) == (1 if alive else 0)
        await world.end()
        for candidate in world.candidates:
            if not candidate.task.cancelled():
                assert isinstance(candidate.task.exception(), LeaseLost)

    asyncio.run(run())
