"""`tonnage status`, `tonnage dashboard` and `tonnage top`: what is wrong with a cluster now, or the programs of a
`tonnage up` cluster; and a cluster's storage as it changes, on a web page or in a terminal.

All show any cluster, with the rights of the kubeconfig's user.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli import output as printing
from tonnage.cli.cluster_options import ClusterQuestion, live_cluster_options, status_options
from tonnage.cli.flags.endpoint_flags import certificate_options, tls_of, tls_rules
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.output import Flags, columns, echo, logging_options, say, say_all
from tonnage.cli.running import run_until_signalled, say_ready
from tonnage.clock import SystemClock
from tonnage.endpoints import Endpoint, read_endpoints
from tonnage.errors import TonnageError
from tonnage.private_files import read_given
from tonnage.quantity import Quantity

if TYPE_CHECKING:
    from tonnage.client.http import Client
    from tonnage.dashboard.follow.live_cluster import LiveCluster
    from tonnage.dashboard.server.program import DashboardSettings
    from tonnage.dashboard.status.keeper import StatusKeeper
    from tonnage.dashboard.terminal.app import Top
    from tonnage.plane.status import ClusterStatus
    from tonnage.whatif.scheduler_memory import SchedulerSearch


@click.command()
@status_options
@click.option(
    "--data-dir", type=printing.FOLDER_PATH, help="Folder of a `tonnage up` cluster whose programs are shown."
)
@printing.output_option("table", "json")
def status(cluster: ClusterQuestion, data_dir: Path | None, output: str) -> None:
    """Each trouble has its age, what it means, and the next command. Above them one line: nodes, how full each class is
    and its largest free pool, pods that wait, volumes on their way. It reads once, with the rights of the kubeconfig's
    user, and writes nothing. It names what this user may not read, and shows the rest.

    Exit 0 when nothing is wrong, 4 when there are warnings, 5 when something does not run or data is out of reach; 1
    when the cluster could not be read, 2 for wrong usage.

    With --data-dir, show a running `tonnage up` cluster instead: its programs, nodes, pools and faults. Programs are
    shown with the address of their health, metrics and debug pages (also in DIR/endpoints.json), pools with their free
    space and with contents that have no record. The dashboard's address includes its token only on a terminal and in
    JSON. Fails when no cluster runs in the folder, else exits 0.
    """
    if data_dir is not None and (cluster.kubeconfig_file is not None or cluster.context):
        raise click.UsageError("give either --data-dir, or --kubeconfig and --context")
    folder = data_dir or _folder_meant(cluster)
    if folder is not None:
        _show_programs(folder, output)
        return
    from tonnage.dashboard.status.keeper import show
    from tonnage.dashboard.status.troubles import worst
    from tonnage.whatif.doctor.examination import EXIT_CODES

    keeper = asyncio.run(_looked(cluster))
    printing.write_answer(output, partial(keeper.document, is_whole=True), partial(show, keeper))
    sys.exit(EXIT_CODES[worst(keeper.found)] or int(keeper.is_blind))


def _folder_meant(cluster: ClusterQuestion) -> Path | None:
    """The folder where `tonnage up` runs by default, if nothing else names a cluster."""
    from tonnage.plane.settings import default_folder

    try:
        cluster.connection  # noqa: B018 - raises UsageError when no cluster is named
    except click.UsageError:
        folder = default_folder()
        if not folder.exists():
            raise
        return folder
    return None


@asynccontextmanager
async def _followed(
    question: ClusterQuestion, user_agent: str, *, searches: bool = False
) -> AsyncIterator[tuple[LiveCluster, StatusKeeper]]:
    """Follow a cluster, with the faults and pools of a `tonnage up` cluster, and yield it and what keeps its status.
    `searches`: a scheduler that no flag names is looked for in the cluster."""
    from tonnage.client.http import Client
    from tonnage.dashboard.follow.driver_records import following_folder
    from tonnage.dashboard.follow.live_cluster import LiveCluster
    from tonnage.dashboard.status.keeper import StatusKeeper
    from tonnage.whatif.sources import check_answers

    async with Client.connect(question.connection, clock=SystemClock(), user_agent=user_agent) as client:
        await check_answers(client)
        search, folder = question.search, question.embedded_folder
        scheduler = await _found(search, client) if searches else search.known
        cluster = LiveCluster(
            client, scheduler=scheduler, scheduler_user=search.user, namespace=question.given_namespace
        )
        async with cluster, following_folder(cluster, folder):
            yield cluster, StatusKeeper(cluster, flags=question.command_flags())


async def _found(search: SchedulerSearch, client: Client) -> Endpoint | None:
    endpoint, note = await search.find(client)
    say_all("note", filter(None, [note]))
    return endpoint


async def _looked(question: ClusterQuestion) -> StatusKeeper:
    from tonnage.whatif.sources import ANSWERS_WITHIN_S

    async with _followed(question, "tonnage-status") as (cluster, keeper):
        await cluster.wait_first(ANSWERS_WITHIN_S)
        await keeper.look()
        return keeper


def _show_programs(data_dir: Path, output: str) -> None:
    from tonnage.plane.status import status_of

    cluster_status = asyncio.run(status_of(data_dir.absolute(), clock=SystemClock()))
    if cluster_status.problem:
        say("warning", f"nodes and pools are not known: {cluster_status.problem}")
    if cluster_status.unknown_problem:
        say("warning", f"contents without a record are not known: {cluster_status.unknown_problem}")
    for trouble in cluster_status.storage:
        say("warning", f"the API server's store: {trouble}")
    printing.write_answer(output, cluster_status.document, lambda page: echo("\n".join(_program_lines(cluster_status))))


def _program_lines(found: ClusterStatus) -> Iterator[str]:
    yield f"cluster on {found.data_dir} (process {found.pid})"
    yield ""
    yield from columns(
        ("PROGRAM", "STATE", "PID", "SERVES AT"),
        ((program.name, program.state, str(program.pid or "-"), program.url or "-") for program in found.programs),
    )
    if not found.problem:
        yield ""
        yield from columns(
            ("NODE", "STATE", "PODS"),
            (
                (
                    node.name,
                    ("Ready" if node.ready else "NotReady") + (",SchedulingDisabled" if node.unschedulable else ""),
                    str(node.pods),
                )
                for node in found.nodes
            ),
        )
        yield ""
        yield from columns(
            ("NODE", "CLASS", "FREE", "POOLS", "OBJECT"),
            (
                (pool.node or "-", pool.storage_class, pool.capacity or "-", ", ".join(pool.pools) or "-", pool.object)
                for pool in found.pools
            ),
        )
    if found.unknown:
        yield ""
        yield "contents without a record: kept, and counted as used (tonnage csi-driver-quarantine moves them away)"
        yield from columns(
            ("NODE", "POOL", "SIZE", "PATH"),
            (
                (each.place.node, str(each.place.pool), str(Quantity.from_bytes(each.size_bytes)), str(each.path))
                for each in found.unknown
            ),
        )
    if found.dashboard:
        yield ""
        yield f"dashboard {_shown(found.dashboard)}"
    yield ""
    if not found.faults:
        yield "no faults are set"
        return
    yield from columns(
        ("FAULT", "NODE", "VALUE"),
        ((fault.kind, fault.node or "(all)", f"{fault.value:g}" if fault.value else "-") for fault in found.faults),
    )


def _shown(dashboard: str) -> str:
    """The dashboard's address, with its token only if stdout is a terminal: files and pipes may be passed on."""
    return dashboard if sys.stdout.isatty() else f"{dashboard.partition('#')[0]} (DIR/dashboard.token has its token)"


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
    search = cluster.search
    if search.known is None and data_dir is not None and (known := read_endpoints(data_dir).get("scheduler")):
        search = replace(search, known=known, user=cluster.scheduler_user())
    kubeconfig_file = cluster.kubeconfig_file if folder is None else folder / "kubeconfig"
    settings = DashboardSettings(
        host=serving["bind_address"],
        port=serving["port"],
        data_dir=folder,
        allowed_hosts=allowed_hosts,
        command_flags=cluster.command_flags(kubeconfig_file and kubeconfig_file.absolute()),
        asking=asking,
    )
    if token_file is not None:
        settings = replace(settings, token=_token(token_file))
    asyncio.run(run_until_signalled(_run(cluster, settings, serving, search, token_file is not None)))


