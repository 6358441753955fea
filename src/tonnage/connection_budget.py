"""The limits on a listener's connections, and which connection is dropped when there is no room for the next.

The process's descriptors are divided: some for its files, a share for *strangers* (clients that have shown no token),
the rest for clients that have.

    accepted ──► handshaking ──► silent ──(a token)──► known: busy ⇄ idle
                     │ HANDSHAKE_GRACE_S │ SILENT_GRACE_S          │ longest idle first
                     └──────── dropped when room is needed ────────┘

Strangers beyond their grace period are dropped for new clients, so that a thousand half-sent requests never shut the
next client out. While all are within it, new clients wait in the kernel's queue.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final, Generic, TypeVar

C = TypeVar("C", bound=Hashable)

HANDSHAKE_GRACE_S: Final = 0.5
"""How long a TLS handshake may take while clients wait for room: a few round trips, and our own load."""
SILENT_GRACE_S: Final = 0.25
"""How long a client may be silent after its handshake while others wait for room. A client with a request sends it with
the last bytes of the handshake."""
ASKING_GRACE_S: Final = 2.0
"""How long a stranger's request may take while others wait for room. Strangers' requests are answered at once, so only
a client that does not read its answer takes longer."""
_SILENT, _HANDSHAKING, _ASKING = range(3)
"""The stages of a stranger, in the order in which they are dropped."""
_GRACE_S: Final = (SILENT_GRACE_S, HANDSHAKE_GRACE_S, ASKING_GRACE_S)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on concurrent connections: unauthenticated in total, unauthenticated per address, authenticated."""

    strangers: int
    strangers_per_address: int
    known: int

    @classmethod
    def of_descriptors(cls, descriptors: int) -> ConnectionLimits:
        """An eighth for the process's own files (32 to 256), a third of the rest for strangers (at most 512, half per
        address)."""
        rest = max(descriptors - min(max(descriptors // 8, 32), 256), 16)
        strangers = min(rest // 3, 512)
        return cls(strangers, max(strangers // 2, 1), rest - strangers)


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one, as Go programs do. Returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, 65_536, 10_240):  # some systems report "unlimited" and grant less
        if wanted == soft or (wanted != hard and soft != resource.RLIM_INFINITY and wanted < soft):
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            continue
        soft = wanted
        break
    return 65_536 if soft == resource.RLIM_INFINITY else soft


def address_of(peername: object) -> str:
    """The address a connection is counted under: of IPv6 the /64. Empty for loopback, which is not counted."""
    if not isinstance(peername, tuple) or not peername:
        return ""
    try:
        address = ip_address(str(peername[0]).partition("%")[0])
    except ValueError:
        return str(peername[0])
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            return "" if address.is_loopback else str(IPv6Address(int(address) >> 64 << 64))
        address = address.ipv4_mapped
    return "" if address.is_loopback else str(address)


@dataclass(slots=True)
class _Stranger:
    address: str
    stage: int
    since: float


class ConnectionBudget(Generic[C]):
    """The connections of one listener. It only decides; the caller closes."""

    def __init__(self, limits: ConnectionLimits, now: Callable[[], float]) -> None:
        self.limits = limits
        self._now = now
        self._strangers: dict[C, _Stranger] = {}
        self._known: set[C] = set()
        self._idle: dict[C, float] = {}  # since when, the longest idle first

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    @property
    def known(self) -> int:
        return len(self._known)

    def is_known(self, connection: C) -> bool:
        return connection in self._known

    # -- what happens -------------------------------------------------------------------------------------------------

    def opened(self, connection: C, address: str) -> None:
        self._strangers[connection] = _Stranger(address, _HANDSHAKING, self._now())

    def shook_hands(self, connection: C) -> None:
        self._move(connection, _HANDSHAKING, _SILENT)

    def began(self, connection: C) -> None:
        """A whole request head has arrived."""
        self._idle.pop(connection, None)
        self._move(connection, _SILENT, _ASKING)

    def ended(self, connection: C) -> None:
        """The request is answered, and the connection may send the next."""
        if connection in self._known:
            self._idle[connection] = self._now()
        self._move(connection, _ASKING, _SILENT)

    def showed_token(self, connection: C) -> None:
        self._strangers.pop(connection, None)
        self._known.add(connection)

    def closed(self, connection: C) -> None:
        """The connection is closed, or closing. Calling it twice is harmless."""
        self._strangers.pop(connection, None)
        self._known.discard(connection)
        self._idle.pop(connection, None)

    def _move(self, connection: C, before: int, after: int) -> None:
        stranger = self._strangers.get(connection)
        if stranger is not None and stranger.stage == before:
            stranger.stage, stranger.since = after, self._now()

    # -- what follows -------------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        return len(self._strangers) < self.limits.strangers

    def may_make_room(self) -> C | None:
        """The stranger to drop for a new client; None when all are within their grace period."""
        now = self._now()
        over = [(c, s) for c, s in self._strangers.items() if now - s.since >= _GRACE_S[s.stage]]
        return min(over, key=lambda each: (each[1].stage, each[1].since), default=(None, None))[0]

    @property
    def has_room_for_known(self) -> bool:
        return len(self._known) < self.limits.known

    def longest_idle(self) -> C | None:
        """The authenticated connection that has been idle longest; None when all are busy."""
        return next(iter(self._idle), None)

    def exceeds_address(self, address: str) -> bool:
        """True if one more stranger from this address would be too many."""
        others = (stranger for stranger in self._strangers.values() if stranger.address == address)
        return bool(address) and sum(1 for _ in others) >= self.limits.strangers_per_address

    def overdue(self, limit_s: float) -> list[C]:
        """Strangers that have not sent a whole request head for `limit_s`."""
        before = self._now() - limit_s
        return [c for c, s in self._strangers.items() if s.stage != _ASKING and s.since <= before]
