"""`tonnage doctor`, `drain-preview`, `fit`, `replay` and `shadow`: questions that the scheduler's own code answers.

doctor          what of a cluster Tonnage can use, what it would change there, and what to set
drain-preview   what a drain of nodes would do
fit             how many more replicas fit and where, what stops the next one, and what would let it in
replay          a sequence of decisions on virtual time, from files
shadow          decide beside a live cluster's scheduler, and report differences
"""

from __future__ import annotations

import asyncio
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli import output as printing
from tonnage.cli.cluster_options import ClusterQuestion, cluster_options, file_options, followed_cluster_options
from tonnage.cli.completion import files, workloads
from tonnage.cli.completion import nodes as node_values
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.output import DOES_NOT_FIT, INTERRUPTED, output_option, progress, say, write_answer
from tonnage.clock import SystemClock
from tonnage.printable import printable_lines
from tonnage.whatif.fit import MOST

if TYPE_CHECKING:
    from tonnage.client.http import Client
    from tonnage.whatif.shadow.signs import Shadow


@click.command()
@cluster_options
@click.argument("more_files", nargs=-1, metavar="[FILE]...", shell_complete=files)
@output_option("table", "json", "html", "helm-values")
def doctor(cluster: ClusterQuestion, output: str) -> None:
    """The cluster is a live one (--kubeconfig), a dump of one (-f, as `kubectl get -o yaml` writes), or a live one with
    files added. doctor checks drivers, capacity objects, attach limits, classes, leftovers, permissions, and pods that
    a switch to Tonnage would help or hurt. Every finding has a name, a severity and a remedy. Nothing is changed.
    With -o helm-values the advice is printed as values of the chart.

    Exit codes: 0 no warnings and no errors, 4 warnings, 5 errors, 1 the cluster could not be read, 2 wrong usage.
    """
    from tonnage.whatif.doctor.examination import examine, show, work_of
    from tonnage.whatif.doctor.facts import Facts
    from tonnage.whatif.doctor.server import with_server

    configuration = cluster.configuration
    state = cluster.state(user_agent="tonnage-doctor", with_workloads=True)
    facts = Facts.of_state(state, is_live=cluster.is_live)
    if cluster.is_live:
        facts = asyncio.run(with_server(facts, cluster.connection, user_agent="tonnage-doctor"))
    with progress("deciding on pods", total=work_of(facts)) as step:
        examination = examine(facts, state, configuration, step=step)
    if output == "helm-values":
        printing.written(
            lambda: sys.stdout.write(printable_lines(examination.recommended.helm_values(examination.findings)))
        )
    else:
        write_answer(output, examination.document, partial(show, examination))
    sys.exit(INTERRUPTED if examination.is_partial else examination.exit_code)


@click.command(name="drain-preview")
@cluster_options
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...", shell_complete=node_values)
@click.option(
    "--one-by-one", is_flag=True, help="Preview a rolling upgrade: each node comes back before the next is drained."
)
@click.option("--exit-code", is_flag=True, help="Exit 3 when a pod is stuck or lost.")
@output_option("table", "json", "html")
def drain_preview(
    cluster: ClusterQuestion, nodes: tuple[str, ...], one_by_one: bool, exit_code: bool, output: str
) -> None:
    """The answer says of every pod where it goes and whether its volume is rebuilt there or only reattached, or why it
    is stuck; which disruption budgets block; whose data stays behind or is lost; and whether the cluster still holds
    all pods if one more node fails meanwhile. With --one-by-one it also gives the best order found. The drain is played
    on virtual time with the scheduler's own code; nothing is changed.

    Exit 0 when there is an answer, whatever it is; Ctrl-C prints what is known so far and exits with 130.
    """
    from tonnage.whatif.drain.preview import Preview, known_nodes, show
    from tonnage.whatif.drain.rehearsal import Scene
    from tonnage.whatif.simulate.world_state import WorldSettings

    configuration = cluster.configuration
    state = cluster.state(user_agent="tonnage-drain-preview", with_workloads=True)
    names = known_nodes(nodes, state)
    follows_limits = cluster.gates.MutableCSINodeAllocatableCount
    settings = WorldSettings(takes_any_pod=cluster.config_file is None, updates_attach_limits=follows_limits)
    scene = Scene(state, configuration.profiles, settings)
    preview, is_interrupted = Preview(scene, names, is_one_by_one=one_by_one), False
    try:
        with progress("simulating the drain") as step:
            preview.run(step)
    except KeyboardInterrupt:
        is_interrupted = True
    write_answer(output, preview.document, partial(show, preview))
    if is_interrupted:
        sys.exit(INTERRUPTED)
    if exit_code and (preview.outcome.stuck or preview.outcome.lost):
        sys.exit(DOES_NOT_FIT)


