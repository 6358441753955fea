"""A program's clients, one a purpose: what work leaves over is for telling, and a lease waits for neither."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from client_wire import MemoryServer

from support.virtual_clock import VirtualClock
from tonnage.client.config.connection import KubeconfigCluster, ServerConnection
from tonnage.client.http import Client, Clients, lease_timeout_s
from tonnage.client.leader import LeaderElector
from tonnage.client.leadership import Leadership
from tonnage.client.throttle import LONG_LINE_S, PATIENCE_S, SpareTokens, TokenBucket
from tonnage.objects.core_v1 import Pod, PodMeta


class Sender:
    """Sends as fast as a limit lets it, and notes when."""

    def __init__(self, limit: TokenBucket | SpareTokens, clock: VirtualClock) -> None:
        self.sent_at: list[float] = []
        self._limit = limit
        self._clock = clock

    async def send(self, count: int) -> None:
        for _ in range(count):
            await self._limit.take()
            self.sent_at.append(self._clock.monotonic())


def two_limits(clock: VirtualClock, *, qps: float = 50.0, burst: int = 100) -> tuple[TokenBucket, SpareTokens]:
    work = TokenBucket(qps, burst, clock=clock)
    return work, SpareTokens(TokenBucket(qps / 4, burst // 4, clock=clock), work, clock=clock)


class Crowd:
    """Senders that tell what a busy program has to say, each in a task of its own."""

    def __init__(self, clock: VirtualClock, *, is_busy: Callable[[], bool] = lambda: True) -> None:
        self.telling = SpareTokens(TokenBucket(250.0, 500, clock=clock), None, clock=clock)
        self.telling.busy.append(is_busy)
        self._clock = clock
        self._senders: list[Sender] = []

    @property
    def sent(self) -> list[int]:
        """How many each has sent."""
        return [len(each.sent_at) for each in self._senders]

    @asynccontextmanager
    async def send(self, count: int, *, senders: int) -> AsyncIterator[None]:
        self._senders = [Sender(self.telling, self._clock) for _ in range(senders)]
        tasks = [asyncio.create_task(each.send(count)) for each in self._senders]
        yield
        for task in tasks:
            task.cancel()


async def test_work_does_not_wait_behind_thousands_that_tell() -> None:
    clock = VirtualClock()
    work, telling = two_limits(clock)
    tellers = [asyncio.create_task(Sender(telling, clock).send(200)) for _ in range(7)]
    await clock.run_for(5.0)
    binder = Sender(work, clock)
    binding = asyncio.create_task(binder.send(50))
    await clock.run_for(0.0)
    # 1,400 events want to be written; half of the burst of 100 is there for whoever works.
    assert binder.sent_at == [5.0] * 50
    for task in (*tellers, binding):
        task.cancel()


async def test_both_together_send_no_more_than_the_limit() -> None:
    clock = VirtualClock()
    work, telling = two_limits(clock)
    senders = [Sender(telling, clock) for _ in range(8)]
    tasks = [asyncio.create_task(each.send(1000)) for each in senders]
    binder = Sender(work, clock)
    tasks.append(asyncio.create_task(binder.send(300)))
    await clock.run_for(10.0)
    told = sum(len(each.sent_at) for each in senders)
    assert len(binder.sent_at) == 300
    # 100 at once and 50 a second for ten seconds.
    assert len(binder.sent_at) + told <= 100 + 10 * 50 + 1
    # Telling alone: 25 at once and 12.5 a second, once work is done.
    assert 0 < told <= 25 + 125
    for task in tasks:
        task.cancel()


async def test_who_works_without_end_still_tells_something() -> None:
    clock = VirtualClock()
    work, telling = two_limits(clock, qps=10.0, burst=10)
    busy = [asyncio.create_task(Sender(work, clock).send(10_000)) for _ in range(20)]
    teller = Sender(telling, clock)
    await clock.run_for(0.0)
    task = asyncio.create_task(teller.send(1))
    await clock.run_for(PATIENCE_S - 1.0)
    assert teller.sent_at == []
    await clock.run_for(4.0)  # its turn is behind the twenty that wait: 2 s
    assert len(teller.sent_at) == 1
    for each in (*busy, task):
        each.cancel()


async def test_a_lease_is_renewed_beside_a_limit_that_is_used_up() -> None:
    clock, server = VirtualClock(), MemoryServer()
    limit = TokenBucket(1.0, 1, clock=clock)
    used_up = asyncio.create_task(Sender(limit, clock).send(1000))
    leases = Client(server, clock=clock, rng=random.Random(1))
    elector = LeaderElector(leases, "kube-system/one", Leadership("us", clock=clock))
    leading = asyncio.create_task(elector.run(lambda: asyncio.Event().wait()))  # type: ignore[arg-type,return-value]
    await clock.run_for(60.0)
    assert not leading.done() and elector.is_leader
    for task in (used_up, leading):
        task.cancel()


async def test_clients_of_one_connection_have_limits_and_connections_of_their_own() -> None:
    clock = VirtualClock()
    connection = ServerConnection(KubeconfigCluster("http://127.0.0.1:1"))
    async with Clients.connect(connection, clock=clock, qps=50.0, burst=100) as clients:
        callers = [clients.work._caller, clients.telling._caller, clients.leases._caller]
        assert len({id(each.transport) for each in callers}) == 3
        assert isinstance(callers[0].limit, TokenBucket) and isinstance(callers[1].limit, SpareTokens)
        assert callers[2].limit is None
    async with Clients.connect(connection, clock=clock) as clients:
        assert clients.work._caller.limit is None
        assert isinstance(clients.telling._caller.limit, SpareTokens)


def test_a_call_about_a_lease_leaves_time_for_another() -> None:
    assert (lease_timeout_s(10.0), lease_timeout_s(1.5)) == (5.0, 1.0)


async def test_who_has_more_urgent_work_tells_little() -> None:
    clock = VirtualClock()
    crowd = Crowd(clock, is_busy=lambda: clock.monotonic() < 2.0)
    async with crowd.send(1, senders=800):
        await clock.run_for(1.99)
        # 8 at once and 10 a second.
        assert 8 + 15 <= sum(crowd.sent) <= 8 + 20
        for _ in range(20):
            await clock.run_for(0.01)  # one a turn of the loop
        # Nobody waits for a turn that was far away while there was work: 500 at once.
        assert sum(crowd.sent) >= 500


async def test_who_is_busy_without_end_tells_everything_ten_seconds_late() -> None:
    clock = VirtualClock()
    crowd = Crowd(clock)
    async with crowd.send(1, senders=400):
        await clock.run_for(PATIENCE_S - 0.01)
        assert sum(crowd.sent) <= 8 + 100
        for _ in range(20):
            await clock.run_for(0.01)
        assert all(count == 1 for count in crowd.sent)


async def test_a_line_that_does_not_end_moves_faster_after_a_while() -> None:
    """A few workers take one event after the other, so that none of them waits for ten seconds by itself."""
    clock = VirtualClock()
    crowd = Crowd(clock)
    async with crowd.send(1000, senders=8):
        await clock.run_for(LONG_LINE_S - 0.01)
        in_time = sum(crowd.sent)
        assert in_time <= 8 + 200
        await clock.run_for(20.0)
        # 50 a second from then on; looked for 20 times a second.
        assert sum(crowd.sent) - in_time >= 20 * 20


async def test_a_line_that_ended_begins_anew() -> None:
    clock = VirtualClock()
    crowd = Crowd(clock)
    await clock.run_for(60.0)
    async with crowd.send(1000, senders=8):
        await clock.run_for(LONG_LINE_S - 0.01)
        assert sum(crowd.sent) <= 8 + 200


async def test_who_hurries_gives_way_to_nobody_and_keeps_to_the_common_limit() -> None:
    clock = VirtualClock()
    _, telling = two_limits(clock)  # 50 a second, 100 at once
    telling.busy.append(lambda: True)
    senders = [Sender(telling, clock) for _ in range(8)]
    tasks = [asyncio.create_task(each.send(100)) for each in senders]
    await clock.run_for(1.0)
    assert sum(len(each.sent_at) for each in senders) <= 8 + 10
    telling.hurried += 1
    await clock.run_for(4.0)
    told = sum(len(each.sent_at) for each in senders)
    assert 100 + 4 * 50 - 8 - 10 - 8 <= told <= 100 + 5 * 50
    for task in tasks:
        task.cancel()


async def test_telling_gives_way_to_whatever_the_program_writes() -> None:
    """A write counts while it is under way and a moment longer; a read does not."""
    clock, server = VirtualClock(), MemoryServer()
    work = Client(server, clock=clock, rng=random.Random(1))
    assert not work.is_writing
    await work.list(Pod)
    assert not work.is_writing
    await work.create(Pod(metadata=PodMeta(namespace="default", name="one")))
    assert work.is_writing
    await clock.run_for(0.3)
    assert not work.is_writing


async def test_the_clients_of_a_program_are_tied_together() -> None:
    clock = VirtualClock()
    async with Clients.connect(ServerConnection(KubeconfigCluster("http://127.0.0.1:1")), clock=clock) as clients:
        limit = clients.telling._caller.limit
        assert isinstance(limit, SpareTokens) and len(limit.busy) == 1
        assert not limit.busy[0]()
        clients.work._caller._writing = 1
        assert limit.busy[0]()
