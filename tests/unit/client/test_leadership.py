"""The fence around a leader's writes, on virtual time: nothing leaves unless the lease was renewed in time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from client_wire import MemoryServer, Refused

from support.virtual_clock import VirtualClock
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.leader import LeaderElector, LeaseLost
from tonnage.client.leadership import InvalidLeaseTimes, Leadership, LeaseTimes, NotLeading
from tonnage.client.recorder import Recorder
from tonnage.client.throttle import TokenBucket
from tonnage.client.transport.connection_pool import Connections
from tonnage.client.transport.wire import HttpResponse, Request
from tonnage.clock import SystemClock
from tonnage.objects.core_v1 import Node
from tonnage.testing.builders import node

LEASE = "kube-system/tonnage"
LEASE_KEY = ("leases.coordination.k8s.io", "kube-system", "tonnage")


class Wire:
    """One program's way to the server. `hold_s` is how long an answer takes to come back."""

    def __init__(self, server: MemoryServer, clock: VirtualClock) -> None:
        self._server = server
        self._clock = clock
        self.hold_s = 0.0
        self.is_cut = False
        self.sent: list[Request] = []

    @property
    def server(self) -> str:
        return self._server.server

    async def send(self, request: Request) -> HttpResponse:
        if request.before_write is not None:
            request.before_write()
        self.sent.append(request)
        if self.is_cut:
            await asyncio.get_running_loop().create_future()
        response = await self._server.send(request)
        await self._clock.sleep(self.hold_s)
        return response

    def stream(self, request: Request) -> Any:
        return self._server.stream(request)

    async def close(self) -> None: ...


class Leader:
    """A program that leads, or tries to."""

    def __init__(self, server: MemoryServer, clock: VirtualClock, name: str, **options: Any) -> None:
        self.clock = clock
        self.leases, self.wire = Wire(server, clock), Wire(server, clock)
        rng = random.Random(name)
        self.leadership = Leadership(name, clock=clock)
        limit = options.pop("limit", None)
        self.client = Client(self.wire, clock=clock, rng=rng, guard=self.leadership, limit=limit)
        lease_client = Client(self.leases, clock=clock, rng=rng)
        self.elector = LeaderElector(lease_client, LEASE, self.leadership, **options)
        self.work: Callable[[], Awaitable[None]] = asyncio.Event().wait  # type: ignore[assignment]
        self.task = asyncio.create_task(self.elector.run(lambda: self.work()))

    async def write(self, name: str) -> Node:
        return await self.client.create(node(name))


class LeadershipRig:
    def __init__(self) -> None:
        self.server, self.clock = MemoryServer(), VirtualClock()
        self.leaders: list[Leader] = []

    def leader(self, name: str, **options: Any) -> Leader:
        self.leaders.append(Leader(self.server, self.clock, name, **options))
        return self.leaders[-1]

    @property
    def nodes(self) -> list[str]:
        return sorted(name for collection, _, name in self.server.docs if collection == "nodes")

    @property
    def holder(self) -> str:
        return str(self.server.docs[LEASE_KEY]["spec"]["holderIdentity"])


@pytest.fixture
async def stage():
    stage = LeadershipRig()
    yield stage
    for leader in stage.leaders:
        leader.task.cancel()
    await stage.clock.run_for(60.0)
    for leader in stage.leaders:
        if not leader.task.cancelled():
            leader.task.exception()


async def test_a_leader_writes_under_its_lease_and_its_name(stage):
    a = stage.leader("a")
    await stage.clock.run_for(1.0)
    await a.write("x")
    assert stage.nodes == ["x"] and a.wire.sent[-1].headers == (("Tonnage-Lease", "kube-system/tonnage a"),)


async def test_nothing_is_written_before_the_lease_is_held(stage):
    a = stage.leader("a")
    await stage.clock.run_for(1.0)
    b = stage.leader("b")
    await stage.clock.run_for(60.0)
    with pytest.raises(NotLeading) as caught:
        await b.write("x")
    assert caught.value.message == "POST /api/v1/nodes was not sent: the lease kube-system/tonnage is not held"
    assert stage.nodes == [] and b.wire.sent == [] and not a.leadership.is_over
    await b.client.list(Node)  # reading is free


