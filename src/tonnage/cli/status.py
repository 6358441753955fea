"""`tonnage status`: how a cluster of `tonnage up` is doing: programs and their ports, nodes, pools, faults."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.output import echo, say, written, written_json
from tonnage.clock import SystemClock
from tonnage.printable import printable
from tonnage.quantity import Quantity

if TYPE_CHECKING:
    from tonnage.plane.status import ClusterStatus


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder of a `tonnage up` cluster.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status(data_dir: Path, output: str) -> None:
    """Show a running `tonnage up` cluster: its programs, its nodes, their pools, and what is made to go wrong.

    Of programs also where they serve health, metrics and debug pages; of pools the free room, and contents that no
    record names.
    Where programs serve is also in DIR/endpoints.json. The dashboard's address has its token on a terminal and in JSON
    alone. Fails when no cluster runs on the folder.
    """
    from tonnage.plane.status import status_of

    found = asyncio.run(status_of(data_dir.absolute(), clock=SystemClock()))
    if found.problem:
        say("warning", f"nodes and pools are not known: {found.problem}")
    if found.unknown_problem:
        say("warning", f"contents without a record are not known: {found.unknown_problem}")
    for trouble in found.storage:
        say("warning", f"the API server's store: {trouble}")
    if output == "json":
        written_json(found.document())
    else:
        written(lambda: echo("\n".join(_lines(found))))


def _lines(found: ClusterStatus) -> Iterator[str]:
    yield f"cluster on {found.data_dir} (process {found.pid})"
    yield ""
    yield from _columns(
        ("PROGRAM", "STATE", "PID", "SERVES AT"),
        ((each.name, each.state, str(each.pid or "-"), each.url or "-") for each in found.programs),
    )
    if not found.problem:
        yield ""
        yield from _columns(
            ("NODE", "STATE", "PODS"),
            (
                (
                    each.name,
                    ("Ready" if each.ready else "NotReady") + (",SchedulingDisabled" if each.unschedulable else ""),
                    str(each.pods),
                )
                for each in found.nodes
            ),
        )
        yield ""
        yield from _columns(
            ("NODE", "CLASS", "FREE", "POOLS", "OBJECT"),
            (
                (each.node or "-", each.storage_class, each.capacity or "-", ", ".join(each.pools) or "-", each.object)
                for each in found.pools
            ),
        )
    if found.unknown:
        yield ""
        yield "contents without a record: kept, and counted as used (tonnage csi-driver-quarantine moves them away)"
        yield from _columns(
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
        yield "nothing is made to go wrong"
        return
    yield from _columns(
        ("FAULT", "NODE", "VALUE"),
        ((each.kind, each.node or "(all)", f"{each.value:g}" if each.value else "-") for each in found.faults),
    )


def _shown(dashboard: str) -> str:
    """The address with its token on a terminal; what is written to a file or a pipe may be passed on, and has none."""
    return dashboard if sys.stdout.isatty() else f"{dashboard.partition('#')[0]} (DIR/dashboard.token has its token)"


def _columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns as kubectl writes them."""
    lines = [head, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        yield "   ".join(map(str.ljust, line, widths)).rstrip()
