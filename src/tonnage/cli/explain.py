"""`tonnage explain`: which node a pod goes to and why, or why none, from files, a live cluster, or both.

    --pod shop/web                 existing pods, one by one, on the cluster as it is
    --workload sts/shop/db         the pods of a workload, existing and future, one after the other
    --pending                      every waiting pod, one after the other, grouped by cause

The scheduler's own engine decides (whatif/ drives it), and nothing is written. Ties between nodes are broken by a seed,
so the same input gives the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from tonnage.cli import output as printing
from tonnage.cli.cluster_options import ClusterQuestion, cluster_options
from tonnage.cli.completion import files, pods, workloads
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.output import DOES_NOT_FIT, INTERRUPTED, output_option, progress, say, write_answer
from tonnage.errors import TonnageError

if TYPE_CHECKING:
    from tonnage.scheduling.configuration.profile import ResolvedProfile
    from tonnage.scheduling.decision.explain import Explanation
    from tonnage.whatif.explain import PodAnswer, WorkloadAnswer
    from tonnage.whatif.page import Page
    from tonnage.whatif.workloads import WorkloadName

_USER_AGENT = "tonnage-explain"
_WHAT = "--pod NS/NAME, --workload KIND/NS/NAME or --pending"


@click.command()
@cluster_options
@click.argument("more_files", nargs=-1, metavar="[FILE]...", shell_complete=files)
@flag_table(
    """
    --pod as pod_keys POD... <NS/NAME>  A pod to explain; may be repeated.
    --workload as workload_names WORKLOAD... <KIND/NS/NAME>  A workload to explain: its pods, existing and future, are
        placed one after the other; may be repeated.
    --pending  Explain every pending pod, grouped by cause, with what would help most.
    """,
    POD=pods,
    WORKLOAD=workloads,
)
@click.option("--exit-code", is_flag=True, help="Exit 3 when something does not fit.")
@output_option("table", "json")
def explain(
    cluster: ClusterQuestion,
    pod_keys: tuple[str, ...],
    workload_names: tuple[str, ...],
    pending: bool,
    exit_code: bool,
    output: str,
) -> None:
    """The cluster is a live one (--kubeconfig), manifests (-f: YAML or JSON, as `kubectl get -o yaml` writes), or a
    live one with manifests added. A live cluster's scheduler is asked for what only it knows: the capacity it has
    reserved, and pods that it has just placed. Nothing is changed.

    Pods that do not exist yet are explained by their workload: a StatefulSet, Deployment, ReplicaSet,
    ReplicationController, DaemonSet, Job or CronJob is expanded to the pods and claims that its controller would make.
    With -f and none of --pod, --workload and --pending, the workloads of the files are explained.

    Exit 0 when there is an answer, whatever it is; with --exit-code, 3 when something does not fit.
    """
    if (bool(pod_keys) + bool(workload_names) + pending) > 1:
        raise click.UsageError(f"give only one of {_WHAT}")
    if pod_keys:
        is_fit = _explain_pods(cluster, pod_keys, output)
    elif pending:
        is_fit = _explain_pending(cluster, output)
    else:
        is_fit = _explain_workloads(cluster, workload_names, output)
    if exit_code and not is_fit:
        raise SystemExit(DOES_NOT_FIT)


def _explain_pods(cluster: ClusterQuestion, pod_keys: Sequence[str], output: str) -> bool:
    from tonnage.whatif.explain import decided_on, find_pod

    keys = [_split(pod_key, cluster) for pod_key in pod_keys]
    configuration = cluster.configuration
    state = cluster.state(user_agent=_USER_AGENT)
    answers = [
        decided_on(
            pod,
            state,
            configuration,
            is_default=cluster.config_file is None,
            note=partial(say, "note"),
        )
        for pod in [find_pod(state, key) for key in dict.fromkeys(keys)]
    ]
    documents = [explanation.document() for explanation, _ in answers]
    write_answer(
        output, lambda: documents if len(pod_keys) > 1 else documents[0], partial(_print_explanations, answers)
    )
    return all(each.schedulable for each, _ in answers)


def _print_explanations(answers: Sequence[tuple[Explanation, ResolvedProfile]], page: Page) -> None:
    from tonnage.whatif.explain import score_weights
    from tonnage.whatif.explain_report import print_explanation

    for number, (explanation, profile) in enumerate(answers):
        if number:
            page.blank()
        print_explanation(explanation, score_weights(profile), page)


def _split(pod_key: str, cluster: ClusterQuestion) -> str:
    namespace, _, name = pod_key.rpartition("/")
    if not name or "/" in namespace or pod_key.startswith("/"):
        raise click.UsageError(f'--pod "{pod_key}": write namespace/name')
    return f"{namespace or cluster.namespace}/{name}"


def _explain_workloads(cluster: ClusterQuestion, names: Sequence[str], output: str) -> bool:
    from tonnage.whatif.expansion import WorkloadExpander
    from tonnage.whatif.explain import WorkloadAnswer, score_weights, workloads_of_files
    from tonnage.whatif.explain_report import print_workloads
    from tonnage.whatif.simulate.played_cluster import PlayedWorkloads
    from tonnage.whatif.workloads import find_workload

    if not names and not cluster.files:
        raise click.UsageError(f"say what to explain: {_WHAT}")
    wanted = [_named(name, cluster) for name in dict.fromkeys(names)]
    configuration = cluster.configuration
    state = cluster.state(user_agent=_USER_AGENT, with_workloads=True)
    workloads = [find_workload(each, (*state.objects, *state.workloads), state.source) for each in wanted]
    workloads = workloads or workloads_of_files(state)
    if not workloads:
        raise click.UsageError(f"the files hold no workloads; say what to explain: {_WHAT}")
    is_default, was_interrupted = cluster.config_file is None, False
    played = PlayedWorkloads(state, configuration, is_default=is_default, note=partial(say, "note"))
    warnings: list[str] = []
    expander = WorkloadExpander(state, cluster.creation, warnings)
    answers: list[WorkloadAnswer] = []
    try:
        with progress("deciding", total=len(workloads)) as step:
            for workload in workloads:
                made: list[PodAnswer] = []
                answers.append(WorkloadAnswer(workload, made))
                for pod in played.answers(expander.expand(workload)):
                    made.append(pod)
                step(1)
    except KeyboardInterrupt:
        was_interrupted = True
    printing.say_all("warning", dict.fromkeys(warnings))

    weights = score_weights(configuration.profiles[0])
    pods = [pod for answer in answers for pod in answer.pods]
    write_answer(output, lambda: [pod.document() for pod in pods], partial(print_workloads, answers, weights))
    if was_interrupted:
        _end_early(f"{len(answers)} of {len(workloads)} workloads were explained, the last one only in part")
    return all(pod.fits for pod in pods)


def _named(text: str, cluster: ClusterQuestion) -> WorkloadName:
    from tonnage.whatif.workloads import workload_name

    try:
        return workload_name(text, cluster.namespace)
    except TonnageError as exc:
        raise click.UsageError(f"--{exc.message}; {exc.hint}") from exc


def _explain_pending(cluster: ClusterQuestion, output: str) -> bool:
    from tonnage.whatif.explain import DecisionSequence
    from tonnage.whatif.pending.pending import PendingQuestion, print_pending

    state = cluster.state(user_agent=_USER_AGENT, with_workloads=True)
    is_default, note = cluster.config_file is None, partial(say, "note")
    sequence = DecisionSequence(state, cluster.configuration, is_default=is_default, note=note)
    question = PendingQuestion(state, sequence, explains_all=output == "json")
    try:
        with progress("deciding", total=question.count) as step:
            question.decide(step)
        with progress("trying what would help") as step:
            question.try_changes(step)
    except KeyboardInterrupt:
        pass
    answer = question.answer()
    write_answer(output, answer.document, partial(print_pending, answer))
    if answer.is_partial:
        _end_early(
            f"{len(answer.pods)} of {question.count} pending pods were examined, and not every "
            "change that may help was tried"
        )
    return all(pod.fits for pod in answer.pods)


def _end_early(how_far: str) -> None:
    say("note", f"interrupted: the answer is partial; {how_far}")
    raise SystemExit(INTERRUPTED)
