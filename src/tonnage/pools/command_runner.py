"""Runs a program that prints a node's pools: within a time, and no more of what it prints than can be meant.

A program that hangs is killed, with all that it started. Its environment is this program's; nothing is read by a shell.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from tonnage.clock import Clock, within
from tonnage.errors import TonnageError
from tonnage.pools.sources.command import CommandOutput, read_output

MOST_OUTPUT: Final = 1 << 20
"""Bytes; ten thousand pools are less."""
_MOST_ERROR: Final = 400
_CHUNK: Final = 1 << 16
_END_S: Final = 5.0
"""A program that has left its session, and holds on to the pipe, is not waited for."""


class CommandFailed(TonnageError):
    """A program that printed no pools; `reason` is a word for counting."""

    def __init__(self, command: Sequence[str], reason: str, problem: str) -> None:
        self.reason = reason
        super().__init__(f"{command[0]}: {problem}")


async def run_command(command: Sequence[str], *, clock: Clock, timeout_s: float) -> CommandOutput:
    """One run. Raises CommandFailed, or InvalidOutput for what it printed."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
    except OSError as exc:
        raise CommandFailed(command, "not-started", exc.strerror or str(exc)) from exc
    try:
        output, error = await within(clock, timeout_s, _read(process))
    except TimeoutError:
        raise CommandFailed(command, "timeout", f"no end after {timeout_s:g} s; it was killed") from None
    finally:
        await _end(process, clock)
    if len(output) > MOST_OUTPUT:
        raise CommandFailed(command, "too-much", f"it printed more than {MOST_OUTPUT} bytes")
    if process.returncode != 0:
        said = error.decode(errors="replace").strip()
        raise CommandFailed(command, "failed", f"exit {process.returncode}" + (f": {said}" if said else ""))
    return read_output(output)


async def _read(process: Process) -> tuple[bytes, bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    complaints = asyncio.create_task(_bounded(process.stderr, _MOST_ERROR))
    try:
        output = await _bounded(process.stdout, MOST_OUTPUT + 1, stops=True)
        if len(output) > MOST_OUTPUT:
            return output, b""
        error = await complaints
        await process.wait()
        return output, error
    finally:
        complaints.cancel()


async def _bounded(stream: asyncio.StreamReader, most: int, *, stops: bool = False) -> bytes:
    """The beginning of what a stream brings, up to so much; the rest is read and thrown away, or left unread."""
    found = bytearray()
    while chunk := await stream.read(_CHUNK):
        found += chunk[: max(most - len(found), 0)]
        if stops and len(found) >= most:
            break
    return bytes(found)


async def _end(process: Process, clock: Clock) -> None:
    """Nothing that was started is left behind, nor waited for: what it printed last is read, or it would not end."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        await within(clock, _END_S, _drain(process))


async def _drain(process: Process) -> None:
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            await _bounded(stream, 0)
    await process.wait()
