"""Where a driver listens: `unix:///run/csi.sock`, a bare path, or `host:port` for tests."""

from __future__ import annotations

from pathlib import Path

from tonnage.errors import TonnageError

MAX_SOCKET_PATH = 107
"""The kernel's limit for a unix socket's path, in bytes."""

_SCHEMES = ("dns:///", "tcp://")


class InvalidAddress(TonnageError): ...


def target_of(address: str) -> str:
    """The address as gRPC wants it. Raises InvalidAddress."""
    path = socket_path(address)
    if path is not None:
        return f"unix:{path}"
    for scheme in _SCHEMES:
        address = address.removeprefix(scheme)
    return address


def socket_path(address: str) -> Path | None:
    """The socket of an address; None for a host and port. Raises InvalidAddress."""
    if address.startswith("unix://"):
        text = address.removeprefix("unix://")
    elif address.startswith("unix:"):
        text = address.removeprefix("unix:")
    elif address.startswith(("/", "./", "../")):
        text = address
    elif "://" in address and not address.startswith(_SCHEMES):
        raise InvalidAddress(
            f'"{address}" is not an address of a CSI driver: it speaks gRPC', hint="write it like unix:///run/csi.sock"
        )
    elif ":" in address:
        return None
    else:
        raise InvalidAddress(
            f'"{address}" is not an address of a CSI driver', hint="write it like unix:///run/csi.sock or /run/csi.sock"
        )
    if not text or text.endswith("/"):
        raise InvalidAddress(f'"{address}" names no socket', hint="write it like unix:///run/csi.sock")
    if len(text.encode()) > MAX_SOCKET_PATH:
        raise InvalidAddress(
            f'"{address}" is too long: a unix socket\'s path has at most {MAX_SOCKET_PATH} bytes',
            hint="use a folder nearer to the root",
        )
    return Path(text)


def socket_identity(address: str) -> tuple[int, ...] | None:
    """Distinguishes a driver's socket from its replacement: None without a socket, empty for a host and port."""
    path = socket_path(address)
    if path is None:
        return ()
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns
