"""`tonnage shadow`: decide along with a cluster's scheduler, write nothing, and say where the two differ."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import DURATION, feature_gates
from tonnage.cli.output import say, written, written_json
from tonnage.clock import SystemClock
from tonnage.gates import Gates
from tonnage.whatif.shadow import STUCK_AFTER_S

if TYPE_CHECKING:
    from tonnage.client.http import Client
    from tonnage.whatif.shadow.follow import Following
    from tonnage.whatif.shadow.judging import ShadowVerdict
    from tonnage.whatif.shadow.signs import Shadow
    from tonnage.whatif.shadow.tally import Refusal


@click.command()
@click.option(
    "--kubeconfig",
    "kubeconfig_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The cluster to follow; else $KUBECONFIG, or the usual file.",
)
@click.option("--context", default="", metavar="NAME", help="The context of the kubeconfig; its current one.")
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="KubeSchedulerConfiguration."
)
@click.option("--for", "for_s", type=DURATION, default=None, help="End after so long; else with Ctrl-C.")
@click.option(
    "--stuck-after",
    "stuck_after_s",
    type=DURATION,
    default=STUCK_AFTER_S,
    show_default="2m",
    help="A claim that has no volume so long after the decision counts as refused.",
)
@feature_gates
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def shadow(
    kubeconfig_file: Path | None,
    context: str,
    config_file: Path | None,
    for_s: float | None,
    stuck_after_s: float,
    gates: Gates,
    output: str,
) -> None:
    """Decide along with the scheduler of a live cluster, and say where the two differ and why.

    For every pod that the cluster's scheduler places, Tonnage decides on the same state, just before; nodes that score
    alike count as agreed. At the end it tells how often a pod was sent where its volumes could not be made, and how
    often Tonnage would not have sent it there. What differs is told on stderr as it is found. Only reads are made:
    nothing is written to the cluster, no event and no lease either. Ctrl-C is the usual end: the answer follows, and
    the exit code is 0.
    """
    from tonnage.client.config import kubeconfig
    from tonnage.client.http import Client
    from tonnage.scheduler.configuration_file import foreign_plugins, load_configuration
    from tonnage.whatif.shadow.judging import Judge
    from tonnage.whatif.shadow.signs import Shadow
    from tonnage.whatif.shadow.tally import Tally, show

    for warning in gates.warnings:
        say("warning", warning)
    foreign = foreign_plugins()
    configuration = load_configuration(config_file, gates, foreign)
    for note in configuration.notes:
        say("note", note)
    connection = kubeconfig.load(kubeconfig_file, context=context)
    clock = SystemClock()
    judge = Judge(configuration.profiles, clock=clock, foreign=foreign)
    tally = Tally(clock.now(), on_difference=_say_difference, on_refusal=_say_refusal)
    following = Shadow(judge, tally, stuck_after_s=stuck_after_s)

    async def run() -> None:
        async with Client.connect(connection, clock=clock, user_agent="tonnage-shadow") as client:
            await _followed(client, following, for_s)

    asyncio.run(run())
    until = clock.now()
    if output == "json":
        written_json(tally.document(until))
    else:
        written(lambda: show(tally, until, sys.stdout))


def _say_difference(found: ShadowVerdict) -> None:
    from tonnage.whatif.shadow.tally import NOWHERE

    ours = found.ours or NOWHERE
    say("differs", f"{found.pod} went to {found.theirs}, Tonnage would send it to {ours}: {found.why}")


def _say_refusal(found: Refusal) -> None:
    say("refused", f"{found.verdict.pod} on {found.verdict.theirs}: {found.seen_by}; Tonnage {found.tonnage}")


async def _followed(client: Client, shadow: Shadow, for_s: float | None) -> None:
    """Follow until the time is over or Ctrl-C is pressed; a second Ctrl-C wants no answer."""
    from tonnage.whatif.shadow.follow import Following

    following = Following(client, shadow, note=partial(say, "note"))
    work = asyncio.ensure_future(_follow(client, following, for_s, shadow))
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        loop.remove_signal_handler(number)
        if not following.end():
            work.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, partial(stop, number))
    await asyncio.wait((work,))
    if not work.cancelled():
        work.result()
    shadow.close()


async def _follow(client: Client, following: Following, for_s: float | None, shadow: Shadow) -> None:
    from tonnage.whatif.shadow.tally import counts

    async with following:
        await following.wait_synced()
        say("following", f"{client.server}; Ctrl-C ends it")
        with _progress() as show:
            await following.run(for_s, lambda: show(counts(shadow.tally)))


@contextmanager
def _progress() -> Iterator[Callable[[str], object]]:
    """A line that tells how it stands, on a terminal alone."""
    if not sys.stderr.isatty():
        yield lambda line: None
        return
    from rich.console import Console

    from tonnage.printable import text

    with Console(stderr=True).status(text("nothing decided yet")) as status:
        yield lambda line: status.update(text(line))
