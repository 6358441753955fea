"""`tonnage dashboard`: a web page of a cluster's storage, for any cluster, with the rights of the kubeconfig's user."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import feature_gates, logging_options, start_logging
from tonnage.cli.output import say
from tonnage.cli.running import run_until_signalled, say_ready
from tonnage.clock import SystemClock
from tonnage.endpoints import ENDPOINTS_FILE_NAME, read_endpoints
from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.private_files import read_given

if TYPE_CHECKING:
    from tonnage.client.config.connection import Connection
    from tonnage.dashboard.server.program import DashboardSettings


@click.command()
@click.option(
    "--kubeconfig",
    "kubeconfig_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The cluster to show; else $KUBECONFIG, or the usual file.",
)
@click.option("--context", default="", metavar="NAME", help="The context of the kubeconfig; its current one.")
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes a free one.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The token that browsers show.  [default: a new one at each start]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="KubeSchedulerConfiguration of the cluster's scheduler, for explanations.",
)
@feature_gates
@logging_options
def dashboard(
    kubeconfig_file: Path | None,
    context: str,
    bind: str,
    port: int,
    token_file: Path | None,
    config_file: Path | None,
    gates: Gates,
    logging_format: str,
    verbosity: int,
) -> None:
    """Serve a web page that shows a cluster's storage as it changes: pools, claims, who waits and why.

    Prints "ready http://…/#token=…": open that address. It reads with the rights of the kubeconfig's user and no more,
    and writes nothing, but for faults of a `tonnage up` cluster that are set from the page. Ctrl-C or SIGTERM stops it.
    """
    from tonnage.client.config import kubeconfig
    from tonnage.dashboard.questions.asking import Asking
    from tonnage.dashboard.server.program import DashboardSettings

    start_logging(logging_format, verbosity)
    for warning in gates.warnings:
        say("warning", warning)
    asking = Asking(config_file, gates)
    for note in asking.configuration.notes:
        say("note", note)
    settings = DashboardSettings(host=bind, port=port, asking=asking)
    if token_file is not None:
        settings = replace(settings, token=_token(token_file))
    folder = kubeconfig_file.absolute().parent if kubeconfig_file is not None else None
    if folder is not None and (folder / ENDPOINTS_FILE_NAME).exists():
        settings = replace(settings, scheduler=read_endpoints(folder).get("scheduler"), data_dir=folder)
    connection = kubeconfig.load(kubeconfig_file, context=context)
    asyncio.run(run_until_signalled(_run(connection, settings)))


def _token(path: Path) -> str:
    token = read_given(path).decode(errors="replace").strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise TonnageError(
            f"{path} holds no token: at least 16 printable characters in one line",
            hint="python3 -c 'import secrets; print(secrets.token_urlsafe())' makes one",
        )
    return token


async def _run(connection: Connection, settings: DashboardSettings) -> None:
    from tonnage.client.http import Client
    from tonnage.dashboard.server.program import served

    async with (
        Client.connect(connection, clock=SystemClock(), user_agent="tonnage-dashboard") as client,
        served(client, settings) as address,
    ):
        say_ready(address)
        await asyncio.Event().wait()
