"""The supervisor of a cluster's programs: it starts them, waits until they are ready, restarts and stops them.

       start                 "ready"

A ready program is asked for `/livez`, and restarted when its event loop hangs, as a kubelet does. Any answer is life,
even an error or a refused connection. Only silence counts: no byte within `timeout_s`, several times in a row. If our
own loop was late too, the silence says nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tonnage import logs, private_files
from tonnage.clock import Backoff, Clock, within
from tonnage.errors import TonnageError
from tonnage.plane import forkserver, settings

_LATE_S: Final = 2.0
"""Later than the timeout by this much: our own loop was late."""


@dataclass(frozen=True, slots=True)
class ProbeTimes:
    """The period, the timeout, and the failures in a row that are too many: by default 50 s and more of silence."""

    period_s: float = 10.0
    timeout_s: float = 10.0
    failures: int = 5


@dataclass(slots=True)
class Liveness:
    """The probe results of one program; `life` counts its starts."""

    life: int = 0
    failures: int = 0

    def note(self, life: int, *, answered: bool) -> int:
        """Note one probe. Returns how many in a row failed in this life."""
        if life != self.life:
            self.life, self.failures = life, 0
        self.failures = 0 if answered else self.failures + 1
        return self.failures


async def is_answered(url: str, timeout_s: float, clock: Clock) -> bool:
    """True if the program's loop turns, or if that cannot be known (see above)."""
    asked_at = clock.monotonic()
    asking, waiting = asyncio.create_task(_ask(url)), asyncio.ensure_future(clock.sleep(timeout_s))
    # Retrieved, so that asyncio does not log it: a failed request was refused or cut off, so the program is alive.
    asking.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await asyncio.wait((asking, waiting), return_when=asyncio.FIRST_COMPLETED)
        return asking.done() or clock.monotonic() - asked_at > timeout_s + _LATE_S
    finally:
        waiting.cancel()
        asking.cancel()  # not awaited: cancelling a TLS handshake takes time


