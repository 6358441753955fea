"""`tonnage top`: a cluster's storage in a terminal, kept up to date."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click

from tonnage.cli.cluster_options import ClusterQuestion, live_cluster_options
from tonnage.cli.output import say
from tonnage.clock import SystemClock
from tonnage.errors import TonnageError

if TYPE_CHECKING:
    from tonnage.dashboard.terminal.app import Top


@click.command()
@live_cluster_options
def top(cluster: ClusterQuestion) -> None:
    """Show a cluster's storage in a terminal as it changes: pools, claims, who waits and why, what happens.

    What `tonnage dashboard` shows, for a terminal of 80 columns and more, also over ssh. It reads with the rights of
    the kubeconfig's user and writes nothing. Keys are shown at the bottom; ? tells more of them, q leaves. NO_COLOR is
    heeded, and a locale without UTF-8.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TonnageError(
            "tonnage top needs a terminal, and this is none",
            hint="for scripts there are tonnage explain --pending -o json, and the dashboard's JSON",
        )
    kind = os.environ.get("TERM", "")
    if kind in ("", "dumb", "unknown"):
        raise TonnageError(
            f"tonnage top cannot draw on this terminal: TERM is {kind or 'not set'}",
            hint="set TERM to what the terminal is, such as xterm-256color; tonnage explain --pending needs none",
        )
    # Logs would be written over the screen; what a person should know stands there as a notice.
    logging.getLogger().addHandler(logging.NullHandler())
    asyncio.run(_run(cluster))


async def _run(question: ClusterQuestion) -> None:
    async with following(question) as app:
        await app.run_async()


@asynccontextmanager
async def following(question: ClusterQuestion) -> AsyncIterator[Top]:
    """The program, and the cluster that it shows followed while the block runs."""
    from tonnage.client.http import Client
    from tonnage.dashboard.follow.driver_records import following_pools
    from tonnage.dashboard.follow.live_cluster import LiveCluster
    from tonnage.dashboard.follow.shown_cluster import following_faults
    from tonnage.dashboard.questions.asking import Asking
    from tonnage.dashboard.terminal.app import Top
    from tonnage.dashboard.terminal.pending_page import LiveQuestions
    from tonnage.whatif.sources import check_answers

    connection, scheduler, clock = question.connection, question.scheduler(), SystemClock()
    asking = Asking(question.config_file, question.gates)
    for note in asking.configuration.notes:  # a configuration that is wrong is told before the screen is taken
        say("note", note)
    async with Client.connect(connection, clock=clock, user_agent="tonnage-top") as client:
        await check_answers(client)
        cluster = LiveCluster(
            client,
            scheduler=scheduler,
            scheduler_user=question.scheduler_user(),
            namespace=question.given_namespace,
        )
        folder = question.embedded_folder
        async with cluster, following_faults(cluster, folder), following_pools(cluster, folder):
            await cluster.wait_first()
            yield Top(cluster, LiveQuestions(cluster, asking))