async def test_a_process_that_was_stopped_finds_its_lead_over_whatever_it_had_ready(stage):
    a = stage.leader("a")
    await stage.clock.run_for(4.0)  # last renewed at 4
    stage.clock.advance(24.0)  # SIGSTOP, or the lid was closed: no task of ours has had a turn yet
    with pytest.raises(NotLeading) as caught:
        await a.write("x")
    assert caught.value.message == (
        "POST /api/v1/nodes was not sent: the lease kube-system/tonnage was renewed 24.0 s ago, "
        "and may be another's after 10 s"
    )
    assert stage.nodes == []
    await stage.clock.run_for(0.0)
    assert isinstance(a.task.exception(), LeaseLost)
    # It is over for good, even though nobody else has come: what was dropped meanwhile is not known to be dropped.
    with pytest.raises(NotLeading):
        await a.write("x")


async def test_the_last_moment_is_the_deadline_itself(stage):
    a = stage.leader("a")
    await stage.clock.run_for(4.0)
    stage.clock.advance(10.0)
    await a.write("in-time")
    stage.clock.advance(0.001)
    with pytest.raises(NotLeading):
        await a.write("late")
    assert stage.nodes == ["in-time"]


async def test_a_write_that_waited_for_its_turn_is_judged_when_the_turn_has_come(stage):
    limit = TokenBucket(0.05, 1, clock=stage.clock)  # one in 20 s
    a = stage.leader("a", limit=limit)
    await stage.clock.run_for(1.0)
    await a.write("first")
    second = asyncio.create_task(a.write("second"))
    await stage.clock.run_for(0.0)
    a.leases.is_cut = True
    await stage.clock.run_for(20.0)
    assert isinstance(second.exception(), NotLeading) and stage.nodes == ["first"]


async def test_every_try_is_judged_anew(stage):
    a = stage.leader("a")
    await stage.clock.run_for(0.0)
    refused = Refused(429, "TooManyRequests", "later", retryAfterSeconds=12)
    send = stage.server.send

    async def busy(request: Request) -> HttpResponse:
        if request.method == "POST":
            response = await send(Request("GET", "/api/v1/nodes"))
            return HttpResponse(429, response.body and b"{}", {"retry-after": "12"})
        answer: HttpResponse = await send(request)
        return answer

    assert refused.status["code"] == 429
    stage.server.send = busy
    writing = asyncio.create_task(a.write("x"))
    await stage.clock.run_for(0.0)
    stage.server.send = send
    a.leases.is_cut = True
    await stage.clock.run_for(12.0)
    assert isinstance(writing.exception(), NotLeading) and stage.nodes == []
    assert len([each for each in a.wire.sent if each.method == "POST"]) == 1


async def test_a_renewal_counts_from_before_it_was_sent(stage):
    a = stage.leader("a")
    await stage.clock.run_for(2.0)
    a.leases.hold_s = 7.0
    await stage.clock.run_for(9.0)  # sent at 4, answered at 11
    assert a.leadership.left_s == pytest.approx(3.0)
    await stage.clock.run_for(3.5)
    assert a.leadership.is_over  # the next was sent at once and would be answered at 18


async def test_no_time_of_day_changes_who_leads(stage):
    a = stage.leader("a")
    await stage.clock.run_for(1.0)
    b = stage.leader("b")
    for ahead_s in (3600.0, -7200.0, 86400.0, -90000.0, -2.0):
        stage.clock.set_time_of_day(ahead_s)
        await stage.clock.run_for(7.0)
        await a.write(f"x{ahead_s:g}".replace("-", "m").replace("+", ""))
        assert stage.holder == "a" and not b.elector.is_leader


async def test_a_clock_that_stands_still_does_not_hide_a_renewal(stage):
    class Frozen(VirtualClock):
        def now(self):
            return self._start

    stage.clock = Frozen()
    stage.leader("a")
    await stage.clock.run_for(1.0)
    stage.leader("b")
    await stage.clock.run_for(120.0)
    assert stage.holder == "a"


async def test_a_lease_that_somebody_deletes_is_not_taken_while_its_holder_lives(stage):
    a = stage.leader("a")
    await stage.clock.run_for(1.0)
    b = stage.leader("b")
    await stage.clock.run_for(5.0)
    a.leases.hold_s = 1.0  # a renewal of a's is on its way back while it happens
    await stage.clock.run_for(2.0)
    del stage.server.docs[LEASE_KEY]
    await stage.clock.run_for(20.0)
    assert stage.holder == "a" and a.leadership.left_s > 0 and not b.elector.is_leader