async def _ask(url: str) -> None:
    """Send the request and wait for the first byte or the end. No certificate is checked, as with a kubelet."""
    parts = urlsplit(url)
    tls = None
    if parts.scheme == "https":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls)
    try:
        writer.write(f"GET /livez HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
        await reader.read(1)
    finally:
        writer.transport.abort()  # a clean end would wait for the peer


_STOP_GRACE_S = 10.0
_FORKSERVER_LOG = "forkserver.log"
_LOOK_AT_LOGS_EVERY_S = 10.0

_log = logs.logger("tonnage.up")


class ChildFailed(TonnageError):
    """A program of the cluster did not get ready. The message includes the end of its log."""

    has_lines = True


@dataclass(eq=False, slots=True)
class Child:
    """One program. `last_line`: the last line it printed, `ready …` once it is ready."""

    name: str
    args: list[str]
    log: Path
    backoff: Backoff
    pid: int = 0
    last_line: str = ""
    starts: int = 0
    is_wanted: bool = True
    is_ready: asyncio.Event = field(default_factory=asyncio.Event)
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_settled: asyncio.Event = field(default_factory=asyncio.Event)
    """It is ready, or will never be: it exited with an error before it was ever ready, or the forkserver is gone."""
    last_code: int | None = None


class Supervisor:
    """All programs of one cluster, started by one forkserver."""

    def __init__(
        self,
        logs_dir: Path,
        run_dir: Path,
        *,
        clock: Clock,
        rng: random.Random,
        max_log_bytes: int = settings.MAX_LOG_BYTES,
        probes: ProbeTimes | None = None,
    ) -> None:
        self._logs = logs_dir
        self._max_log_bytes = max_log_bytes
        self._run_dir = run_dir
        self._clock = clock
        self._rng = rng
        self._children: dict[str, Child] = {}
        self._forkserver: asyncio.subprocess.Process | None = None
        self._listener: asyncio.Task[None] | None = None
        self._keepers: list[asyncio.Task[None]] = []
        self._probes = probes or ProbeTimes()
        self._restarts: set[asyncio.Task[None]] = set()
        self.is_broken = asyncio.Event()
        """The forkserver is gone: nothing can be started any more."""

    async def open(self, *, lock: int) -> None:
        """Start the forkserver. It inherits `lock` (a file descriptor): held until the last child has ended."""
        private_files.own_folder(self._logs)
        private_files.own_folder(self._run_dir)
        # One thread, also in numpy: a process with threads must not be forked.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        with os.fdopen(private_files.open_log(self._logs / _FORKSERVER_LOG), "ab") as log:
            self._forkserver = await asyncio.create_subprocess_exec(
                *forkserver.command(),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log, env=environment,
                start_new_session=True,  # signals to our process group are not for it
                pass_fds=(lock,),
            )  # fmt: skip
        self._listener = asyncio.create_task(self._listen())
        self._keepers.append(asyncio.create_task(self._bound_logs()))

    def __getitem__(self, name: str) -> Child:
        return self._children[name]

    def start(self, name: str, args: Sequence[str]) -> Child:
        """Start a program, and keep it running until it is stopped."""
        log = self._logs / f"{name}.log"
        backoff = Backoff(clock=self._clock, rng=self._rng, first_s=0.2, max_s=10.0, jitter=0.5, reset_after_s=30.0)
        child = self._children[name] = Child(name, list(args), log, backoff)
        self._ask_for(child)
        return child

    async def wait_ready(self, *names: str, timeout_s: float) -> None:
        """Return when these programs are ready. Raises ChildFailed, with the log's end, if one is late or gives up."""
        for name in names:
            child = self._children[name]
            try:
                if not self.is_broken.is_set():
                    await within(self._clock, timeout_s, child.is_settled.wait())
            except TimeoutError:
                raise _failure(f"{name} is not ready after {timeout_s:g} s", child.log) from None
            if self.is_broken.is_set():
                raise _failure("the process that starts the cluster's programs has ended", self._logs / _FORKSERVER_LOG)
            if not child.is_ready.is_set():
                raise _failure(f"{name} ended with code {child.last_code}", child.log)

    def watch_liveness(self, urls: Mapping[str, str]) -> None:
        """From now on, restart these programs when they stop answering; `urls` by program."""
        for name, url in urls.items():
            self._keepers.append(asyncio.create_task(self._watch_liveness(self._children[name], url)))

    async def stop(self, *names: str) -> None:
        """Stop these programs together, and wait; a program that does not end is killed."""
        wanted = [self._children[name] for name in names if name in self._children]
        for child in wanted:
            child.is_wanted = False
            self._send({"signal": child.name, "number": int(signal.SIGTERM)})
        for child in wanted:
            if not child.pid or self.is_broken.is_set():
                continue
            await self._wait_or_kill(child)

    async def close(self) -> None:
        """End the forkserver, and with it all programs."""
        for child in self._children.values():
            child.is_wanted = False
        for task in self._restarts:
            task.cancel()
        for keeper in self._keepers:
            keeper.cancel()
        if self._forkserver is not None:
            assert self._forkserver.stdin is not None
            self._forkserver.stdin.close()
            try:
                await within(self._clock, 2 * _STOP_GRACE_S, self._forkserver.wait())
            except TimeoutError:
                self._forkserver.kill()
                await self._forkserver.wait()
        if self._listener is not None:
            await self._listener
        for child in self._children.values():
            self._pid_file(child).unlink(missing_ok=True)

    def _ask_for(self, child: Child) -> None:
        child.is_ready.clear()
        child.has_ended.clear()
        child.starts += 1
        self._send({"start": child.name, "args": child.args, "log": str(child.log)})

    def _send(self, request: dict[str, object]) -> None:
        if self._forkserver is not None and not self.is_broken.is_set():
            assert self._forkserver.stdin is not None
            self._forkserver.stdin.write(json.dumps(request).encode() + b"\n")

    async def _listen(self) -> None:
        assert self._forkserver is not None and self._forkserver.stdout is not None
        while line := await self._forkserver.stdout.readline():
            message: dict[str, Any] = json.loads(line)
            if "started" in message:
                child = self._children[message["started"]]
                child.pid = message["pid"]
                with suppress(OSError):  # on a full disk: only `tonnage status` reads it
                    private_files.write_private(self._pid_file(child), f"{child.pid}\n".encode(), durable=False)
            elif "printed" in message:
                child = self._children[message["printed"]]
                child.last_line = message["line"]
                if child.last_line.startswith("ready"):
                    child.is_ready.set()
                    child.is_settled.set()
            else:
                self._ended(self._children[message["ended"]], message["code"])
        self.is_broken.set()
        for child in self._children.values():
            child.is_settled.set()

    async def _bound_logs(self) -> None:
        """Bound the logs: programs run for weeks, and one that repeats an error must not fill the disk."""
        while True:
            for log in (self._logs / _FORKSERVER_LOG, *(child.log for child in self._children.values())):
                with suppress(OSError):
                    settings.bound_log(log, max_bytes=self._max_log_bytes)
            await self._clock.sleep(_LOOK_AT_LOGS_EVERY_S)

    async def _watch_liveness(self, child: Child, url: str) -> None:
        liveness, probes = Liveness(), self._probes
        asked_at = self._clock.monotonic()
        while True:
            await self._clock.sleep(max(0.0, asked_at + probes.period_s - self._clock.monotonic()))
            asked_at = self._clock.monotonic()
            life, pid = child.starts, child.pid
            if not pid or not child.is_ready.is_set() or not child.is_wanted:
                continue
            answered = await is_answered(url, probes.timeout_s, self._clock)
            failures = liveness.note(life, answered=answered)
            if failures:
                _log.info("Does not answer", program=child.name, pid=pid, url=f"{url}/livez", times=failures)
            if failures >= probes.failures and (child.starts, child.pid) == (life, pid):
                _log.warning(
                    "Does not answer its health page any more, and is restarted",
                    program=child.name,
                    pid=pid,
                    url=f"{url}/livez",
                    tried=failures,
                    timeout_s=probes.timeout_s,
                )
                self._send({"signal": child.name, "number": int(signal.SIGTERM)})
                await self._wait_or_kill(child)

    async def _wait_or_kill(self, child: Child) -> None:
        """Wait for the end of a stopping program; kill it if it does not end."""
        try:
            await within(self._clock, _STOP_GRACE_S, child.has_ended.wait())
        except TimeoutError:
            _log.warning("Does not stop and is killed", program=child.name, pid=child.pid)
            self._send({"signal": child.name, "number": int(signal.SIGKILL)})

    def _ended(self, child: Child, code: int) -> None:
        child.pid, child.last_code = 0, code
        child.is_ready.clear()
        child.is_settled.clear()
        if code > 0 and not child.last_line.startswith("ready"):
            child.is_settled.set()
            child.is_wanted = False
        child.has_ended.set()
        self._pid_file(child).unlink(missing_ok=True)
        if child.is_wanted:
            task = asyncio.create_task(self._restart(child, code))
            self._restarts.add(task)
            task.add_done_callback(self._restarts.discard)

    async def _restart(self, child: Child, code: int) -> None:
        pause_s = child.backoff.next_s()
        _log.warning("Stopped, and is started again", program=child.name, code=code, pause_s=round(pause_s, 2))
        await self._clock.sleep(pause_s)
        if child.is_wanted:
            self._ask_for(child)

    def _pid_file(self, child: Child) -> Path:
        return self._run_dir / f"{child.name}.pid"


def _failure(what: str, log: Path) -> ChildFailed:
    end = "(nothing)"
    with suppress(FileNotFoundError):
        end = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
    return ChildFailed(f"{what}; its log ends with:\n{end}", hint=f"all of it is in {log}")
