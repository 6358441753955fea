"""`tonnage status`: what is wrong with a cluster now, or the programs of a `tonnage up` cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.cluster_options import ClusterQuestion, status_options
from tonnage.cli.output import FOLDER_PATH, columns, echo, output_option, say, write_answer
from tonnage.clock import SystemClock
from tonnage.quantity import Quantity

if TYPE_CHECKING:
    from tonnage.dashboard.follow.live_cluster import LiveCluster
    from tonnage.dashboard.status.keeper import StatusKeeper
    from tonnage.plane.status import ClusterStatus


@click.command()
@status_options
@click.option("--data-dir", type=FOLDER_PATH, help="Folder of a `tonnage up` cluster whose programs are shown.")
@output_option("table", "json")
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
    write_answer(output, partial(keeper.document, is_whole=True), partial(show, keeper))
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
async def followed_status(cluster: LiveCluster, question: ClusterQuestion) -> AsyncIterator[StatusKeeper]:
    """Follow a cluster, with the faults and pools of a `tonnage up` cluster, and yield what keeps its status."""
    from tonnage.dashboard.follow.driver_records import following_pools
    from tonnage.dashboard.model.shown_cluster import following_faults
    from tonnage.dashboard.status.keeper import StatusKeeper

    folder = question.embedded_folder
    async with cluster, following_faults(cluster, folder), following_pools(cluster, folder):
        yield StatusKeeper(cluster, flags=question.command_flags())


async def _looked(question: ClusterQuestion) -> StatusKeeper:
    from tonnage.client.http import Client
    from tonnage.dashboard.follow.live_cluster import LiveCluster
    from tonnage.whatif.sources import ANSWERS_WITHIN_S, check_answers

    async with Client.connect(question.connection, clock=SystemClock(), user_agent="tonnage-status") as client:
        await check_answers(client)
        cluster = LiveCluster(client, scheduler=question.scheduler(), scheduler_user=question.scheduler_user())
        async with followed_status(cluster, question) as keeper:
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
    write_answer(output, cluster_status.document, lambda page: echo("\n".join(_program_lines(cluster_status))))


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