async def test_what_ends_in_order_may_still_write(stage):
    a = stage.leader("a")

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await stage.clock.sleep(30.0)  # longer than the lease: it is renewed meanwhile
            await a.write("last")

    a.work = work
    await stage.clock.run_for(1.0)
    a.task.cancel()
    await stage.clock.run_for(29.0)
    assert stage.holder == "a"
    await stage.clock.run_for(2.0)
    assert stage.nodes == ["last"] and stage.holder == ""
    with pytest.raises(NotLeading):
        await a.write("after")


async def test_a_lease_is_not_let_go_while_a_write_may_still_arrive(stage):
    a = stage.leader("a")
    await stage.clock.run_for(1.0)
    a.wire.is_cut = True
    lost = asyncio.create_task(a.write("x"))
    await stage.clock.run_for(1.0)
    lost.cancel()
    await stage.clock.run_for(0.0)
    a.task.cancel()
    await stage.clock.run_for(1.0)
    assert a.task.cancelled() and stage.holder == "a"  # it runs out by itself


async def test_events_of_one_who_no_longer_leads_are_dropped_at_once(stage):
    a = stage.leader("a")
    await stage.clock.run_for(1.0)
    recorder = Recorder(a.client, "test", "a")
    recorder.start()
    stage.clock.advance(24.0)
    for number in range(100):
        recorder.event(node(f"n{number}"), "Normal", "Did", "Doing", "something")
    stopping = asyncio.create_task(recorder.stop())
    await stage.clock.run_for(0.0)
    assert stopping.done() and recorder.abandoned == 100
    assert not any(each.startswith("POST /apis/events") for each in stage.server.requests)


async def test_who_follows_another_knows_it_and_fetches_the_state_anew(stage):
    first = stage.leader("first")
    await stage.clock.run_for(1.0)
    assert not first.leadership.follows_another
    second = stage.leader("second")
    informers = Informers(second.client)
    nodes = informers.of(Node)
    async with informers:
        await stage.clock.run_for(1.0)
        watches, stage.server.watches = stage.server.watches, []  # its stream is stuck: nothing comes through
        await first.write("bound-late")
        first.task.cancel()
        await stage.clock.run_for(10.0)
        assert second.leadership.follows_another and second.elector.is_leader
        assert list(nodes) == []
        refreshing = asyncio.create_task(informers.refresh())
        await stage.clock.run_for(1.0)
        assert refreshing.done() and [each.name for each in nodes] == ["bound-late"]
        assert watches


@pytest.mark.parametrize(
    ("lease_s", "renew_s", "told"),
    [
        (15.9, 15.0, "leaseDuration (15 s) must be greater than renewDeadline"),
        (10.0, 10.0, "leaseDuration (10 s) must be greater than renewDeadline"),
        (0.9, 0.5, "leaseDuration (0.9 s) must be a second at least"),
    ],
)
def test_times_with_which_two_could_lead_are_refused(lease_s, renew_s, told):
    with pytest.raises(InvalidLeaseTimes) as caught:
        Leadership("a", LeaseTimes(lease_s, renew_s), clock=VirtualClock())
    assert caught.value.message == told


async def test_the_fence_is_the_last_thing_before_the_socket():
    received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            received.set_result(await reader.read(1))
        if not received.done():
            received.set_result(b"")
        writer.close()

    def refuse() -> None:
        raise NotLeading("POST /x", LEASE, 12.0, 10.0)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    pool = Connections(host, port, limit=1, unacknowledged_s=5.0)
    with pytest.raises(NotLeading):
        await pool.exchange(b"POST /x HTTP/1.1\r\n\r\n", context=None, may_repeat=False, before_write=refuse)
    assert await received == b""  # it was connected, and not a byte was sent
    pool.close()
    server.close()
    await server.wait_closed()


def test_the_systems_clock_does_not_stand_still_while_a_machine_is_suspended():
    import time

    if hasattr(time, "CLOCK_BOOTTIME"):
        assert SystemClock().monotonic() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=1.0)
