"""Whole clusters on one machine: `tonnage up` runs one, `tonnage status` shows it, `tonnage demo` plays stories.

The stories live in `tonnage.stories`. The demo runs every suite of stories on a new cluster, which it removes again,
also after SIGTERM. It exits 0 only if every claim of every story holds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from tonnage.cli import commands, output, running
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.output import COUNT, FOLDER_PATH, POOLS, columns, echo, feature_gates, from_flags, logging_options, say
from tonnage.clock import SystemClock
from tonnage.driver.node_pools import by_node, pools_by_node
from tonnage.errors import closest
from tonnage.gates import Gates
from tonnage.node.settings import ATTACH_ERROR_GRACE_S
from tonnage.plane.settings import MAX_CLASSES, MAX_NODES, PlaneSettings, default_folder
from tonnage.printable import text

if TYPE_CHECKING:
    from rich.console import Console

    from tonnage.objects.document import Doc
    from tonnage.stories.suites import Suite


@click.command()
@click.option(
    "--data-dir",
    type=FOLDER_PATH,
    default=default_folder,
    help="Folder for everything that the cluster keeps.  [default: ~/.tonnage]",
)
@flag_table(f"""
    --nodes INT[1..{MAX_NODES}]  Number of nodes. [default: as before, else as many as --pools names, else 3]
    --pools POOLS... <[NODE=]LIST>  Pools of each node, as 3x100Gi or 100Gi,50Gi. [default: as before, else 3x100Gi]
    --max-volumes COUNT... <[NODE=]N>  Volumes that may be attached to a node. [default: as before, else 16]
    --pool-policy best-fit|most-free|first-fit|random  How the driver picks a pool; also written to its CSIDriver
        (annotation tonnage.dev/pool-policy). [default: as before, else best-fit]
    --one-number pools|sum|largest  Play a driver that cannot report pools: it reports the sum of a node's pools, or
        the largest, and keeps the pools in LVMNode objects in namespace openebs (give their CustomResourceDefinition
        with -f). `pools` reports all pools. [default: as before, else pools]
    --classes INT[1..{MAX_CLASSES}]  Number of StorageClasses pools, pools-2, … which all draw from the same pools
        (annotation tonnage.dev/capacity-group). [default: as before, else 1]
    -f, --filename as files TEXT...  Manifests to apply before nodes start.
    --bind TEXT=127.0.0.1  Address that the API server listens on.
    --secure-port PORT=6443  Port to listen on; 0 takes a free one.
    --scheduler-config EXISTING  KubeSchedulerConfiguration: profiles, weights, how capacity is reserved.
    --event-ttl DURATION=1h  How long to keep events.
    --attach-error-grace-seconds as attach_error_grace_s FLOAT[0.0..]={ATTACH_ERROR_GRACE_S}  How long attaching must
        have failed because the node's attach limit is reached, before the pod fails (KEP-4876).
    --audit-log-path TEXT= <FILE>  Write a line for every request to the API server to this file: user, request,
        response code. Off by default.
    --max-log-size as max_log_bytes BYTES=10Mi  Start a new log file at this size; the one before it is kept.
    --dashboard  Serve the dashboard as well, on loopback, and print its address.
    --dashboard-port PORT  Port of the dashboard; 0 takes a free one. [default: 8080, or a free one when that is taken]
