"""`tonnage dashboard`: a web page of a cluster's storage, for any cluster, with the rights of the kubeconfig's user."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.cluster_options import ClusterQuestion, live_cluster_options
from tonnage.cli.flags.go_flags import FILE, FOLDER
from tonnage.cli.options import logging_options, start_logging
from tonnage.cli.output import say
from tonnage.cli.running import run_until_signalled, say_ready
from tonnage.clock import SystemClock
from tonnage.endpoints import read_endpoints
from tonnage.errors import TonnageError
from tonnage.private_files import read_given

if TYPE_CHECKING:
    from tonnage.cli.flags.serving_flags import ServingFlags
    from tonnage.dashboard.server.program import DashboardSettings


@click.command()
@live_cluster_options
@click.option(
    "--data-dir",
    type=FOLDER,
    help="The folder of the cluster, if it is one of `tonnage up`.  [default: that of --kubeconfig]",
)
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on; not loopback: with TLS.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes a free one.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The token that browsers show.  [default: a new one at each start]",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A name by which browsers ask for it, besides its address.",
)
@click.option("--tls-cert-file", type=FILE, help="The certificate to serve with; read again when it changes.")
@click.option("--tls-private-key-file", type=FILE, help="Its key.")
@click.option(
    "--cert-dir",
    type=FOLDER,
    help="Where the certificate is kept that is made without one; ca.crt in it is whom to trust.  "
    "[default: made for each run]",
)
@logging_options
def dashboard(
    cluster: ClusterQuestion,
    data_dir: Path | None,
    bind: str,
    port: int,
    token_file: Path | None,
    allowed_hosts: tuple[str, ...],
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    cert_dir: Path | None,
    logging_format: str,
    verbosity: int,
) -> None:
    """Serve a web page that shows a cluster's storage as it changes: pools, claims, who waits and why.

    Prints "ready http://…/#token=…": open that address. It reads with the rights of the kubeconfig's user and no more,
    and writes nothing, but for faults of a `tonnage up` cluster that are set from the page. Ctrl-C or SIGTERM stops it.

    On an address that is not loopback it is served with TLS: with your certificate, else with one that it signs itself,
    whose fingerprint it tells.
    """
    from tonnage.cli.flags.serving_flags import ServingFlags, checked
    from tonnage.dashboard.questions.asking import Asking
    from tonnage.dashboard.server.program import DashboardSettings

    start_logging(logging_format, verbosity)
    serving = ServingFlags(
        bind_address=bind,
        secure_port=port,
        cert_dir=cert_dir,
        tls_cert_file=tls_cert_file,
        tls_private_key_file=tls_private_key_file,
        tls_min_version="",
        tls_cipher_suites=(),
        permit_port_sharing=False,
    )
    checked(serving)
    asking = Asking(cluster.config_file, cluster.gates)
    for note in asking.configuration.notes:
        say("note", note)
    folder = cluster.embedded_folder if data_dir is None else cluster.require_folder(data_dir)
    scheduler = cluster.scheduler()
    if scheduler is None and data_dir is not None:
        scheduler = read_endpoints(data_dir).get("scheduler")
    settings = DashboardSettings(
        host=bind,
        port=port,
        scheduler=scheduler,
        scheduler_user=cluster.scheduler_user(),
        namespace=cluster.given_namespace,
        data_dir=folder,
        allowed_hosts=allowed_hosts,
        asking=asking,
    )
    if token_file is not None:
        settings = replace(settings, token=_token(token_file))
    asyncio.run(run_until_signalled(_run(cluster, settings, serving)))


def _token(path: Path) -> str:
    token = read_given(path).decode(errors="replace").strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise TonnageError(
            f"{path} holds no token: at least 16 printable characters in one line",
            hint="python3 -c 'import secrets; print(secrets.token_urlsafe())' makes one",  # our own words
        )
    return token


async def _run(cluster: ClusterQuestion, settings: DashboardSettings, serving: ServingFlags) -> None:
    from tonnage.client.http import Client
    from tonnage.dashboard.server.program import served

    async with AsyncExitStack() as stack:
        settings = _with_tls(settings, serving, stack)
        client = await stack.enter_async_context(
            Client.connect(cluster.connection, clock=SystemClock(), user_agent="tonnage-dashboard")
        )
        say_ready(await stack.enter_async_context(served(client, settings)))
        await asyncio.Event().wait()


def _with_tls(settings: DashboardSettings, serving: ServingFlags, stack: AsyncExitStack) -> DashboardSettings:
    """The settings with TLS where others than this machine's can look, or where a certificate was given."""
    from tonnage.cli.flags.serving_flags import tls_of
    from tonnage.serving.request_host import WILDCARDS, is_loopback

    own = serving["tls_cert_file"] is None
    if own and is_loopback(settings.host):
        return settings
    if settings.host in WILDCARDS:
        settings = replace(settings, allowed_hosts=(*settings.allowed_hosts, socket.gethostname().lower()))
    tls = stack.enter_context(tls_of(serving, lambda: b"", more_names=settings.allowed_hosts))
    if own:
        certificate, authority = tls.fingerprints()
        say("note", f"the certificate is our own, SHA-256 {certificate}; its authority has SHA-256 {authority}")
    return replace(settings, tls=tls)
