"""`tonnage explain`: which node a pod goes to and why, or why none, from files or from a live cluster.

The decision is the scheduler's own code (whatif/explain.py drives its engine) on whatever is known: manifests as an API
server would have stored them, or what a server lists. Nothing is written anywhere. The choice between equally good
nodes is seeded, so that the same input gives the same answer.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

import click

from tonnage.cli.options import feature_gates
from tonnage.cli.output import say, written, written_json
from tonnage.endpoints import Endpoint, read_endpoints
from tonnage.gates import Gates
from tonnage.private_files import NotOurs
from tonnage.scheduler.configuration_file import load_configuration
from tonnage.scheduler.installed_plugins import foreign_plugins
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.configuration.plugin_catalogue import ExtensionPoint
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.whatif import explain_report
from tonnage.whatif.creation import Creation
from tonnage.whatif.explain import explain_pod, find_pod, profile_for, remark_on
from tonnage.whatif.sources import ClusterState, from_cluster, from_files


@click.command()
@click.option(
    "-f", "--filename", "files", multiple=True, metavar="FILE", help="Manifests: files, folders, - for stdin."
)
@click.argument("more_files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--kubeconfig", "kubeconfig_file", type=click.Path(path_type=Path, dir_okay=False), help="Ask a live cluster."
)
@click.option(
    "--scheduler-endpoint",
    metavar="URL",
    help="Where the cluster's scheduler serves its debug pages; for a `tonnage up` cluster it is known.",
)
@click.option(
    "--scheduler-ca",
    "scheduler_ca_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Whom to trust there: ca.crt of its --cert-dir.",
)
@click.option("--pod", "pod_key", required=True, metavar="NS/NAME", help="The pod to explain.")
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="KubeSchedulerConfiguration."
)
@feature_gates
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def explain(
    files: tuple[str, ...],
    more_files: tuple[str, ...],
    kubeconfig_file: Path | None,
    scheduler_endpoint: str | None,
    scheduler_ca_file: Path | None,
    pod_key: str,
    config_file: Path | None,
    gates: Gates,
    output: str,
) -> None:
    """Tell which node a pod goes to and why, or why none.

    The cluster comes from manifests (-f, YAML or JSON, lists and `kubectl get -o yaml` included) or from a live API
    server (--kubeconfig), whose scheduler is asked for what only it knows: capacity that it keeps back, and pods on
    their way. Nothing is changed. Exit 0 when there is an answer, whatever it is.
    """
    sources = files + more_files
    if bool(sources) == (kubeconfig_file is not None):
        raise click.UsageError("give manifests with -f or a cluster with --kubeconfig, one of the two")
    for warning in gates.warnings:
        say("warning", warning)
    namespace, name = _split(pod_key)
    note = partial(say, "note")
    configuration, foreign = configuration_for(config_file, gates)
    if kubeconfig_file is None:
        state = from_files(sources, Creation(gates))
    else:
        scheduler = _scheduler_of(kubeconfig_file, scheduler_endpoint, scheduler_ca_file)
        state = asyncio.run(from_cluster(kubeconfig_file, scheduler))
    say_about(state)
    pod = find_pod(state, f"{namespace}/{name}")
    profile = profile_for(pod, configuration, is_default=config_file is None, note=note)
    if remark := remark_on(pod, state.memory):
        say("note", remark)
    explanation = explain_pod(
        pod, state.objects, profile, clock=state.clock, foreign=foreign, memory=state.memory, note=note
    )
    if output == "json":
        written_json(explanation.document())
    else:
        weights = {each.name: each.weight for each in profile.plugins_at(ExtensionPoint.SCORE)}
        written(lambda: explain_report.show(explanation, weights, sys.stdout))


def _scheduler_of(kubeconfig_file: Path, url: str | None, ca_file: Path | None) -> Endpoint | None:
    """The scheduler that was named, else the one of the `tonnage up` in whose folder the kubeconfig lies."""
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise click.UsageError(f'--scheduler-endpoint "{url}": write https://HOST:PORT')
        return Endpoint(url, ca_file.read_bytes() if ca_file is not None else b"")
    if ca_file is not None:
        raise click.UsageError("--scheduler-ca goes with --scheduler-endpoint")
    try:
        return read_endpoints(kubeconfig_file.absolute().parent).get("scheduler")
    except NotOurs as exc:
        say("warning", f"the scheduler is not asked: {exc.message}; name it with --scheduler-endpoint")
        return None


def say_about(state: ClusterState) -> None:
    """What is to be said about the cluster that a question is asked of."""
    for warning in state.warnings:
        say("warning", warning)
    for note in state.notes:
        say("note", note)


def configuration_for(config_file: Path | None, gates: Gates) -> tuple[Configuration, ForeignPlugins]:
    """The scheduler's configuration and the plugins of others; what a file says without effect is noted."""
    foreign = foreign_plugins()
    configuration = load_configuration(config_file, gates, foreign)
    for note in configuration.notes:
        say("note", note)
    return configuration, foreign


def _split(pod_key: str) -> tuple[str, str]:
    namespace, _, name = pod_key.rpartition("/")
    if not name or "/" in namespace or pod_key.startswith("/"):
        raise click.UsageError(f'--pod "{pod_key}": write namespace/name')
    return namespace or "default", name
