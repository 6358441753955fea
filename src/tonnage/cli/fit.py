"""`tonnage fit`: how many more replicas of something fit, where, what stops the next one, and what would let it in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.cluster_options import ClusterQuestion, cluster_options
from tonnage.cli.completion.values import workloads
from tonnage.cli.output import INTERRUPTED, progress, say, written, written_html, written_json
from tonnage.whatif.fit import MOST

if TYPE_CHECKING:
    from tonnage.whatif.fit.counting import FitCluster
    from tonnage.whatif.sources import ClusterState


@click.command()
@cluster_options
@click.option(
    "--workload",
    metavar="KIND/NS/NAME",
    shell_complete=workloads,
    help="A workload of the cluster: StatefulSet/shop/db.",
)
@click.option(
    "--template",
    "template_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A workload or a pod that is not there.",
)
@click.option("--max", "most", type=click.IntRange(0), default=MOST, show_default=True, help="Count no further.")
@click.option(
    "--node-template",
    "node_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A Node, with its CSINode and its capacity objects; goes with --nodes-needed.",
)
@click.option(
    "--nodes-needed", "wants_nodes", is_flag=True, help="How many such nodes the workload's own replicas ask for."
)
@click.option("-o", "--output", type=click.Choice(["table", "json", "html"]), default="table", show_default=True)
def fit(
    cluster: ClusterQuestion,
    workload: str | None,
    template_file: Path | None,
    most: int,
    node_file: Path | None,
    wants_nodes: bool,
    output: str,
) -> None:
    """Tell how many more replicas of a workload fit, by node and zone.

    Replicas are made as their controller would make them, with their claims, and placed one after the other by the
    scheduler's own code, each after those before it are assumed, until one fits nowhere. Then what stops that one is
    counted by reason, and the least that would let it in is found by trying. Nothing is written to any cluster.
    """
    from tonnage.whatif.fit import fitting
    from tonnage.whatif.fit.counting import FitCluster
    from tonnage.whatif.fit.fitting import asked_template, asked_workload, fitted, node_template

    if (workload is None) == (template_file is None):
        raise click.UsageError("give --workload KIND/NS/NAME or --template FILE, one of the two")
    if wants_nodes != (node_file is not None):
        raise click.UsageError("--nodes-needed goes with --node-template FILE")
    configuration = cluster.configuration
    state = cluster.state(user_agent="tonnage-fit", with_workloads=True)
    _say_who_waits(state)
    creation = cluster.creation
    if template_file is not None:
        asked = asked_template(state, creation, str(template_file))
    else:
        asked = asked_workload(state, creation, workload or "", cluster.namespace)

    def fresh() -> FitCluster:
        is_default = cluster.config_file is None
        made = FitCluster(state.objects, configuration.profiles, foreign=cluster.foreign, takes_any_pod=is_default)
        made.apply(asked.made)
        return made

    template = node_template(creation, node_file) if node_file is not None else None
    answer = fitted(asked, fresh, most=most, phase=progress, with_disks=output != "table", node_template=template)
    if output == "json":
        written_json(answer.document())
    elif output == "html":
        from tonnage.whatif.html.fit_page import fit_page

        written_html(fit_page(answer.document()))
    else:
        written(lambda: fitting.show(answer, sys.stdout))
    if answer.counted.is_interrupted:
        sys.exit(INTERRUPTED)


def _say_who_waits(state: ClusterState) -> None:
    waiting = [each for each in state.pods.values() if not each.spec.node_name and not each.is_terminal]
    if waiting:
        pods = "1 pod waits" if len(waiting) == 1 else f"{len(waiting):,} pods wait"
        say("note", f"{pods} for a node already and {'is' if len(waiting) == 1 else 'are'} not placed first")
