"""How every long-running command runs: find the API server, work until told to stop, end in order."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tonnage.cli.flags.go_flags import FILE
from tonnage.cli.output import echo
from tonnage.clock import SystemClock
from tonnage.serving.process_memory import memory_kept_level

if TYPE_CHECKING:
    from tonnage.client.config.connection import ServerConnection

_USUAL_THRESHOLD: Final = (700, 10, 10)
"""How often Python looks for circles by itself; what was loaded until then is spared."""


def connection_of(wanted: Path | None, master: str = "") -> ServerConnection:
    """The file that was named, else the pod's service account, else $KUBECONFIG and the usual place.

    `master` is another address of the server; with it, and nothing else, nobody says who we are.
    """
    from tonnage.client.config import kubeconfig
    from tonnage.client.config.connection import KubeconfigCluster, ServerConnection

    if master:
        try:
            found = connection_of(wanted)
        except kubeconfig.NoKubeconfig:
            return ServerConnection(KubeconfigCluster(master.rstrip("/")))
        return replace(found, cluster=replace(found.cluster, server=master.rstrip("/")))
    if wanted is None and "KUBECONFIG" not in os.environ and kubeconfig.is_possible():
        return kubeconfig.load_in_cluster()
    return kubeconfig.load(wanted)


async def run_until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """Run the work; SIGTERM or Ctrl-C cancels it and lets it end in order."""
    gc.freeze()
    gc.set_threshold(*_USUAL_THRESHOLD)
    async with memory_kept_level(SystemClock()):
        running = asyncio.create_task(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.cancel)
        with suppress(asyncio.CancelledError):
            await running


def say_ready(what: str = "") -> None:
    """The one line on stdout that scripts wait for."""
    echo(f"ready {what}".rstrip())


kubeconfig_option = click.option(
    "--kubeconfig",
    "kubeconfig_file",
    type=FILE,
    help="How to reach the API server; else the pod's service account, $KUBECONFIG, or the usual place.",
)
