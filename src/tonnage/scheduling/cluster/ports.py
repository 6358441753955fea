"""Host ports in use, by protocol and port. Few pods take any, so this is a sparse index and not a column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tonnage.objects.core_v1 import Pod

HostPort = tuple[str, str, int]
"""(protocol, address, port); the address is "0.0.0.0" when all are meant."""

ANY_ADDRESS = "0.0.0.0"


def host_ports_of(pod: Pod) -> tuple[HostPort, ...]:
    """The ports that a pod takes on its node. Sidecars' count, those of init containers that end do not."""
    spec = pod.spec
    sidecars = [container for container in spec.init_containers if container.is_sidecar] if spec.init_containers else ()
    ports = [port for container in (*spec.containers, *sidecars) for port in container.ports if port.host_port > 0]
    return tuple([(port.protocol or "TCP", port.host_ip or ANY_ADDRESS, port.host_port) for port in ports])


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
        return any(row in rows for port in ports for rows in self._rows_with(port))

    def rows_in_conflict(self, ports: Iterable[HostPort]) -> set[int]:
        """The rows where any of these ports is taken. "All addresses" clashes with every one."""
        found: set[int] = set()
        for port in ports:
            for rows in self._rows_with(port):
                found.update(rows)
        return found

    def _rows_with(self, wanted: HostPort) -> Iterator[dict[int, int]]:
        """The rows of each address that clashes; looked up, since one pod may name thousands of addresses."""
        protocol, address, port = wanted
        by_address = self._taken.get((protocol, port), {})
        if address == ANY_ADDRESS:
            yield from by_address.values()
            return
        for taken in (address, ANY_ADDRESS):
            if taken in by_address:
                yield by_address[taken]
