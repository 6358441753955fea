"""A TCP proxy between a program and its API server that does what networks do on bad days.

    proxy = FaultyProxy("127.0.0.1", port)
    spawn("scheduler", "--kubeconfig", str(proxy.kubeconfig(server_kubeconfig, folder / "a")), ...)
    proxy.hold()        # requests are taken and kept; whoever hangs up meanwhile is not believed
    proxy.release()     # and now they arrive
    proxy.cut()         # all connections end, and no new one is made until `mend`
    proxy.delay_s = 0.3

Answers and events still come through while requests are held, unless they are held too (`both_ways`).
What was taken before a hold is delivered after it, even if its sender has given up long ago: the worst that a proxy or
a buffer on the way can do.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from pathlib import Path
from typing import Self

_CHUNK_BYTES = 1 << 16


class FaultyProxy:
    """Listens on a free port of loopback; use it as a context manager."""

    def __init__(self, host: str, port: int) -> None:
        self.delay_s = 0.0
        self.is_cut = False
        self._target = (host, port)
        self._requests, self._answers = threading.Event(), threading.Event()
        self.release()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone does not wake a thread that waits in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self.release()

    def kubeconfig(self, original: Path, copy: Path) -> Path:
        """A kubeconfig by which the server is reached through here."""
        text, changes = re.subn(r"server: \S+", f"server: https://127.0.0.1:{self.port}", original.read_text())
        assert changes == 1, text
        copy.touch(mode=0o600)
        copy.write_text(text)
        return copy

    def hold(self, *, both_ways: bool = False) -> None:
        self._requests.clear()
        if both_ways:
            self._answers.clear()

    def release(self) -> None:
        self._requests.set()
        self._answers.set()

    def cut(self) -> None:
        self.is_cut = True
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for each in sockets:
            _end(each)

    def mend(self) -> None:
        self.is_cut = False

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.is_cut:
                near.close()
                continue
            try:
                far = socket.create_connection(self._target, timeout=10)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._sockets |= {near, far}
            for source, sink, gate in ((near, far, self._requests), (far, near, self._answers)):
                threading.Thread(target=self._pump, args=(source, sink, gate), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, gate: threading.Event) -> None:
        try:
            while data := source.recv(_CHUNK_BYTES):
                gate.wait()
                if self.delay_s:
                    time.sleep(self.delay_s)
                sink.sendall(data)
        except OSError:
            pass
        gate.wait()
        with self._lock:
            self._sockets -= {source, sink}
        _end(source)
        _end(sink)


def _end(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
    connected.close()
