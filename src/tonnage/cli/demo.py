"""`tonnage demo`: the enhancements' stories, played on fresh embedded clusters, with and without the gates.

The stories are in `tonnage.stories`; here is who plays them: a cluster for each act, a page to write on, and the
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

import click
from rich.console import Console

from tonnage.cli.options import start_logging
from tonnage.clock import SystemClock
from tonnage.gates import Gates
from tonnage.plane import Plane, PlaneSettings
from tonnage.stories.acts import ACTS, PROFILES, Act
from tonnage.stories.stage import Stage


@click.command()
def demo() -> None:
    """Play the enhancements' stories on fresh embedded clusters; exit 0 only if all of them hold."""
    start_logging("text", 0)
    console = Console(highlight=False)
    started_at = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="tonnage-demo-") as folder:
            failures = asyncio.run(_play_all(Path(folder), console))
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None
    console.print(f"\nplayed in {time.monotonic() - started_at:.0f} s")
    if failures:
        click.echo(f"error: {len(failures)} of the claims above did not hold", err=True)
        raise SystemExit(1)
    console.print("all of it held")


async def _play_all(folder: Path, console: Console) -> list[str]:
    task = asyncio.current_task()
    assert task is not None
    # As Ctrl-C does by itself: the cluster is stopped in order, and its folder removed.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    failures: list[str] = []
    for number, act in enumerate(ACTS):
        failures += await play(act, folder / f"act-{number + 1}", console)
    return failures


async def play(act: Act, folder: Path, console: Console) -> list[str]:
    """One act on a cluster of its own; the claims that did not hold."""
    config = _profiles(folder)
    settings = PlaneSettings(
        data_dir=folder,
        nodes=act.nodes,
        pools=act.node_pools,
        max_volumes=act.max_volumes,
        secure_port=0,
        gates=Gates.parse(act.gates),
        scheduler_config=config,
    )
    clock = SystemClock()
    console.rule(f"[bold]{act.title}[/]")
    with console.status("starting a cluster"):
        started_at = clock.monotonic()
        plane = Plane(settings, clock=clock, rng=random.Random(secrets.randbits(64)))
        await plane.__aenter__()
    try:
        console.print(
            f"a cluster at {plane.url}, ready after {clock.monotonic() - started_at:.1f} s: "
            f"pools {', '.join(act.node_pools)}" + (f"; {act.gates}" if act.gates else "")
        )
        stage = Stage(plane, console, clock=clock)
        for story in act.stories:
            async with stage.scene((story.__doc__ or "").strip()):
                await story(stage)
        return stage.failures
    finally:
        await plane.__aexit__(None, None, None)


def _profiles(folder: Path) -> Path:
    folder.mkdir(parents=True)
    config = folder / "profiles.yaml"
    config.write_text(PROFILES)
    return config
