"""`tonnage explain`: which node a pod goes to and why, or why none, from files or from a live cluster.

The decision is the scheduler's own code (whatif/explain.py drives its engine) on whatever is known: manifests as an API
server would have stored them, or what a server lists. Nothing is written anywhere. The choice between equally good
nodes is seeded, so that the same input gives the same answer.
"""

from __future__ import annotations

import sys
from functools import partial

import click

from tonnage.cli.cluster_options import ClusterQuestion, cluster_options
from tonnage.cli.output import say, written, written_json
from tonnage.scheduling.configuration.plugin_catalogue import ExtensionPoint
from tonnage.whatif import explain_report
from tonnage.whatif.explain import explain_pod, find_pod, profile_for, remark_on


@click.command()
@cluster_options
@click.argument("more_files", nargs=-1, metavar="[FILE]...")
@click.option("--pod", "pod_key", required=True, metavar="NS/NAME", help="The pod to explain.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def explain(cluster: ClusterQuestion, pod_key: str, output: str) -> None:
    """Tell which node a pod goes to and why, or why none.

    The cluster comes from manifests (-f, YAML or JSON, lists and `kubectl get -o yaml` included), from a live API
    server (--kubeconfig), or from both: then the manifests are laid over it. A live cluster's scheduler is asked for
    what only it knows: capacity that it keeps back, and pods on their way. Nothing is changed. Exit 0 when there is an
    answer, whatever it is.
    """
    namespace, name = _split(pod_key, cluster)
    note = partial(say, "note")
    configuration = cluster.configuration
    state = cluster.state(user_agent="tonnage-explain")
    pod = find_pod(state, f"{namespace}/{name}")
    profile = profile_for(pod, configuration, is_default=cluster.config_file is None, note=note)
    if remark := remark_on(pod, state.memory):
        say("note", remark)
    explanation = explain_pod(
        pod, state.objects, profile, clock=state.clock, foreign=cluster.foreign, memory=state.memory, note=note
    )
    if output == "json":
        written_json(explanation.document())
    else:
        weights = {each.name: each.weight for each in profile.plugins_at(ExtensionPoint.SCORE)}
        written(lambda: explain_report.show(explanation, weights, sys.stdout))


def _split(pod_key: str, cluster: ClusterQuestion) -> tuple[str, str]:
    namespace, _, name = pod_key.rpartition("/")
    if not name or "/" in namespace or pod_key.startswith("/"):
        raise click.UsageError(f'--pod "{pod_key}": write namespace/name')
    return namespace or cluster.namespace, name
