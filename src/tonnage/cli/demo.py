"""`tonnage demo`: the enhancements' stories, run on fresh embedded clusters, with and without the gates.

The stories are in `tonnage.stories`; here is a cluster for each suite of them, a console to write on, and the
verdict. The exit code is 0 only if every claim of every story held. Told to end, it leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage import logs
from tonnage.cli.output import echo
from tonnage.clock import SystemClock
from tonnage.gates import Gates
from tonnage.plane.settings import PlaneSettings
from tonnage.printable import text

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.stories.suites import Suite


@click.command()
def demo() -> None:
    """Play the enhancements' stories on fresh embedded clusters; exit 0 only if all of them hold."""
    from rich.console import Console

    logs.configure(format="text", verbosity=0)
    console = Console(highlight=False)
    started_at = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="tonnage-demo-") as folder:
            failures = asyncio.run(_run_all(Path(folder), console))
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None
    console.print()
    console.print(text(f"played in {time.monotonic() - started_at:.0f} s"))
    if failures:
        echo(f"error: {len(failures)} of the claims above did not hold", err=True)
        raise SystemExit(1)
    console.print(text("all of it held"))


async def _run_all(folder: Path, console: Console) -> list[str]:
    from tonnage.stories.suites import SUITES

    task = asyncio.current_task()
    assert task is not None
    # As Ctrl-C does by itself: the cluster is stopped in order, and its folder removed.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    failures: list[str] = []
    for number, suite in enumerate(SUITES):
        failures += await run_suite(suite, folder / f"suite-{number + 1}", console)
    return failures


async def run_suite(suite: Suite, folder: Path, console: Console) -> list[str]:
    """One suite on a cluster of its own; the claims that did not hold."""
    from tonnage.plane.cluster import Plane
    from tonnage.stories.story_runner import StoryRunner

    config = _profiles(folder)
    settings = PlaneSettings(
        data_dir=folder,
        nodes=suite.nodes,
        pools=suite.node_pools,
        max_volumes=suite.max_volumes,
        secure_port=0,
        gates=Gates.parse(suite.gates),
        scheduler_config=config,
        attach_error_grace_s=1.0,  # nothing gives a slot back in the stories, and people watch
    )
    clock = SystemClock()
    console.rule(text(suite.title, "bold"))
    with console.status("starting a cluster"):
        started_at = clock.monotonic()
        plane = Plane(settings, clock=clock, rng=random.Random(secrets.randbits(64)))
        await plane.__aenter__()
    try:
        ready = f"a cluster at {plane.url}, ready after {clock.monotonic() - started_at:.1f} s"
        pools = f"pools {', '.join(suite.node_pools)}" + (f"; {suite.gates}" if suite.gates else "")
        console.print(text(f"{ready}: {pools}"))
        runner = StoryRunner(plane, console, clock=clock)
        for story in suite.stories:
            async with runner.story((story.__doc__ or "").strip()):
                await story(runner)
        return runner.failures
    finally:
        await plane.__aexit__(None, None, None)


def _profiles(folder: Path) -> Path:
    from tonnage.stories.suites import PROFILES

    folder.mkdir(parents=True)
    config = folder / "profiles.yaml"
    config.write_text(PROFILES)
    return config
