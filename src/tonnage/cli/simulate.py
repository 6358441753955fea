"""`tonnage simulate`: play a scenario on virtual time with the scheduler's engine and one or more configurations."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.cluster_options import ClusterQuestion, cluster_options
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.output import INTERRUPTED, interruptible, output_option, progress, say, say_all, write_answer
from tonnage.whatif.simulate.presets import PRESETS

if TYPE_CHECKING:
    from tonnage.scheduling.configuration.configuration import Configuration
    from tonnage.whatif.simulate.play import Run

BASE = "default"
"""The name of the run with --config, or with the default configuration."""


@click.command()
@cluster_options
@flag_table(f"""
    --scenario as scenario_file FILE  Scenario file: what happens and when.
    --recording as recording_file FILE  Instead of --scenario: a recording of `tonnage scheduler --record`, whose
        decisions are made again.
    --seed INT=0  Seed of all random choices; the same seed gives the same answer.
    --seeds INT[1..1000]=1  How many seeds to play, from --seed on; the answer shows the spread of each figure.
    --compare as compared TEXT... <NAME=CONFIG>  A configuration to compare: a KubeSchedulerConfiguration file, or
        {", ".join(PRESETS)}; may be repeated.
""")
@output_option("table", "json", "html")
def simulate(
    cluster: ClusterQuestion,
    scenario_file: Path | None,
    recording_file: Path | None,
    seed: int,
    seeds: int,
    compared: tuple[str, ...],
    output: str,
) -> None:
    """With --compare the same arrivals are played with several configurations, and the first decision in which two of
    them differ is explained. One --compare is compared with --config's run; several are compared with each other, and
    with --config's run if --config is given. Nothing is written to a cluster.

    With --recording the decisions of a recorded scheduler are made again, one by one; --compare and --config say what
    other configurations would have decided in the same state.
    """
    from tonnage.whatif.creation import Creation
    from tonnage.whatif.simulate.comparison import compare
    from tonnage.whatif.simulate.comparison_report import show
    from tonnage.whatif.simulate.play import Player
    from tonnage.whatif.simulate.scenario import read_scenario

    if recording_file is not None:
        if scenario_file is not None or cluster.files or cluster.kubeconfig_file is not None:
            raise click.UsageError("a recording contains its cluster; leave out --scenario, -f and --kubeconfig")
        _repeat(cluster, recording_file, compared, output)
        return
    if scenario_file is None:
        raise click.UsageError("give a scenario with --scenario, or a recording with --recording")
    runs = _runs(cluster, compared, seed)
    scenario = read_scenario(scenario_file)
    state = cluster.state(user_agent="tonnage-simulate", with_workloads=True, without=scenario_file)
    with interruptible() as is_stopped:
        player = Player(
            state,
            scenario,
            lambda: Creation(cluster.gates),
            namespace=cluster.namespace,
            updates_attach_limits=cluster.gates.MutableCSINodeAllocatableCount,
            is_stopped=is_stopped,
        )
        with progress("simulating", float(len(runs))) as step:
            comparison = compare(player, runs, lambda name: step, seeds)
    say_all("warning", player.warnings)
    write_answer(output, comparison.document, partial(show, comparison))
    _end(comparison.is_partial)


def _end(is_partial: bool) -> None:
    if is_partial:
        say("warning", "interrupted: the answer is partial")
        sys.exit(INTERRUPTED)


def _repeat(cluster: ClusterQuestion, file: Path, compared: tuple[str, ...], output: str) -> None:
    from tonnage.scheduler.configuration_file import installed_plugins
    from tonnage.whatif.recording import answered, open_recording, show

    others = {"config": cluster.configuration} if cluster.config_file is not None else {}
    others = _compared(cluster, compared, others)
    recording = open_recording(file)
    with interruptible() as is_stopped, progress("repeating", 1.0 + len(others)) as step:
        repeated_recording = answered(recording, others, installed_plugins(), is_stopped=is_stopped, step=step)
    write_answer(output, repeated_recording.document, partial(show, repeated_recording))
    _end(repeated_recording.is_partial)


def _runs(cluster: ClusterQuestion, compared: tuple[str, ...], seed: int) -> list[Run]:
    from tonnage.whatif.simulate.play import Run

    named: dict[str, Configuration] = {}
    is_asked_for = cluster.config_file is not None
    if is_asked_for or (len(compared) < 2 and not any(each.partition("=")[0] == BASE for each in compared)):
        named[BASE] = cluster.configuration
    takes_any = cluster.config_file is None or bool(compared)
    named = _compared(cluster, compared, named)
    return [Run(name, each.profiles, seed, takes_any) for name, each in named.items()]


def _compared(
    cluster: ClusterQuestion, compared: tuple[str, ...], before: dict[str, Configuration]
) -> dict[str, Configuration]:
    """The configurations of --compare by name, after those of `before`."""
    named = dict(before)
    for given in compared:
        name, _, config = given.partition("=")
        if not name or ("=" in given and not config):
            raise click.UsageError(f'--compare "{given}": write NAME=CONFIG')
        if name in named:
            raise click.UsageError(f'--compare "{given}": two runs are called {name}; give each its own name')
        named[name] = _configuration(cluster, given, config or name)
    return named


def _configuration(cluster: ClusterQuestion, given: str, config: str) -> Configuration:
    from tonnage.scheduler.configuration_file import installed_plugins, load_configuration
    from tonnage.scheduling.configuration.configuration import parse
    from tonnage.whatif.simulate.presets import preset_gates

    preset = PRESETS.get(config)
    if preset is not None:
        known = installed_plugins()
        gates = preset_gates(preset, cluster.gates)
        return parse(preset.text(), source=f"preset {config}", known_plugins=known, gates=gates)
    path = Path(config)
    if "=" not in given or (not path.exists() and not path.suffix and "/" not in config):
        raise click.UsageError(
            f'--compare "{given}": "{config}" is neither a file nor a preset; presets are {", ".join(PRESETS)}'
        )
    configuration = load_configuration(path, cluster.gates)
    say_all("note", configuration.notes)
    return configuration
