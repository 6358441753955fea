"""The supervisor of a cluster's programs, where the process that starts them fails, and where one stands still."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from support.eventually import eventually_async
from tonnage.clock import SystemClock
from tonnage.plane import forkserver
from tonnage.plane import supervisor as supervisor_module
from tonnage.plane.settings import choose_ports
from tonnage.plane.supervisor import ChildFailed, Liveness, ProbeTimes, Supervisor, is_answered


async def test_a_forkserver_that_ends_is_told_at_once_and_with_its_last_words(tmp_path: Path, monkeypatch):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'ImportError: no numpy' >&2\nexit 1\n")
    broken.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(broken))
    supervisor = Supervisor(tmp_path / "logs", tmp_path / "run", clock=SystemClock(), rng=random.Random(1))
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    try:
        await supervisor.open(lock=lock)
        supervisor.start("apiserver", ["apiserver"])
        with pytest.raises(ChildFailed) as failed:
            await supervisor.wait_ready("apiserver", timeout_s=20.0)
        assert failed.value.message == (
            "the process that starts the cluster's programs has ended; its log ends with:\nImportError: no numpy"
        )
        assert failed.value.hint == f"all of it is in {tmp_path / 'logs' / 'forkserver.log'}"
    finally:
        await supervisor.close()
        os.close(lock)


PROGRAM = """
import asyncio, sys, time
from tonnage.plane.forkserver import Forkserver

async def serve(port):
    async def answer(reader, writer):
        head = await reader.readline()
        if b"/stuck" in head:
            time.sleep(600)  # the loop stands still: nobody is answered, no signal is heeded
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
        writer.close()
    server = await asyncio.start_server(answer, "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()

Forkserver(lambda: asyncio.run(serve(int(sys.argv[1]))), {}).run()
"""


@asynccontextmanager
async def one_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probes: ProbeTimes
) -> AsyncIterator[tuple[Supervisor, int]]:
    """A supervisor with one small program, which it watches, and the program's port."""
    monkeypatch.setattr(forkserver, "command", lambda: [sys.executable, "-c", PROGRAM])
    clock, rng = SystemClock(), random.Random(1)
    supervisor = Supervisor(tmp_path / "logs", tmp_path / "run", clock=clock, rng=rng, probes=probes)
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    port = choose_ports(["web"], {}, random.Random())["web"]
    try:
        await supervisor.open(lock=lock)
        supervisor.start("web", [str(port)])
        await supervisor.wait_ready("web", timeout_s=20.0)
        supervisor.watch_liveness({"web": f"http://127.0.0.1:{port}"})
        yield supervisor, port
    finally:
        await supervisor.stop("web")
        await supervisor.close()
        os.close(lock)


@pytest.mark.parametrize("how", ["blocked", "stopped"])
async def test_a_program_whose_loop_stands_still_is_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str
):
    monkeypatch.setattr(supervisor_module, "_STOP_GRACE_S", 0.1)
    times = ProbeTimes(period_s=0.05, timeout_s=0.7, failures=2)
    async with one_program(tmp_path, monkeypatch, times) as (supervisor, port):
        web = supervisor["web"]
        first = web.pid

        async def is_back() -> bool:
            return web.starts == 2 and web.is_ready.is_set() and web.pid not in (0, first)

        await asyncio.sleep(0.3)  # it is asked, and answers
        assert (web.starts, web.pid) == (1, first)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        if how == "blocked":
            writer.write(b"GET /stuck HTTP/1.1\r\n\r\n")
        else:
            os.kill(first, signal.SIGSTOP)
        await eventually_async(is_back, within_s=20.0)
        writer.transport.abort()
        assert "Does not answer its health page any more, and is restarted" in caplog.messages
        assert await is_answered(f"http://127.0.0.1:{port}", 5.0, SystemClock())


def test_silence_counts_in_a_row_and_in_one_life():
    liveness = Liveness()
    assert [liveness.note(1, answered=each) for each in (True, False, False, True, False)] == [0, 1, 2, 0, 1]
    assert [liveness.note(2, answered=each) for each in (False, False, True, False)] == [1, 2, 0, 1]


async def keep_silent(reader: asyncio.StreamReader) -> None:
    """Until the other side goes."""
    with suppress(ConnectionError):
        await reader.read()


async def hang_up(_: asyncio.StreamReader) -> None:
    return


@asynccontextmanager
async def listening(handle: Callable[[asyncio.StreamReader], Awaitable[None]]) -> AsyncIterator[str]:
    """A listener that one connection is made to; its host and port."""
    has_ended = asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await handle(reader)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        has_ended.set()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await asyncio.wait_for(has_ended.wait(), 20.0)
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize(
    ("handle", "scheme", "expected"),
    [(hang_up, "http", True), (keep_silent, "http", False), (keep_silent, "https", False)],
)
async def test_whoever_refuses_or_hangs_up_is_alive_and_one_that_is_silent_is_not(
    handle: Callable[[asyncio.StreamReader], Awaitable[None]], scheme: str, expected: bool
):
    clock = SystemClock()
    async with listening(handle) as address:
        assert await is_answered(f"{scheme}://{address}", 0.2, clock) is expected
    assert await is_answered(f"{scheme}://{address}", 0.2, clock)  # nobody listens there any more


async def test_silence_says_nothing_when_we_were_away_ourselves():
    """A laptop that was suspended: our own timer comes late too."""

    class Suspended(SystemClock):
        away_s = 0.0

        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            self.away_s = 3600.0

        def monotonic(self) -> float:
            return super().monotonic() + self.away_s

    async with listening(keep_silent) as address:
        assert await is_answered(f"http://{address}", 0.05, Suspended())
