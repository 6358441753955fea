"""`explain`: which node a pod goes to and why, or why none, decided by the scheduler's engine and kept nowhere.

A pod that has a node is decided on as if it were new. The choice between equally good nodes is seeded, so that the same
input gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from tonnage.clock import Clock
from tonnage.errors import TonnageError, closest
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key, Object, split_key
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.configuration.plugin_catalogue import ExtensionPoint
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.whatif.scheduler_memory import SchedulerMemory
from tonnage.whatif.sources import ClusterState, engine_over

_GUESSES: Final = 3


def explain_pod(
    pod: Pod,
    objects: Iterable[Object],
    profile: ResolvedProfile,
    *,
    clock: Clock,
    foreign: ForeignPlugins | None = None,
    memory: SchedulerMemory | None = None,
    note: Callable[[str], object] = lambda sentence: None,
) -> Explanation:
    """What the scheduler would decide about a pod, as if it were new, on a cluster of these objects.

    `memory` is what a live scheduler of that cluster knows besides; where it is configured otherwise, that is noted.
    """
    objects = list(objects)
    engine = engine_over(objects, [profile], clock=clock, foreign=foreign)
    if pod.spec.node_name:
        engine.delete(pod)
        pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    if memory is not None:
        for sentence in memory.differences(engine):
            note(sentence)
        memory.laid_into(engine, objects, pod)
    return engine.explain(pod)


def decided_on(
    pod: Pod,
    state: ClusterState,
    configuration: Configuration,
    *,
    is_default: bool,
    foreign: ForeignPlugins | None = None,
    note: Callable[[str], object] = lambda sentence: None,
) -> tuple[Explanation, ResolvedProfile]:
    """A pod of a cluster explained, with the profile that decided; what a person should know about it is noted.

    Raises TonnageError when the configuration has no profile for the pod.
    """
    profile = profile_for(pod, configuration, is_default=is_default, note=note)
    if remark := remark_on(pod, state.memory):
        note(remark)
    found = explain_pod(pod, state.objects, profile, clock=state.clock, foreign=foreign, memory=state.memory, note=note)
    return found, profile


def score_weights(profile: ResolvedProfile) -> dict[str, int]:
    return {each.name: each.weight for each in profile.plugins_at(ExtensionPoint.SCORE)}


def remark_on(pod: Pod, memory: SchedulerMemory | None = None) -> str:
    """What a person should know about a pod that no scheduler would take up now; empty for one that waits."""
    if pod.spec.node_name:
        state = "has ended on" if pod.is_terminal else "is on"
        return f"{pod.key} {state} {pod.spec.node_name}; this is decided as if it were not there"
    if memory is not None and (sent_to := memory.node_of(pod)):
        return f"{pod.key} is on its way to {sent_to}; this is decided as if it were not"
    if pod.metadata.is_terminating:
        return f"{pod.key} is being deleted; a scheduler passes it over"
    return ""


def find_pod(state: ClusterState, key: Key) -> Pod:
    """A pod by its key. Raises TonnageError, with those that may have been meant."""
    pod = state.pods.get(key)
    if pod is not None:
        return pod
    workloads = [(type(each).__name__, each.key) for each in state.objects if not isinstance(each, Pod)]
    namesake = next((kind for kind, other in (*state.passed_over, *workloads) if other == key), "")
    count = len(state.pods)
    message = f'there is no pod "{key}" among the {count} of {state.source}'
    if not count:
        message = f"there are no pods in {state.source}"
    raise TonnageError(message, hint=_hint(key, namesake, state.pods))


def _hint(key: Key, namesake: str, known: Iterable[Key]) -> str | None:
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


def profile_for(
    pod: Pod, configuration: Configuration, *, is_default: bool, note: Callable[[str], object] = lambda sentence: None
) -> ResolvedProfile:
    """The profile that the pod's schedulerName asks for.

    With the default configuration (`is_default`) any pod is decided on by the first profile, which is noted; with a
    file, a name that it does not have raises TonnageError.
    """
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
    note(f"{pod.key} asks for schedulerName {wanted}; this is what the default plugins decide")
    return configuration.profiles[0]
