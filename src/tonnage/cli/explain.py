"""`tonnage explain`: which node a pod goes to and why, or why none, from files or from a live cluster.

The decision is the scheduler's own code (scheduling/decision/explain.py) on whatever is known: manifests as an API
server would have stored them, or what a server lists. Nothing is written anywhere. The choice between equally good
nodes is seeded, so that the same input gives the same answer.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import msgspec

from tonnage.cli.options import feature_gates
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.clock import SystemClock
from tonnage.errors import Forbidden, NotFound, TonnageError
from tonnage.gates import Gates
from tonnage.objects.apps_v1 import ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Namespace, Node, Pod, ReplicationController, Service
from tonnage.objects.meta import Object, split_key
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import STORAGE_KINDS
from tonnage.scheduling.configuration.configuration import Configuration, ResolvedProfile
from tonnage.scheduling.configuration.loading import load_configuration
from tonnage.scheduling.configuration.plugin_catalogue import ExtensionPoint
from tonnage.scheduling.decision import explain as accounts
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.engine.profiles import Assembled, assemble
from tonnage.scheduling.engine.snapshot import Snapshot, clock_of, snapshot_of
from tonnage.scheduling.plugins.entry_points import foreign_plugins
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.suggestions import closest
from tonnage.whatif import explain_report, manifests
from tonnage.whatif.creation import Creation

_SEED = 0
_GUESSES = 3
_WORKLOADS = (Namespace, Service, ReplicationController, ReplicaSet, StatefulSet)
LISTED: tuple[type[Object], ...] = (Node, Pod, *_WORKLOADS, *STORAGE_KINDS)
_NEEDED = (Node, Pod)
"""Without the others a decision is still right for most pods, and somebody's role may not allow to list them."""


@dataclass(frozen=True, slots=True)
class World:
    """What a decision is made on, where it is from, and what is to be said about it."""

    objects: Sequence[Object]
    source: str
    notes: list[str] = field(default_factory=list)
    passed_over: Sequence[tuple[str, str]] = ()


@click.command()
@click.option(
    "-f", "--filename", "files", multiple=True, metavar="FILE", help="Manifests: files, folders, - for stdin."
)
@click.argument("more_files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--kubeconfig", "kubeconfig_file", type=click.Path(path_type=Path, dir_okay=False), help="Ask a live cluster."
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
    pod_key: str,
    config_file: Path | None,
    gates: Gates,
    output: str,
) -> None:
    """Tell which node a pod goes to and why, or why none.

    The cluster comes from manifests (-f, YAML or JSON, lists and `kubectl get -o yaml` included) or from a live API
    server (--kubeconfig). Nothing is changed. Exit 0 when there is an answer, whatever it is.
    """
    sources = files + more_files
    if bool(sources) == (kubeconfig_file is not None):
        raise click.UsageError("give manifests with -f or a cluster with --kubeconfig, one of the two")
    for warning in gates.warnings:
        say("warning", warning)
    namespace, name = _split(pod_key)
    configuration, foreign = configuration_for(config_file, gates)
    if kubeconfig_file is None:
        world = from_files(sources, Creation(gates))
    else:
        world = asyncio.run(from_cluster(kubeconfig_file))
    for note in world.notes:
        say("note", note)
    clock = clock_of(world.objects) if kubeconfig_file is None else SystemClock()
    snapshot = snapshot_of(world.objects, clock)
    pod = _find(snapshot, f"{namespace}/{name}", world)
    profile = _profile_for(pod, configuration, is_default=config_file is None)
    assembled = assemble(profile, random.Random(_SEED), foreign)
    _answer(decided(snapshot, pod, assembled), profile, output)


def decided(snapshot: Snapshot, pod: Pod, assembled: Assembled) -> Explanation:
    """The decision for a pod; one that has a node is taken off it first, and decided on as if it were new."""
    if pod.spec.node_name:
        snapshot.cluster.remove_pod(PodInfo(pod).uid)
        state = "has ended on" if pod.is_terminal else "is on"
        say("note", f"{pod.key} {state} {pod.spec.node_name}; this is decided as if it were not there")
        pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    elif pod.metadata.is_terminating:
        say("note", f"{pod.key} is being deleted; a scheduler passes it over")
    info = PodInfo(pod)
    return accounts.explain(
        assembled.decider,
        snapshot.cluster,
        info,
        snapshot.nominator.ahead_of(info),
        pre_enqueue=assembled.rules.pre_enqueue,
    )


def _answer(explanation: Explanation, profile: ResolvedProfile, output: str) -> None:
    if output == "json":
        text = msgspec.json.format(msgspec.json.encode(explanation.document()), indent=2).decode() + "\n"
        written(lambda: sys.stdout.write(text))
    else:
        weights = {each.name: each.weight for each in profile.plugins_at(ExtensionPoint.SCORE)}
        written(lambda: explain_report.show(explanation, weights, sys.stdout))


