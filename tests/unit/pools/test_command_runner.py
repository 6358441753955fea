"""A program that prints pools: what is made of what it does."""

from __future__ import annotations

import sys

import pytest

from tonnage.clock import SystemClock
from tonnage.pools.sources.command import CommandFailed, CommandOutput, InvalidOutput, run_command

GI = 1 << 30


async def run(program: str, timeout_s: float = 60.0) -> CommandOutput:
    return await run_command([sys.executable, "-c", program], clock=SystemClock(), timeout_s=timeout_s)


async def test_what_it_prints_is_read() -> None:
    output = await run('print(\'[{"free": "2Gi"}]\')')
    assert output.pools is not None
    assert [pool.free_bytes for pool in output.pools] == [2 * GI]


async def test_one_that_hangs_is_killed_with_what_it_started() -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    with pytest.raises(CommandFailed) as caught:
        await run(program, timeout_s=0.5)
    assert caught.value.reason == "timeout"


async def test_one_that_prints_without_end_is_stopped() -> None:
    with pytest.raises(CommandFailed) as caught:
        await run("import sys\nwhile True: sys.stdout.write('x' * 65536)")
    assert caught.value.reason == "too-much"


async def test_one_that_fails_is_quoted() -> None:
    with pytest.raises(CommandFailed) as caught:
        await run("import sys; print('vgs: no such thing', file=sys.stderr); sys.exit(3)")
    assert caught.value.reason == "failed"
    assert caught.value.message.endswith("exit 3: vgs: no such thing")


async def test_one_that_is_not_there_is_told() -> None:
    with pytest.raises(CommandFailed) as caught:
        await run_command(["/no/such/program"], clock=SystemClock(), timeout_s=5.0)
    assert caught.value.reason == "not-started"


async def test_what_is_no_list_is_refused() -> None:
    with pytest.raises(InvalidOutput):
        await run("print('nothing')")
