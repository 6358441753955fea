"""The Host header of a request: the names and addresses that our servers answer to.

A web page can have its own name resolve to an address of this machine (DNS rebinding), and the browser then takes our
pages for that site's. The browser still sends that name in the Host header. An address there is safe, because nobody
can redirect an address; so are names outside the public DNS.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiohttp import web

WILDCARDS: Final = ("0.0.0.0", "::", "")
_HOST: Final = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s\[\]:/?#@\\%]+))(?::(?P<port>[0-9]{0,5}))?")
_PRIVATE_ENDINGS: Final = (".svc", ".local", ".internal")
"""Endings of Services, usual cluster domains and private networks: none is in the public DNS."""


def host_of(request: web.BaseRequest) -> tuple[str, int | None] | None:
    """Name and port of the Host header; None if it is malformed, missing or repeated."""
    values = request.headers.getall("Host", [])
    parts = _HOST.fullmatch(values[0]) if len(values) == 1 else None
    port = int(parts["port"]) if parts is not None and parts["port"] else None
    if parts is None or (port is not None and port > 65535):
        return None
    if parts["address"] and not is_address(parts["address"]):
        return None
    return (parts["name"] or parts["address"]).lower(), port


class OwnHosts:
    """The names and addresses of a server, besides loopback.

    A wildcard among `hosts` allows any address, but no other name: only names can be pointed at us by others.
    """

    def __init__(self, hosts: Collection[str]) -> None:
        self._hosts = {host.lower() for host in hosts}
        self._takes_any_address = any(host in WILDCARDS for host in hosts)

    def __contains__(self, host: str) -> bool:
        return host in self._hosts or is_loopback(host) or (self._takes_any_address and is_address(host))


def wrong_host(request: web.BaseRequest, bound_to: str) -> web.Response | None:
    """The refusal of a request to a program that listens at `bound_to`; None if its Host is right.

    A program that others can reach also answers to every address, its machine's name, and names outside the public DNS:
    Prometheus uses those of Services.
    """
    from aiohttp import web  # a program that only sends requests does without it: it is a tenth of what it loads

    asked = host_of(request)
    if asked is None:
        return web.Response(status=400, text="the Host header is not a host name\n")
    name = asked[0]
    if name in OwnHosts((bound_to,)):
        return None
    is_private = is_address(name) or "." not in name or name.endswith(_PRIVATE_ENDINGS)
    if not is_loopback(bound_to) and (is_private or name == socket.gethostname().lower()):
        return None
    return web.Response(status=421, text=f"{name} is not a name of this server; ask for it by its address\n")


def is_loopback(host: str) -> bool:
    """True if the name or address always means this machine, whoever resolves it."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    if not is_address(host):
        return False
    address = ipaddress.ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
