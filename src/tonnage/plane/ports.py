"""Ports on which a cluster's programs serve: free ones, and at the next start the same if they still are.

They are taken from below the range that kernels give to outgoing connections (32768 and up on Linux): while a program
is being started again, no connection of another one can sit on its port.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from tonnage.errors import TonnageError

_FIRST, _LAST = 20_000, 32_767
_TRIES: Final = 200
LOOPBACK: Final = "127.0.0.1"
DASHBOARD_PORT: Final = 8080
"""The usual one."""


def choose_ports(
    names: Sequence[str], kept: Mapping[str, int], rng: random.Random, *, without: Collection[int] = ()
) -> dict[str, int]:
    """A port for each name: the one it had, if nobody listens there now, else a free one. Raises TonnageError.

    `without` are ports that somebody else is going to have.
    """
    chosen: dict[str, int] = {}
    for name in names:
        candidates = [kept[name]] if name in kept else []
        candidates += [rng.randint(_FIRST, _LAST) for _ in range(_TRIES)]
        others = {*chosen.values(), *without}
        found = next((port for port in candidates if port not in others and _is_free(port)), None)
        if found is None:
            raise TonnageError(f"no free port for {name} between {_FIRST} and {_LAST}")
        chosen[name] = found
    return chosen


def dashboard_port(wanted: int | None, kept: int, rng: random.Random) -> int:
    """Where the dashboard is served. Raises TonnageError when a port was named and somebody has it.

    One that nobody named is the usual one, else that of the last run, else any that is free: the address is told.
    """
    if wanted is None and _is_free(DASHBOARD_PORT):
        return DASHBOARD_PORT
    if not wanted:
        return choose_ports(["dashboard"], {"dashboard": kept} if kept else {}, rng)["dashboard"]
    if not _is_free(wanted):
        raise TonnageError(
            f"the dashboard cannot be served at {LOOPBACK}:{wanted}: another program listens there, or it may not be "
            "used",
            hint="choose another --dashboard-port, or 0 for a free one",
        )
    return wanted


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port whose last connection is still being wound up is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
