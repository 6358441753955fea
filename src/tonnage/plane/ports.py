"""Ports on which a cluster's programs serve: free ones, and at the next start the same if they still are.

They are taken from below the range that kernels give to outgoing connections (32768 and up on Linux): while a program
is being started again, no connection of another one can sit on its port.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping, Sequence
from typing import Final

from tonnage.errors import TonnageError

_FIRST, _LAST = 20_000, 32_767
_TRIES: Final = 200
LOOPBACK: Final = "127.0.0.1"


def choose_ports(names: Sequence[str], kept: Mapping[str, int], rng: random.Random) -> dict[str, int]:
    """A port for each name: the one it had, if nobody listens there now, else a free one. Raises TonnageError."""
    chosen: dict[str, int] = {}
    for name in names:
        candidates = [kept[name]] if name in kept else []
        candidates += [rng.randint(_FIRST, _LAST) for _ in range(_TRIES)]
        found = next((port for port in candidates if port not in chosen.values() and _is_free(port)), None)
        if found is None:
            raise TonnageError(f"no free port for {name} between {_FIRST} and {_LAST}")
        chosen[name] = found
    return chosen


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port whose last connection is still being wound up is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
