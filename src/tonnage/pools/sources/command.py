"""Any driver: a program on every node that prints the node's pools as JSON. How it is run, and what it may print.

    [{"name": "fast", "free": "100Gi"}, {"name": "slow", "free": 214748364800}]        for every class of the driver
    {"classes": {"fast": [{"free": "100Gi"}]}, "policy": "most-free"}                  for some, and how it chooses

Two classes with a pool of the same `name` share disks; without a name a pool is its place in the list. Any other form
is refused as a whole. A program that hangs is killed, with its children.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from tonnage.clock import Clock, within
from tonnage.errors import TonnageError
from tonnage.objects.storage_v1 import POOL_POLICIES, StorageClass
from tonnage.pools.class_pools import ClassPools, NodePools, Pool, PoolSource, Published
from tonnage.pools.reading import bytes_of

MOST_POOLS = 10_000
"""On one node; a longer list is a mistake."""


class InvalidOutput(TonnageError):
    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the output is not a list of pools: {problem}",
            hint='print JSON such as [{"name": "fast", "free": "100Gi"}]',
        )


@dataclass(frozen=True)
class CommandOutput:
    pools: tuple[Pool, ...] | None = None
    """For every class; None if the output lists pools by class."""
    by_class: Mapping[str, tuple[Pool, ...]] = field(default_factory=dict)
    policy: str = ""


@dataclass(frozen=True)
class CommandPools(PoolSource):
    """`--source command`: the last good output of the program on this node."""

    only_node: str
    drivers: tuple[str, ...]
    output: CommandOutput | None = None
    observed_at: datetime | None = None
    silent_since: datetime | None = None
    """Since when the program's output is unusable; None: the last run was good."""
    name: str = "command"

    def pools_of(self, storage_class: StorageClass, published: Published) -> ClassPools:
        if self.output is None:
            return ClassPools()
        pools = self.output.by_class.get(storage_class.name, self.output.pools)
        if pools is None:
            return ClassPools()
        return ClassPools.of({self.only_node: NodePools(pools, self.observed_at)}, self.output.policy, ())


def read_output(text: bytes) -> CommandOutput:
    """Read a program's output. Raises InvalidOutput."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise InvalidOutput(f"it is not JSON ({exc})" if text.strip() else "it is empty") from exc
    if isinstance(found, list):
        return CommandOutput(_pools(found, "the list"))
    if not isinstance(found, dict):
        raise InvalidOutput("it is neither a list nor an object")
    unknown = sorted(found.keys() - {"pools", "classes", "policy"})
    if unknown:
        raise InvalidOutput(f'unknown field "{unknown[0]}"; there are pools, classes and policy')
    policy, classes = found.get("policy", ""), found.get("classes", {})
    if policy and policy not in POOL_POLICIES:
        raise InvalidOutput(f'policy "{policy}" is not one of {", ".join(POOL_POLICIES)}')
    if not isinstance(classes, dict) or not ("pools" in found or "classes" in found):
        raise InvalidOutput("it has neither pools nor classes")
    pools = _pools(found["pools"], "pools") if "pools" in found else None
    by_class = {name: _pools(told, f"classes.{name}") for name, told in classes.items()}
    return CommandOutput(pools, by_class, policy or "")


def _pools(told: Any, where: str) -> tuple[Pool, ...]:
    if not isinstance(told, list) or len(told) > MOST_POOLS:
        raise InvalidOutput(f"{where} is not a list of at most {MOST_POOLS} pools")
    found: dict[str, Pool] = {}
    for number, entry in enumerate(told):
        pool = entry if isinstance(entry, dict) else {"free": entry}
        unknown = sorted(pool.keys() - {"name", "free"})
        free, name = bytes_of(pool.get("free")), pool.get("name", f"{where}#{number}")
        if unknown or free is None or not isinstance(name, str) or not name:
            problem = f'unknown field "{unknown[0]}"' if unknown else 'a pool has a "free" such as "100Gi"'
            raise InvalidOutput(f"{where}[{number}]: {problem}")
        if name in found:
            raise InvalidOutput(f'{where}[{number}]: there are two pools named "{name}"')
        found[name] = Pool(name, free)
    return tuple(found.values())


MOST_OUTPUT: Final = 1 << 20
"""Bytes; ten thousand pools are less."""
_MOST_ERROR: Final = 400
_CHUNK: Final = 1 << 16
_END_S: Final = 5.0
"""How long to wait for a child that has left the session and still holds the pipe."""


class CommandFailed(TonnageError):
    """A program printed no pools; `reason` is a word for counting."""

    def __init__(self, command: Sequence[str], reason: str, problem: str) -> None:
        self.reason = reason
        super().__init__(f"{command[0]}: {problem}")


async def run_command(command: Sequence[str], *, clock: Clock, timeout_s: float) -> CommandOutput:
    """One run. Raises CommandFailed, or InvalidOutput for its output."""
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
    """The first `most` bytes of a stream; the rest is read and dropped or, with `stops`, left unread."""
    found = bytearray()
    while chunk := await stream.read(_CHUNK):
        found += chunk[: max(most - len(found), 0)]
        if stops and len(found) >= most:
            break
    return bytes(found)


async def _end(process: Process, clock: Clock) -> None:
    """Kill the program and its children; read the rest of the output, or the process would not end."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        await within(clock, _END_S, _drain(process))


async def _drain(process: Process) -> None:
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            await _bounded(stream, 0)
    await process.wait()
