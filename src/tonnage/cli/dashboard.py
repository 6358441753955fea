"""`tonnage dashboard` and `tonnage top`: a cluster's storage as it changes, on a web page or in a terminal.

Both show any cluster, with the rights of the kubeconfig's user.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.cluster_options import ClusterQuestion, live_cluster_options
from tonnage.cli.flags.endpoint_flags import certificate_options, tls_of, tls_rules
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.output import Flags, logging_options, say, say_all
from tonnage.cli.running import run_until_signalled, say_ready
from tonnage.cli.status import followed_status
from tonnage.clock import SystemClock
from tonnage.endpoints import read_endpoints
from tonnage.errors import TonnageError
from tonnage.private_files import read_given

if TYPE_CHECKING:
    from tonnage.dashboard.server.program import DashboardSettings
    from tonnage.dashboard.terminal.app import Top


@click.command()
@live_cluster_options
@flag_table("""
    --data-dir FOLDER?  Folder of the cluster, if `tonnage up` runs it. [default: the folder of the kubeconfig]
    --bind as bind_address TEXT=127.0.0.1  Address to listen on; with TLS if it is not loopback.
    --port PORT=8080  Port to listen on; 0 takes a free one.
    --token-file EXISTING  File with the token to log in with. [default: a new token at each start]
    --allowed-host as allowed_hosts TEXT... <NAME>  Host name under which browsers reach the dashboard, besides its
        address; others are refused.
""")
@certificate_options("browsers")
@logging_options
def dashboard(
    cluster: ClusterQuestion,
    data_dir: Path | None,
    token_file: Path | None,
    allowed_hosts: tuple[str, ...],
    **serving: Any,
) -> None:
    """Prints "ready http://…/#token=…": open that address in a browser. A token from --token-file is not printed. It
    reads the cluster with the rights of the kubeconfig's user and writes nothing to it; only the faults of a `tonnage
    up` cluster can be set from the page. Ctrl-C or SIGTERM stops it.

    On an address that is not loopback it uses TLS: with your certificate, else with a self-signed one whose fingerprint
    it prints.
    """
    from tonnage.dashboard.questions.asking import Asking
    from tonnage.dashboard.server.program import DashboardSettings

    serving |= {"tls_min_version": "", "tls_cipher_suites": ()}
    tls_rules(serving)
    asking = Asking(cluster.config_file, cluster.gates)
    say_all("note", asking.configuration.notes)
    folder = cluster.embedded_folder if data_dir is None else cluster.require_folder(data_dir)
    scheduler = cluster.scheduler()
    if scheduler is None and data_dir is not None:
        scheduler = read_endpoints(data_dir).get("scheduler")
    kubeconfig_file = cluster.kubeconfig_file if folder is None else folder / "kubeconfig"
    settings = DashboardSettings(
        host=serving["bind_address"],
        port=serving["port"],
        scheduler=scheduler,
        scheduler_user=cluster.scheduler_user(),
        namespace=cluster.given_namespace,
        data_dir=folder,
        allowed_hosts=allowed_hosts,
        command_flags=cluster.command_flags(kubeconfig_file and kubeconfig_file.absolute()),
        asking=asking,
    )
    if token_file is not None:
        settings = replace(settings, token=_token(token_file))
    asyncio.run(run_until_signalled(_run(cluster, settings, serving, keeps_token=token_file is not None)))


def _token(path: Path) -> str:
    token = read_given(path).decode(errors="replace").strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise TonnageError(
            f"{path} has no token; a token is one line of at least 16 printable characters",
            hint="python3 -c 'import secrets; print(secrets.token_urlsafe())' makes one",  # our own words
        )
    return token


async def _run(cluster: ClusterQuestion, settings: DashboardSettings, serving: Flags, *, keeps_token: bool) -> None:
    """Serve until cancelled. A token from --token-file is not printed: in a pod, stdout is a log."""
    from tonnage.client.http import Client
    from tonnage.dashboard.server.program import served

    async with AsyncExitStack() as stack:
        settings = _with_tls(settings, serving, stack)
        client = await stack.enter_async_context(
            Client.connect(cluster.connection, clock=SystemClock(), user_agent="tonnage-dashboard")
        )
        if settings.scheduler is None:
            scheduler, user = await cluster.find_scheduler(client)
            settings = replace(settings, scheduler=scheduler, scheduler_user=user)
        address = await stack.enter_async_context(served(client, settings))
        say_ready(address.partition("#")[0] if keeps_token else address)
        await asyncio.Event().wait()


def _with_tls(settings: DashboardSettings, serving: Flags, stack: AsyncExitStack) -> DashboardSettings:
    """The settings, with TLS if a certificate is given or the address is not loopback."""
    from tonnage.serving.request_host import WILDCARDS, is_loopback

    own = serving["tls_cert_file"] is None
    if own and is_loopback(settings.host):
        return settings
    if settings.host in WILDCARDS:
        settings = replace(settings, allowed_hosts=(*settings.allowed_hosts, socket.gethostname().lower()))
    tls = stack.enter_context(tls_of(serving, lambda: b"", more_names=settings.allowed_hosts))
    if own:
        certificate, authority = tls.fingerprints()
        say("note", f"serving a self-signed certificate, SHA-256 {certificate}; its CA has SHA-256 {authority}")
    return replace(settings, tls=tls)


@click.command()
@live_cluster_options
def top(cluster: ClusterQuestion) -> None:
    """Shows what `tonnage dashboard` shows, also over ssh; best with 80 columns or more. It reads the cluster with the
    rights of the kubeconfig's user and writes nothing. Keys are shown at the bottom; ? lists all of them, q quits.
    NO_COLOR turns colours off; in a locale without UTF-8 it draws with ASCII.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TonnageError(
            "tonnage top needs a terminal, and its output does not go to one",
            hint="in scripts use `tonnage status -o json` or `tonnage explain --pending -o json`",
        )
    kind = os.environ.get("TERM", "")
    if kind in ("", "dumb", "unknown"):
        raise TonnageError(
            f"tonnage top cannot draw on this terminal: TERM is {kind or 'not set'}",
            hint="set TERM to the terminal's type, such as xterm-256color, or use `tonnage status`",
        )
    # Logs would overwrite the screen; problems appear there as notices.
    logging.getLogger().addHandler(logging.NullHandler())
    asyncio.run(_top(cluster))


async def _top(question: ClusterQuestion) -> None:
    async with following(question) as app:
        await app.run_async()


@asynccontextmanager
async def following(question: ClusterQuestion) -> AsyncIterator[Top]:
    """Yield the terminal program while it follows its cluster."""
    from tonnage.client.http import Client
    from tonnage.dashboard.follow.live_cluster import LiveCluster
    from tonnage.dashboard.questions.asking import Asking
    from tonnage.dashboard.terminal.app import Top
    from tonnage.whatif.sources import check_answers

    connection, clock = question.connection, SystemClock()
    asking = Asking(question.config_file, question.gates)
    say_all("note", asking.configuration.notes)  # notes and errors come before the screen is taken
    async with Client.connect(connection, clock=clock, user_agent="tonnage-top") as client:
        await check_answers(client)
        scheduler, user = await question.find_scheduler(client)
        namespace = question.given_namespace
        cluster = LiveCluster(client, scheduler=scheduler, scheduler_user=user, namespace=namespace)
        async with followed_status(cluster, question) as status:
            await cluster.wait_first()
            async with status.looking():
                yield Top(cluster, asking, status)
