"""The clients of one program, one per purpose, so that none waits behind another.

    purpose    what it is for                           limit                                    connections
    leases     renewing a lease                         none                                     2
    work       reads, bindings, what has to be done     `qps` and `burst`                        64
    telling    events, conditions: what people read     a quarter of that, of what work leaves   8

A lease that is renewed late ends the program; an event that comes late does no harm.
"""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass
from typing import Final, Self

from tonnage.client.calls import OnRequest
from tonnage.client.config.connection import ServerConnection
from tonnage.client.config.credentials import Credentials
from tonnage.client.http import USER_AGENT, Client
from tonnage.client.leadership import Leadership
from tonnage.client.throttle import Limit, SpareTokens, TokenBucket
from tonnage.client.transport.http_transport import MAX_CONNECTIONS, HttpTransport
from tonnage.clock import Clock, SystemClock

TELLING_SHARE: Final = 4
"""One in so many of a program's requests may be an event or condition."""
TELLING_QPS: Final = 250.0
TELLING_BURST: Final = 500
"""The limit of telling when work has none: a quarter of the scheduler's default."""
TELLING_CONNECTIONS: Final = 8
LEASE_CONNECTIONS: Final = 2
"""One for a renewal, and one for when the first hangs."""
LEASE_TIMEOUT_S: Final = 5.0
"""Half of the default renew deadline, as client-go: a call that hangs leaves time for another."""
_MIN_LEASE_TIMEOUT_S: Final = 1.0


def lease_timeout_s(renew_deadline_s: float) -> float:
    """The timeout of a call about a lease. Mirrors resourcelock.NewFromKubeconfig."""
    return max(renew_deadline_s / 2, _MIN_LEASE_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class Clients:
    """Three clients of one API server; close them, or use this as a context manager."""

    work: Client
    telling: Client
    leases: Client

    @classmethod
    def connect(
        cls,
        connection: ServerConnection,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        user_agent: str = USER_AGENT,
        qps: float = 0.0,
        burst: int = 0,
        on_request: OnRequest | None = None,
        guard: Leadership | None = None,
        lease_timeout_s: float = LEASE_TIMEOUT_S,
    ) -> Clients:
        """Clients of a kubeconfig's server; nothing is sent yet. `qps` 0: no limit for work; `burst` 0: one second's
        worth. The `guard`, a leader's leadership, is asked before all writes but those to leases.
        """
        clock = clock or SystemClock()
        credentials = Credentials(connection, clock=clock)

        def client(
            purpose: str, connections: int, limit: Limit | None, guard: Leadership | None, timeout_s: float = 30.0
        ) -> Client:
            transport = HttpTransport(
                connection,
                clock=clock,
                user_agent=f"{user_agent}/{purpose}" if purpose else user_agent,
                max_connections=connections,
                unacknowledged_s=guard.window_s if guard is not None else 0.0,
                credentials=credentials,
            )
            return Client(
                transport, clock=clock, rng=rng, limit=limit, on_request=on_request, timeout_s=timeout_s, guard=guard
            )

        limit = TokenBucket(qps, burst or math.ceil(qps), clock=clock) if qps else None
        clients = cls(
            work=client("", MAX_CONNECTIONS, limit, guard),
            telling=client("events", TELLING_CONNECTIONS, _telling_limit(limit, qps, burst, clock), guard),
            leases=client("leader-election", LEASE_CONNECTIONS, None, None, lease_timeout_s),
        )
        clients.telling.give_way_while(lambda: clients.work.is_writing)
        return clients

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await asyncio.gather(self.work.close(), self.telling.close(), self.leases.close())


def _telling_limit(work: TokenBucket | None, qps: float, burst: int, clock: Clock) -> SpareTokens:
    if work is None:
        return SpareTokens(TokenBucket(TELLING_QPS, TELLING_BURST, clock=clock), None, clock=clock)
    share = TokenBucket(qps / TELLING_SHARE, max((burst or math.ceil(qps)) // TELLING_SHARE, 1), clock=clock)
    return SpareTokens(share, work, clock=clock)
