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

from tonnage.clock import Clock
from tonnage.deadline import within
from tonnage.errors import TonnageError
from tonnage.pools.sources.command import CommandOutput, read_output

MOST_OUTPUT: Final = 1 << 20
"""Bytes; ten thousand pools are less."""
_MOST_ERROR: Final = 400
_CHUNK: Final = 1 << 16


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
        await _end(process)
    if len(output) > MOST_OUTPUT:
        raise CommandFailed(command, "too-much", f"it printed more than {MOST_OUTPUT} bytes")
    if process.returncode != 0:
        said = error[-_MOST_ERROR:].decode(errors="replace").strip()
        raise CommandFailed(command, "failed", f"exit {process.returncode}" + (f": {said}" if said else ""))
    return read_output(output)


async def _read(process: Process) -> tuple[bytes, bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    output, error = await asyncio.gather(
        _bounded(process.stdout, MOST_OUTPUT + 1, stops=True), _bounded(process.stderr, MOST_OUTPUT, stops=False)
    )
    if len(output) <= MOST_OUTPUT:
        await process.wait()
    return output, error


async def _bounded(stream: asyncio.StreamReader, most: int, *, stops: bool) -> bytes:
    """What a stream brings, up to so much; the rest is left unread, or read and thrown away."""
    found = bytearray()
    while chunk := await stream.read(_CHUNK):
        found += chunk[: max(most - len(found), 0)]
        if stops and len(found) >= most:
            break
    return bytes(found)


async def _end(process: Process) -> None:
    """Nothing that was started is left behind."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
