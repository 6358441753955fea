"""Which node has which image, and which host ports are taken: facts of few rows, kept as sparse indexes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tonnage.objects.core_v1 import ContainerImage, Pod


def canonical(name: str) -> str:
    """The name as images are listed under it; a colon before the last slash is a port, not a tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


@dataclass(slots=True)
class Holders:
    """The rows that have one image, with its size on each."""

    sizes: dict[int, int] = field(default_factory=dict)
    version: int = 0


_NOBODY = Holders()


class Images:
    """Images by canonical name."""

    def __init__(self) -> None:
        self._holders: dict[str, Holders] = {}
        self._tick = 0

    def replace(self, row: int, before: tuple[ContainerImage, ...], after: tuple[ContainerImage, ...]) -> bool:
        """Write what a node has; tells whether anything changed."""
        if before == after:
            return False
        old, new = _sizes(before), _sizes(after)
        for name in old.keys() - new.keys():
            del self._changed(name).sizes[row]
            if not self._holders[name].sizes:
                del self._holders[name]
        for name, size in new.items():
            if old.get(name) != size:
                self._changed(name).sizes[row] = size
        return old != new

    def _changed(self, name: str) -> Holders:
        self._tick += 1
        holders = self._holders.setdefault(name, Holders())
        holders.version = self._tick
        return holders

    @property
    def are_unknown(self) -> bool:
        """No node says that it has any."""
        return not self._holders

    def where(self, name: str) -> dict[int, int]:
        """By row that has the image of this canonical name, its size there."""
        return self._holders.get(name, _NOBODY).sizes

    def version_of(self, name: str) -> int:
        """Differs whenever `where` answers differently; 0 while nobody has the image."""
        return self._holders.get(name, _NOBODY).version


def _sizes(images: Iterable[ContainerImage]) -> dict[str, int]:
    return {canonical(name): image.size_bytes for image in images for name in image.names}


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
