"""Workloads, named by people as `KIND/NAMESPACE/NAME`, and the pods that each of them has already.

StatefulSet/shop/db, sts/shop/db, deploy/web (of the namespace that is meant), cronjob/shop/nightly
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, get_args

from tonnage.behaviour.workloads.pod_states import makers_of
from tonnage.errors import TonnageError, closest, did_you_mean
from tonnage.objects.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from tonnage.objects.batch_v1 import CronJob, Job
from tonnage.objects.codec import resource_of
from tonnage.objects.core_v1 import Pod, ReplicationController
from tonnage.objects.meta import Key, Object

Workload = StatefulSet | Deployment | ReplicaSet | ReplicationController | DaemonSet | Job | CronJob

WORKLOAD_KINDS: Final[tuple[type[Object], ...]] = get_args(Workload)
NOT_READ_BY_DECISIONS: Final[tuple[type[Object], ...]] = (Deployment, DaemonSet, Job, CronJob)
"""A decision looks at the sets that own pods, and not at who owns the sets."""

_SPELLINGS: Final = {
    spelling: cls
    for cls in WORKLOAD_KINDS
    for resource in (resource_of(cls),)
    for spelling in (resource.singular, resource.plural, *resource.short_names)
}


class WorkloadName(NamedTuple):
    """Which workload a person means."""

    cls: type[Object]
    key: Key

    def __str__(self) -> str:
        return f"{self.cls.__name__} {self.key}"


def workload_name(text: str, namespace: str = "default") -> WorkloadName:
    """Read `KIND/NAMESPACE/NAME` or `KIND/NAME`. Raises TonnageError."""
    kind, *rest = text.split("/")
    if len(rest) not in (1, 2) or not all((kind, *rest)):
        raise TonnageError(
            f'workload "{text}" is not KIND/NAMESPACE/NAME', hint="write StatefulSet/shop/db, or sts/shop/db"
        )
    cls = _SPELLINGS.get(kind.lower())
    if cls is None:
        kinds = [each.__name__ for each in WORKLOAD_KINDS]
        hint = did_you_mean(kind, kinds) or f"kinds that make pods are {', '.join(kinds)}"
        raise TonnageError(f'workload "{text}": no kind that makes pods is called "{kind}"', hint=hint)
    return WorkloadName(cls, "/".join(rest if len(rest) == 2 else (namespace, *rest)))


def is_workload(found: Object) -> bool:
    return isinstance(found, WORKLOAD_KINDS)


def find_workload(name: WorkloadName, known: Iterable[Object], source: str) -> Workload:
    """The workload that is meant. Raises TonnageError, with those that may have been."""
    others = [each for each in known if is_workload(each)]
    for each in others:
        if type(each) is name.cls and each.key == name.key:
            return each  # type: ignore[return-value]  # one of WORKLOAD_KINDS
    guesses = [f"{type(each).__name__}/{each.key}" for each in others if each.key == name.key]
    guesses += closest(f"{name.cls.__name__}/{name.key}", [f"{type(each).__name__}/{each.key}" for each in others])
    hint = f"did you mean {' or '.join(dict.fromkeys(guesses))}?" if guesses else None
    raise TonnageError(f"there is no {name} among the {len(others)} workloads of {source}", hint=hint)


def pods_of(workload: Object, objects: Iterable[Object]) -> Sequence[Pod]:
    """The pods that a workload has already, its own and those of sets and jobs that it made; by name."""
    found = list(objects)
    owners = {workload.uid} - {""}

    def is_owned(each: Object) -> bool:
        return (owner := each.metadata.controller) is not None and owner.uid in owners

    owners |= {each.uid for each in makers_of(found).values() if is_owned(each)} - {""}
    return sorted((each for each in found if isinstance(each, Pod) and is_owned(each)), key=lambda pod: pod.key)
