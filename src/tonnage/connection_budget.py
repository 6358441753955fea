"""How many connections a listener holds, and which one goes when there is no room for the next.

The descriptors of a process are divided: some are kept for its files, a share is for strangers, the rest for those who
have shown a token.

    accepted ──► handshaking ──► silent ──(a token)──► known: busy ⇄ idle
                     │ HANDSHAKE_GRACE_S │ SILENT_GRACE_S          │ longest idle first
                     └──────── dropped when room is needed ────────┘

Strangers who have had their moment make room for those who come, so that a thousand half-sent requests never shut the
next client out. Strangers within their moment are not dropped: who comes waits in the kernel's queue.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final, Generic, TypeVar

C = TypeVar("C", bound=Hashable)

HANDSHAKE_GRACE_S: Final = 0.5
"""How long a TLS handshake may take while others wait for room: a few round trips, and our own load."""
SILENT_GRACE_S: Final = 0.25
"""How long a client may say nothing after its handshake while others wait for room: one that has something to ask sends
it with the last bytes of the handshake."""
ASKING_GRACE_S: Final = 2.0
"""How long a stranger's request may be under way while others wait for room: what strangers may ask takes no time, so
it is the taking of the answer that does."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Connections at once: of those who have shown no token, of one address among them, of those who have."""

    strangers: int
    strangers_per_address: int
    known: int

    @classmethod
    def of_descriptors(cls, descriptors: int) -> ConnectionLimits:
        """An eighth for the process's own files (32 to 256), a third of the rest for strangers, at most 512, half of it
        an address."""
        rest = max(descriptors - min(max(descriptors // 8, 32), 256), 16)
        strangers = min(rest // 3, 512)
        return cls(strangers, max(strangers // 2, 1), rest - strangers)


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one, as Go's programs do, and tell how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, 65_536, 10_240):  # some systems say "unlimited" and grant less
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
    """Who a connection is counted under: the address, of IPv6 its /64. Empty for loopback, which is not counted."""
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


class ConnectionBudget(Generic[C]):
    """The connections of one listener. It decides; whoever asks closes. Every dictionary has the oldest entry first."""

    def __init__(self, limits: ConnectionLimits, now: Callable[[], float]) -> None:
        self.limits = limits
        self._now = now
        self._handshaking: dict[C, float] = {}  # since when
        self._silent: dict[C, float] = {}
        self._asking: dict[C, float] = {}  # strangers whose request is being answered
        self._known: set[C] = set()
        self._idle: dict[C, float] = {}
        self._address: dict[C, str] = {}  # of strangers
        self._per_address: dict[str, int] = {}

    @property
    def strangers(self) -> int:
        return len(self._address)

    @property
    def known(self) -> int:
        return len(self._known)

    def is_known(self, connection: C) -> bool:
        return connection in self._known

    # -- what happens -------------------------------------------------------------------------------------------------

    def opened(self, connection: C, address: str) -> None:
        self._handshaking[connection] = self._now()
        self._address[connection] = address
        self._per_address[address] = self._per_address.get(address, 0) + 1

    def shook_hands(self, connection: C) -> None:
        if self._handshaking.pop(connection, None) is not None:
            self._silent[connection] = self._now()

    def began(self, connection: C) -> None:
        """A whole request head has come."""
        if connection in self._known:
            self._idle.pop(connection, None)
        elif self._silent.pop(connection, None) is not None:
            self._asking[connection] = self._now()

    def ended(self, connection: C) -> None:
        """Its request is answered, and it may send the next."""
        if connection in self._known:
            self._idle[connection] = self._now()
        elif self._asking.pop(connection, None) is not None:
            self._silent[connection] = self._now()

    def showed_token(self, connection: C) -> None:
        self._leave_strangers(connection)
        self._known.add(connection)

    def closed(self, connection: C) -> None:
        """It is gone, or going. Telling it twice is no harm."""
        self._leave_strangers(connection)
        self._known.discard(connection)
        self._idle.pop(connection, None)

    # -- what follows -------------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        return len(self._address) < self.limits.strangers

    def may_make_room(self) -> C | None:
        """The stranger to drop for the next to come in; None when all of them are within their moment."""
        now = self._now()
        waits = (
            (self._silent, SILENT_GRACE_S),
            (self._handshaking, HANDSHAKE_GRACE_S),
            (self._asking, ASKING_GRACE_S),
        )
        for waiting, grace_s in waits:
            for oldest, since in waiting.items():
                if now - since >= grace_s:
                    return oldest
                break
        return None

    @property
    def has_room_for_known(self) -> bool:
        return len(self._known) < self.limits.known

    def longest_idle(self) -> C | None:
        """Of those who are known: the one to close for another; None when all of them are busy."""
        return next(iter(self._idle), None)

    def exceeds_address(self, address: str) -> bool:
        """One more stranger of this address would be too many."""
        return bool(address) and self._per_address.get(address, 0) >= self.limits.strangers_per_address

    def overdue(self, limit_s: float) -> list[C]:
        """Strangers who have not sent a whole request head for so long."""
        before = self._now() - limit_s
        found: list[C] = []
        for waiting in (self._handshaking, self._silent):
            for connection, since in waiting.items():
                if since > before:
                    break
                found.append(connection)
        return found

    def _leave_strangers(self, connection: C) -> None:
        address = self._address.pop(connection, None)
        if address is None:
            return
        self._handshaking.pop(connection, None)
        self._silent.pop(connection, None)
        self._asking.pop(connection, None)
        left = self._per_address[address] - 1
        if left:
            self._per_address[address] = left
        else:
            del self._per_address[address]
