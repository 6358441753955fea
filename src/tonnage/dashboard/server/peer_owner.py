"""Whose process is at the other end of a connection on this machine: the kernel tells (Linux, /proc/net/tcp).

Browsers send a cookie to every port of a host. So a page that another user of this machine serves on another port of
127.0.0.1 is given the dashboard's cookie by the browser of whoever opens it; but that user's programs have another
owner than the browser, and a cookie is for one owner alone.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from aiohttp import web

_TABLES: Final = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_MAPPED: Final = b"\0" * 10 + b"\xff\xff"
"""Before an IPv4 address that is used on a socket of IPv6."""
_LOCAL, _REMOTE, _UID = 1, 2, 7


class PeerOwners:
    """Numbers of users by connection, each looked up once."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def of(self, request: web.BaseRequest) -> str:
        """The number of the user; empty for a peer elsewhere, and where the kernel does not tell."""
        transport = request.transport
        if transport is None:
            return ""
        found = self._known.get(transport)
        if found is None:
            peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
            found = self._known[transport] = owner_of(peer, own) if peer and own else ""
        return found


def owner_of(peer: Any, own: Any) -> str:
    """Whose socket is bound to `peer` and connected to `own`, both as sockets name addresses; empty when unknown."""
    try:
        if not ipaddress.ip_address(peer[0]).is_loopback:
            return ""
        for version, wanted_local, wanted_remote in _spellings(peer, own):
            for line in _TABLES[version].read_text().splitlines():
                fields = line.split()
                if fields[_LOCAL] == wanted_local and fields[_REMOTE] == wanted_remote:
                    return fields[_UID]
    except (OSError, ValueError, IndexError, TypeError):
        pass
    return ""


def _spellings(peer: Any, own: Any) -> Iterator[tuple[int, str, str]]:
    """The tables to look into, and how the two addresses stand there."""
    if ":" in peer[0]:
        packed = [socket.inet_pton(socket.AF_INET6, each[0]) for each in (peer, own)]
        yield 6, _written(packed[0], peer[1]), _written(packed[1], own[1])
        return
    packed = [socket.inet_pton(socket.AF_INET, each[0]) for each in (peer, own)]
    yield 4, _written(packed[0], peer[1]), _written(packed[1], own[1])
    yield 6, _written(_MAPPED + packed[0], peer[1]), _written(_MAPPED + packed[1], own[1])


def _written(address: bytes, port: int) -> str:
    """As the kernel writes it: word by word, each as a number of this machine."""
    words = (address[at : at + 4] for at in range(0, len(address), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{port:04X}"