""")
@feature_gates
@logging_options
def up(files: tuple[str, ...], **flags: Any) -> None:
    """Prints "ready https://…" once all nodes are Ready and their capacity is known. kubectl works with DIR/kubeconfig.
    Its programs serve health, metrics and debug pages on free loopback ports; DIR/endpoints.json and `tonnage
    status --data-dir DIR` say where. With --dashboard a second line, "dashboard http://…/#token=…", is the address of
    a web page of the cluster; it stays the same from start to start while its port is free. Ctrl-C or SIGTERM stops it
    cleanly; the next start on the same folder goes on where it was.
    """
    if flags["dashboard_port"] is not None and not flags["dashboard"]:
        raise click.UsageError("--dashboard-port goes with --dashboard")
    output.say_all("warning", flags["gates"].warnings)
    settings = from_flags(
        PlaneSettings,
        click.get_current_context().params,
        pools=tuple(flag.text for flag in flags["pools"]) or None,
        max_volumes=tuple(flag.text for flag in flags["max_volumes"]) or None,
    )
    _check(settings)
    asyncio.run(running.run_until_signalled(_run(settings, _manifests(files))))


def _manifests(files: tuple[str, ...]) -> list[Doc]:
    if not files:
        return []
    from tonnage.whatif.manifests import documents_in

    return [doc for _, _, doc in documents_in(files)]


def _check(settings: PlaneSettings) -> None:
    """Raise UsageError for pools and limits of nodes that do not exist, TonnageError for a folder of something else.
    Settings kept from earlier starts count too."""
    settings.require_own_contents()
    shape = settings.resolved()
    nodes = shape.node_names
    try:
        pools_by_node([POOLS.convert(text, None, None) for text in shape.pools], nodes)
        by_node("--max-volumes", [COUNT.convert(text, None, None) for text in shape.max_volumes], nodes)
    except ValueError as exc:
        raise click.UsageError(f"{exc} (--nodes is {len(nodes)})") from exc


async def _run(settings: PlaneSettings, manifests: list[Doc]) -> None:
    from tonnage.plane.cluster import Plane

    clock, rng = SystemClock(), random.Random(secrets.randbits(64))
    async with AsyncExitStack() as stack:
        with output.shown_status("loading") as show:
            plane = await stack.enter_async_context(
                Plane(settings, clock=clock, rng=rng, manifests=manifests, progress=show)
            )
        echo(f"kubeconfig {settings.kubeconfig}", err=True)
        running.say_ready(plane.url)
        if plane.dashboard_url:
            echo(f"dashboard {plane.dashboard_url}")
        if sys.stderr.isatty():
            echo("\n".join(_next_steps(settings)), err=True)
        await plane.run()


def _next_steps(settings: PlaneSettings) -> Iterator[str]:
    """What to do with a cluster that is ready, for somebody who started it in a terminal."""
    folder = shlex.quote(str(settings.data_dir.absolute()))
    program = shlex.quote(os.environ.get("TONNAGE_CALLED_AS", "tonnage"))  # a checkout's ./tonnage is not on the PATH
    yield ""
    yield "In another terminal:"
    yield f"  export KUBECONFIG={shlex.quote(str(settings.kubeconfig.absolute()))}"
    yield "  kubectl get nodes"
    if settings.dashboard:
        yield "The dashboard: open the address above in a browser."
    else:
        yield f"  {program} dashboard     # a web page; `tonnage up --dashboard` serves it too"
    yield f"To stop the cluster: Ctrl-C, or kill {os.getpid()}. The same command starts it again."
    yield f"To remove it, once it is stopped: rm -r {folder}"


def _story_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from tonnage.stories.suites import STORIES, title_of

    return [CompletionItem(name, help=title_of(each)) for name, each in STORIES.items() if name.startswith(incomplete)]


@click.command()
@flag_table(
    """
    --list as lists  List the stories, and play none.
    --only STORY... <STORY>  Play only this story; may be repeated. [default: all]
    """,
    STORY=_story_names,
)
def demo(lists: bool, only: tuple[str, ...]) -> None:
    from tonnage.stories.suites import STORIES, SUITES, title_of

    unknown = [name for name in only if name not in STORIES]
    if unknown:
        near = closest(unknown[0], STORIES)
        hint = f"did you mean '{near[0]}'?" if near else "'tonnage demo --list' says what they show"
        raise commands.HintedUsageError(f'there is no story "{unknown[0]}"; the stories are {", ".join(STORIES)}', hint)
    if lists:
        rows = ((name, title_of(story)) for name, story in STORIES.items() if name in only or not only)
        echo("\n".join(columns(("STORY", "WHAT IT SHOWS"), rows)))
        return
    from rich.console import Console

    # A story may kill a program: what the supervisor logs about that is no part of the story.
    logging.getLogger().addHandler(logging.NullHandler())
    console = Console(highlight=False)
    started_at = time.monotonic()
    suites = [each for suite in SUITES if (each := suite.only(only)).stories]
    try:
        with tempfile.TemporaryDirectory(prefix="tonnage-demo-") as folder:
            failures = asyncio.run(_run_all(suites, Path(folder), console))
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None
    console.print()
    console.print(text(f"played in {time.monotonic() - started_at:.0f} s"))
    if failures:
        say("error", f"{len(failures)} of the checks above failed")
        raise SystemExit(1)
    count = sum(len(suite.stories) for suite in suites)
    console.print(text(f"all {count} stories passed" if count > 1 else "1 story passed"))


async def _run_all(suites: Sequence[Suite], folder: Path, console: Console) -> list[str]:
    task = asyncio.current_task()
    assert task is not None
    # Like Ctrl-C: stop the cluster in order, and remove its folder.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    failures: list[str] = []
    for number, suite in enumerate(suites):
        failures += await run_suite(suite, folder / f"suite-{number + 1}", console)
    return failures


async def run_suite(suite: Suite, folder: Path, console: Console) -> list[str]:
    """Run a suite on a new cluster. Returns the checks that failed."""
    from tonnage.plane.cluster import Plane
    from tonnage.stories.story_runner import StoryRunner
    from tonnage.stories.suites import title_of

    config = _profiles(folder)
    settings = PlaneSettings(
        data_dir=folder,
        nodes=suite.nodes,
        pools=suite.node_pools,
        max_volumes=suite.max_volumes,
        secure_port=0,
        gates=Gates.parse(suite.gates),
        scheduler_config=config,
        attach_error_grace_s=1.0,  # no story gives a slot back, and people watch
    )
    clock = SystemClock()
    console.rule(text(suite.title, "bold"))
    async with AsyncExitStack() as stack:
        with console.status("starting a cluster"):
            started_at = clock.monotonic()
            plane = await stack.enter_async_context(
                Plane(settings, clock=clock, rng=random.Random(secrets.randbits(64)))
            )
        ready = f"a cluster at {plane.url}, ready after {clock.monotonic() - started_at:.1f} s"
        pools = f"pools {', '.join(suite.node_pools)}" + (f"; {suite.gates}" if suite.gates else "")
        console.print(text(f"{ready}: {pools}"))
        runner = StoryRunner(plane, console, clock=clock)
        for story in suite.stories:
            async with runner.story(title_of(story)):
                await story(runner)
    return runner.failures


def _profiles(folder: Path) -> Path:
    from tonnage.stories.suites import PROFILES

    folder.mkdir(parents=True)
    config = folder / "profiles.yaml"
    config.write_text(PROFILES)
    return config
