"""Liveness of a cluster's programs: one whose event loop no longer turns is started anew, as a kubelet does it.

    started ──says "ready"──► alive ──no answer──► 1, 2 … `failures` in a row ──► told to end, killed, started again
                                ▲──── any answer ────┘

A program is asked for `/livez` over HTTP. Any answer is life, an error too, and so is a connection that is refused or
closed: a loop has to turn for that. Silence alone counts: nothing came within `timeout_s`. A program that has not said
that it is ready is still starting, and not asked. When our own loop was late as well, the machine was suspended or has
no time for anybody, and the silence says nothing.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tonnage.clock import Clock

_LATE_S: Final = 2.0
"""Beyond the timeout: our own loop did not turn in time."""


@dataclass(frozen=True, slots=True)
class ProbeTimes:
    """How often is asked, how long is waited, and how much silence in a row is too much: 50 s and more, by default."""

    period_s: float = 10.0
    timeout_s: float = 10.0
    failures: int = 5


@dataclass(slots=True)
class Liveness:
    """What the probes of one program have told; `life` is which of its starts they are about."""

    life: int = 0
    failures: int = 0

    def note(self, life: int, *, answered: bool) -> int:
        """Take note of one probe. Returns how many in a row had no answer in this life."""
        if life != self.life:
            self.life, self.failures = life, 0
        self.failures = 0 if answered else self.failures + 1
        return self.failures


async def is_answered(url: str, timeout_s: float, clock: Clock) -> bool:
    """Whether the program at this address shows that its loop turns; True when that cannot be told (see above)."""
    asked_at = clock.monotonic()
    asking, waiting = asyncio.create_task(_ask(url)), asyncio.ensure_future(clock.sleep(timeout_s))
    # Looked at, so that it is not reported as forgotten: one that fails was refused or cut off, by somebody awake.
    asking.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await asyncio.wait((asking, waiting), return_when=asyncio.FIRST_COMPLETED)
        return asking.done() or clock.monotonic() - asked_at > timeout_s + _LATE_S
    finally:
        waiting.cancel()
        asking.cancel()  # and not waited for: a TLS handshake takes its time to be called off


async def _ask(url: str) -> None:
    """Send the request and wait for a first byte, or for the end. No certificate is checked, as with a kubelet."""
    parts = urlsplit(url)
    tls = None
    if parts.scheme == "https":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls)
    try:
        writer.write(f"GET /livez HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
        await reader.read(1)
    finally:
        writer.transport.abort()  # a farewell would wait for the other side
