"""`tonnage simulate`: a scenario on virtual time, on the scheduler's own engine, once or several ways side by side."""

from __future__ import annotations

from pathlib import Path

import click

from tonnage.cli.cluster_options import ClusterQuestion, cluster_options
from tonnage.cli.output import written_json
from tonnage.cli.progress import progress
from tonnage.whatif.creation import Creation
from tonnage.whatif.simulate.play import Player, Run
from tonnage.whatif.simulate.scenario import read_scenario


@click.command()
@cluster_options
@click.option(
    "--scenario",
    "scenario_file",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="What happens, and when.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same run.")
@click.option("-o", "--output", type=click.Choice(["json"]), default="json", show_default=True)
def simulate(cluster: ClusterQuestion, scenario_file: Path, seed: int, output: str) -> None:
    """Play a scenario on virtual time: who is placed, who waits, which volumes are refused, how full disks become."""
    scenario = read_scenario(scenario_file)
    configuration = cluster.configuration
    state = cluster.state(user_agent="tonnage-simulate", with_workloads=True)
    player = Player(
        state, scenario, lambda: Creation(cluster.gates), foreign=cluster.foreign, namespace=cluster.namespace
    )
    with progress("simulating", 1.0) as step:
        run = Run("default", configuration.profiles, seed, takes_any_pod=cluster.config_file is None)
        measured = player.play(run, step)
    written_json({"seed": seed, "runs": {"default": measured.document()}})
