"""How much memory a TLS connection takes: asyncio has a read buffer of 256 KiB for each, written full of zeros.

A watch is a connection that is quiet most of its life, and a cluster has more than a hundred of them: 70 MB of buffers
on both ends, for records of 16 KiB at most. A smaller buffer is read more often, nothing else; a list of 5 MB is as
quick.
"""

from __future__ import annotations

from asyncio.sslproto import SSLProtocol
from typing import Final

READ_BUFFER_BYTES: Final = 32 << 10
"""Two of TLS' largest records."""


def bound_tls_buffers() -> None:
    """From now on, for every connection of this process on asyncio's own event loop.

    The size is a detail of asyncio, as of Python 3.11 to 3.14: one that has it no longer keeps its own.
    """
    if isinstance(getattr(SSLProtocol, "max_size", None), int):
        SSLProtocol.max_size = min(SSLProtocol.max_size, READ_BUFFER_BYTES)