@click.command()
@cluster_options
@flag_table(
    f"""
    --workload WORKLOAD <KIND/NS/NAME>  A workload of the cluster, such as StatefulSet/shop/db.
    --template as template_file FILE  Manifest of a workload or pod that is not in the cluster.
    --max as most INT[0..]={MOST}  Stop counting at this many replicas.
    --node-template as node_file FILE  Manifests of a Node, its CSINode and its CSIStorageCapacity objects; goes with
        --nodes-needed.
    --nodes-needed as wants_nodes  Count how many nodes like --node-template hold all the workload's replicas.
    """,
    WORKLOAD=workloads,
)
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit 3 when not all replicas of the workload fit; for a pod or 0 replicas, when not one more fits.",
)
@output_option("table", "json", "html")
def fit(
    cluster: ClusterQuestion,
    workload: str | None,
    template_file: Path | None,
    most: int,
    node_file: Path | None,
    wants_nodes: bool,
    exit_code: bool,
    output: str,
) -> None:
    """Replicas and their claims are made as the workload's controller would make them, and placed one after the other
    by the scheduler's own code until one fits nowhere. Where the driver's choice of pool is not known, the answer says
    how many fit for certain, and how many if the driver picks well. It then counts what stops the next replica, by
    reason, and tries what the smallest change is that would make it fit. Nothing is written to any cluster.
    """
    from tonnage.whatif.fit.fitting import asked_template, asked_workload, fitted, node_template, show
    from tonnage.whatif.simulate.played_cluster import PlayedCluster

    if (workload is None) == (template_file is None):
        raise click.UsageError("give either --workload KIND/NS/NAME or --template FILE")
    if wants_nodes != (node_file is not None):
        raise click.UsageError("--nodes-needed needs --node-template FILE")
    configuration = cluster.configuration
    state = cluster.state(user_agent="tonnage-fit", with_workloads=True)
    waiting = sum(not pod.spec.node_name and not pod.is_terminal for pod in state.pods.values())
    if waiting:
        pods = "1 pod waits" if waiting == 1 else f"{waiting:,} pods wait"
        say("note", f"{pods} for a node already and {'is' if waiting == 1 else 'are'} tried first")
    creation = cluster.creation
    if template_file is not None:
        asked = asked_template(state, creation, str(template_file))
    else:
        asked = asked_workload(state, creation, workload or "", cluster.namespace)

    fresh = partial(PlayedCluster, state, configuration.profiles, takes_any_pod=cluster.config_file is None)
    template = node_template(creation, node_file) if node_file is not None else None
    answer = fitted(asked, fresh, most=most, phase=progress, with_disks=output != "table", node_template=template)
    write_answer(output, answer.document, partial(show, answer))
    if answer.counted.is_interrupted:
        sys.exit(INTERRUPTED)
    if exit_code and not answer.has_all:
        sys.exit(DOES_NOT_FIT)


@click.command()
@file_options
@click.argument("more_files", nargs=-1, metavar="[FILE]...", shell_complete=files)
@flag_table("--steps as steps_file FILE!  YAML list of the steps to take.")
@output_option("table", "json")
def replay(cluster: ClusterQuestion, steps_file: Path, output: str) -> None:
    """The cluster is read from manifests (-f). A step is one of `schedule: ns/pod` (decide, reserve, assume),
    `apply: [objects]`, `delete: [{kind, namespace, name}]`, `fail_binding: ns/pod`, `advance: seconds` and
    `restart: true` (memory is lost, objects are kept). Exit 0 when there are answers, whatever they are.
    """
    from tonnage.whatif.replay import Replay
    from tonnage.whatif.replay_steps import read_steps, show, taken

    if not cluster.files:
        raise click.UsageError("give the cluster's manifests with -f")
    configuration = cluster.configuration
    state = cluster.state(user_agent="tonnage-replay", without=steps_file)
    warnings: list[str] = []
    steps = read_steps(steps_file, cluster.creation, warnings)
    printing.say_all("warning", warnings)
    takes_any_pod = cluster.config_file is None
    run = Replay(state.objects, configuration.profiles, takes_any_pod=takes_any_pod)
    results = list(taken(run, steps, str(steps_file), partial(say, "note")))
    write_answer(
        output,
        lambda: [result.answer.document() for result in results if result.answer is not None],
        partial(show, results),
    )


@click.command()
@followed_cluster_options
@flag_table("""
    --for as for_s DURATION  Stop after this time. [default: Ctrl-C stops it]
    --stuck-after as stuck_after_s DURATION=2m  How long after the decision a claim without a volume counts as refused.
""")
@output_option("table", "json")
def shadow(cluster: ClusterQuestion, for_s: float | None, stuck_after_s: float, output: str) -> None:
    """For every pod that the cluster's scheduler places, Tonnage decides on the state just before; nodes with equal
    scores count as agreement. Differences are printed to stderr as they are found. The answer at the end says how often
    a pod was sent to a node where its volumes could not be created, and how often Tonnage would not have sent it there.
    Nothing is written to the cluster, not even an event or a lease. Stop it with Ctrl-C: the answer follows, and the
    exit code is 0.
    """
    from tonnage.client.http import Client
    from tonnage.whatif.shadow.judging import Judge, Tally, show
    from tonnage.whatif.shadow.signs import Shadow

    clock = SystemClock()
    profiles, connection = cluster.configuration.profiles, cluster.connection
    judge = Judge(profiles, clock=clock)
    tally = Tally(clock.now(), say=say)
    following = Shadow(judge, tally, stuck_after_s=stuck_after_s)

    async def run() -> None:
        async with Client.connect(connection, clock=clock, user_agent="tonnage-shadow") as client:
            await _followed(client, following, for_s)

    asyncio.run(run())
    until = clock.now()
    write_answer(output, lambda: tally.document(until), partial(show, tally, until))


async def _followed(client: Client, shadow: Shadow, for_s: float | None) -> None:
    """Follow the cluster for `for_s` seconds or until Ctrl-C. A second Ctrl-C ends without an answer."""
    from tonnage.whatif.shadow.follow import Following
    from tonnage.whatif.shadow.judging import counts

    following = Following(client, shadow, note=partial(say, "note"))

    async def follow() -> None:
        async with following:
            await following.wait_synced()
            say("following", f"{client.server}; Ctrl-C ends it")
            with printing.shown_status("nothing decided yet") as show:
                await following.run(for_s, lambda: show(counts(shadow.tally)))

    work = asyncio.ensure_future(follow())
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        loop.remove_signal_handler(number)
        if not following.end():
            work.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, partial(stop, number))
    await asyncio.wait((work,))
    if not work.cancelled():
        work.result()
    shadow.close()