def written(write: Callable[[], object]) -> None:
    """Write an answer to stdout, as far as somebody reads it."""
    try:
        write()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough (`| head`); nothing is left to be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(kind: str, sentence: str) -> None:
    """Talk beside the answer: a note or a warning."""
    click.echo(f"{kind}: {sentence}", err=True)


# -- the world --------------------------------------------------------------------------------------------------------


def from_files(sources: Sequence[str], creation: Creation, *, without: Path | None = None) -> World:
    """What manifests describe; `without` is a file among them that holds none."""
    found = manifests.read(sources, without=without)
    objects = creation.of_all(found)
    for warning in found.warnings:
        say("warning", warning)
    notes = []
    if found.passed_over:
        notes.append(f"passed over what decisions do not look at: {found.passed_over_counts}")
    return World(objects, "the manifests", notes, found.passed_over)


async def from_cluster(kubeconfig_file: Path) -> World:
    """What a live cluster holds now. Raises ApiError, Disconnected, or InvalidKubeconfig."""
    objects: list[Object] = []
    notes: list[str] = []
    async with Client.connect(kubeconfig.load(kubeconfig_file), user_agent="tonnage-explain") as client:
        for cls, answer in zip(LISTED, await asyncio.gather(*(_listed(client, cls) for cls in LISTED)), strict=True):
            if isinstance(answer, TonnageError):
                notes.append(f"{cls.__name__} objects cannot be listed and count as none: {answer.message}")
            else:
                objects += answer
        return World(objects, client.server, notes)


async def _listed(client: Client, cls: type[Object]) -> Sequence[Object] | TonnageError:
    try:
        return (await client.list(cls)).items
    except (Forbidden, NotFound) as exc:
        if cls in _NEEDED:
            raise
        return exc


# -- the pod and its profile ------------------------------------------------------------------------------------------


def _split(pod_key: str) -> tuple[str, str]:
    namespace, _, name = pod_key.rpartition("/")
    if not name or "/" in namespace or pod_key.startswith("/"):
        raise click.UsageError(f'--pod "{pod_key}": write namespace/name')
    return namespace or "default", name


def _find(snapshot: Snapshot, key: str, world: World) -> Pod:
    pod = snapshot.pods.get(key)
    if pod is not None:
        return pod
    workloads = [(type(each).__name__, each.key) for each in world.objects if not isinstance(each, Pod)]
    namesake = next((kind for kind, other in (*world.passed_over, *workloads) if other == key), "")
    count = len(snapshot.pods)
    message = f'there is no pod "{key}" among the {count} of {world.source}'
    if not count:
        message = f"there are no pods in {world.source}"
    raise TonnageError(message, hint=_hint(key, namesake, snapshot.pods))


def _hint(key: str, namesake: str, known: Iterable[str]) -> str | None:
    """Names that may have been meant: those that start so, those that look alike, and the same in other namespaces."""
    if namesake:
        return f"{key} is a {namesake}; name one of its pods"
    namespace, name = split_key(key)
    by_namespace: dict[str, list[str]] = {}
    for other in known:
        by_namespace.setdefault(split_key(other)[0], []).append(split_key(other)[1])
    here = by_namespace.pop(namespace, [])
    close = [other for other in here if other.startswith(name)][:_GUESSES] or closest(name, here, most=_GUESSES)
    found = [f"{namespace}/{other}" for other in close]
    found += [f"{elsewhere}/{name}" for elsewhere, names in by_namespace.items() if name in names][:_GUESSES]
    return f"is {' or '.join(found)} meant?" if found else None


def configuration_for(config_file: Path | None, gates: Gates) -> tuple[Configuration, ForeignPlugins]:
    """The scheduler's configuration and the plugins of others; what a file says without effect is noted."""
    foreign = foreign_plugins()
    configuration = load_configuration(config_file, gates, foreign)
    for note in configuration.notes:
        say("note", note)
    return configuration, foreign


def _profile_for(pod: Pod, configuration: Configuration, *, is_default: bool) -> ResolvedProfile:
    """The profile that the pod's schedulerName asks for."""
    wanted = pod.spec.scheduler_name
    profile = configuration.profile_named(wanted)
    if profile is not None:
        return profile
    if not is_default:
        names = ", ".join(each.scheduler_name for each in configuration.profiles)
        raise TonnageError(
            f"{pod.key} asks for schedulerName {wanted}, and {configuration.source} has no such profile",
            hint=f"its profiles are {names}",
        )
    profile = configuration.profiles[0]
    say("note", f"{pod.key} asks for schedulerName {wanted}; this is what the default plugins decide")
    return profile
