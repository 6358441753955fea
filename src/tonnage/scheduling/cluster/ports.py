"""Host ports in use, by protocol and port. Few pods take any, so this is a sparse index and not a column."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.scheduling.cluster.pod_info import ANY_ADDRESS, HostPort


class HostPorts:
    """(protocol, port) -> address -> row -> how many pods there."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, int], dict[str, dict[int, int]]] = {}

    def add(self, ports: Iterable[HostPort], row: int) -> None:
        for protocol, address, port in ports:
            rows = self._taken.setdefault((protocol, port), {}).setdefault(address, {})
            rows[row] = rows.get(row, 0) + 1

    def remove(self, ports: Iterable[HostPort], row: int) -> None:
        for protocol, address, port in ports:
            by_address = self._taken[protocol, port]
            rows = by_address[address]
            rows[row] -= 1
            if not rows[row]:
                del rows[row]
                if not rows:
                    del by_address[address]
                    if not by_address:
                        del self._taken[protocol, port]

    def is_in_conflict(self, ports: Iterable[HostPort], row: int) -> bool:
        """Whether any of these ports is taken on one row."""
        for protocol, address, port in ports:
            for taken, rows in self._taken.get((protocol, port), {}).items():
                if row in rows and (ANY_ADDRESS in (address, taken) or address == taken):
                    return True
        return False

    def rows_in_conflict(self, ports: Iterable[HostPort]) -> set[int]:
        """The rows where any of these ports is taken. "All addresses" clashes with every one."""
        found: set[int] = set()
        for protocol, address, port in ports:
            for taken, rows in self._taken.get((protocol, port), {}).items():
                if ANY_ADDRESS in (address, taken) or address == taken:
                    found.update(rows)
        return found