def _token(path: Path) -> str:
    token = read_given(path).decode(errors="replace").strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise TonnageError(
            f"{path} has no token; a token is one line of at least 16 printable characters",
            hint="python3 -c 'import secrets; print(secrets.token_urlsafe())' makes one",  # our own words
        )
    return token


async def _run(
    question: ClusterQuestion,
    settings: DashboardSettings,
    serving: Flags,
    search: SchedulerSearch,
    keeps_token: bool,
) -> None:
    """Serve until cancelled. A token from --token-file is not printed: in a pod, stdout is a log."""
    from tonnage.client.http import Client
    from tonnage.dashboard.follow.live_cluster import LiveCluster
    from tonnage.dashboard.server.program import shown

    async with AsyncExitStack() as stack:
        settings = _with_tls(settings, serving, stack)
        client = await stack.enter_async_context(
            Client.connect(question.connection, clock=SystemClock(), user_agent="tonnage-dashboard")
        )
        scheduler, namespace = await _found(search, client), question.given_namespace
        cluster = LiveCluster(client, scheduler=scheduler, scheduler_user=search.user, namespace=namespace)
        await stack.enter_async_context(cluster)
        address = await stack.enter_async_context(shown(cluster, settings))  # a taken port is reported at once
        await cluster.wait_first()
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
    from tonnage.dashboard.questions.asking import Asking
    from tonnage.dashboard.terminal.app import Top

    asking = Asking(question.config_file, question.gates)
    say_all("note", asking.configuration.notes)  # notes and errors come before the screen is taken
    async with _followed(question, "tonnage-top", searches=True) as (cluster, status):
        await cluster.wait_first()
        async with status.looking():
            yield Top(cluster, asking, status)
