"""`tonnage drain-preview`: what draining nodes would do, before anybody does it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tonnage.cli.cluster_options import ClusterQuestion, cluster_options
from tonnage.cli.completion.values import nodes as node_values
from tonnage.cli.output import INTERRUPTED, progress, written, written_html, written_json

if TYPE_CHECKING:
    from tonnage.whatif.drain.preview import Preview


@click.command(name="drain-preview")
@cluster_options
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...", shell_complete=node_values)
@click.option("--one-by-one", is_flag=True, help="A rolling upgrade: each node comes back before the next is drained.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "html"]), default="table", show_default=True)
def drain_preview(cluster: ClusterQuestion, nodes: tuple[str, ...], one_by_one: bool, output: str) -> None:
    """Tell what a drain of these nodes would do.

    Who moves where, whose volume is rebuilt there or only reattached, who is stuck and why, which budgets block, whose
    data stays behind or is lost, whether the cluster holds if one more node fails meanwhile; with --one-by-one also
    the best order found. The drain is rehearsed on virtual time with the scheduler's own code; nothing is changed. Exit
    0 when there is an answer, whatever it is; Ctrl-C ends it with what is known so far, exit 130.
    """
    from tonnage.whatif.drain.preview import Preview, known_nodes
    from tonnage.whatif.drain.rehearsal import Scene

    configuration = cluster.configuration
    state = cluster.state(user_agent="tonnage-drain-preview", with_workloads=True)
    names = known_nodes(nodes, state.objects, state.source)
    scene = Scene(
        state,
        configuration.profiles,
        foreign=cluster.foreign,
        takes_any_pod=cluster.config_file is None,
        updates_attach_limits=cluster.gates.MutableCSINodeAllocatableCount,
    )
    preview = Preview(scene, names, is_one_by_one=one_by_one)
    try:
        with progress("rehearsing the drain") as step:
            preview.run(step)
    except KeyboardInterrupt:
        _write(preview, output)
        sys.exit(INTERRUPTED)
    _write(preview, output)


def _write(preview: Preview, output: str) -> None:
    from tonnage.whatif.drain import report

    if output == "json":
        written_json(preview.document())
    elif output == "html":
        from tonnage.whatif.html.drain_page import drain_page

        written_html(drain_page(preview.document()))
    else:
        written(lambda: report.show(preview, sys.stdout))
