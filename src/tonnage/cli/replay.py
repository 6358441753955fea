"""`tonnage replay`: decisions in sequence, with the scheduler's memory, on virtual time, from files.

The manifests are the cluster at the start, the steps are what happens then (`replay_steps`). Each decision is the live
scheduler's own code with its reservations kept (whatif/replay.py), and the same files give the same answers: a
race can be shown, kept as a test, and sent in a bug report.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tonnage.cli.cluster_options import say_about
from tonnage.cli.completion.values import files
from tonnage.cli.options import feature_gates
from tonnage.cli.output import say, written, written_json
from tonnage.gates import Gates


@click.command()
@click.option(
    "-f", "--filename", "files", multiple=True, metavar="FILE", help="Manifests: files, folders, - for stdin."
)
@click.argument("more_files", nargs=-1, metavar="[FILE]...", shell_complete=files)
@click.option(
    "--steps",
    "steps_file",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="What happens: a YAML list of steps.",
)
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="KubeSchedulerConfiguration."
)
@feature_gates
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def replay(
    files: tuple[str, ...],
    more_files: tuple[str, ...],
    steps_file: Path,
    config_file: Path | None,
    gates: Gates,
    output: str,
) -> None:
    """Decide about pods one after the other, with the scheduler's memory, on virtual time.

    The cluster comes from manifests (-f). A step is one of `schedule: ns/pod` (decide, reserve, assume),
    `apply: [objects]`, `delete: [{kind, namespace, name}]`, `fail_binding: ns/pod`, `advance: seconds` and
    `restart: true` (memory is lost, objects are kept). Exit 0 when there are answers, whatever they are.
    """
    from tonnage.scheduler.configuration_file import foreign_plugins, load_configuration
    from tonnage.whatif.creation import Creation
    from tonnage.whatif.replay import Replay
    from tonnage.whatif.replay_report import show, taken
    from tonnage.whatif.replay_steps import read_steps
    from tonnage.whatif.sources import from_files

    sources = files + more_files
    if not sources:
        raise click.UsageError("give the cluster's manifests with -f")
    for warning in gates.warnings:
        say("warning", warning)
    foreign = foreign_plugins()
    configuration = load_configuration(config_file, gates, foreign)
    for note in configuration.notes:
        say("note", note)
    creation = Creation(gates)
    state = from_files(sources, creation, without=steps_file)
    say_about(state)
    warnings: list[str] = []
    steps = read_steps(steps_file, creation, warnings)
    for warning in warnings:
        say("warning", warning)
    run = Replay(state.objects, configuration.profiles, foreign=foreign, takes_any_pod=config_file is None)
    results = list(taken(run, steps, str(steps_file), lambda sentence: say("note", sentence)))
    if output == "json":
        written_json([each.answer.document() for each in results if each.answer is not None])
    else:
        written(lambda: show(results, sys.stdout))
