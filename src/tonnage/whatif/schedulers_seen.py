"""Which scheduler names nobody serves, as far as a live cluster shows it.

    its own word     a scheduler that was asked, and its profiles
    leases           `kube-scheduler` is held for default-scheduler; `NAME` or `NAME-scheduler` for NAME
    pods             a PodScheduled condition, a nomination, or a claim that waits for its volume on a node: somebody
                     acted under the pod's schedulerName
    events           Scheduled, by who reports it

A scheduler tries a new pod within a second. Signs that are older than a pod which nobody has tried are no signs of
life, nor are signs from before a lease ran out. Of files nothing is said: who will run is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from tonnage.clock import rfc3339
from tonnage.errors import TonnageError
from tonnage.keyed import grouped
from tonnage.objects.batch_v1 import CronJob
from tonnage.objects.core_v1 import Event, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.small_groups import Lease
from tonnage.whatif.scheduler_memory import leases_of
from tonnage.whatif.workloads import is_workload

if TYPE_CHECKING:
    from tonnage.client.http import Client

DEFAULT_SCHEDULER: Final = "default-scheduler"
_LEASES: Final = {"kube-scheduler": DEFAULT_SCHEDULER}
_MIRROR: Final = "kubernetes.io/config.mirror"
_PATIENCE: Final = timedelta(seconds=30)
"""So soon a scheduler that runs has tried a pod, and another has taken over a lease."""
_USUAL_LEASE_S: Final = 15
_NEVER: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class SchedulersSeen:
    running: frozenset[str] = frozenset()
    """Names that a scheduler serves now: by its own word, or by a lease that is held."""
    seen_at: Mapping[str, datetime] = field(default_factory=dict)
    """By name, when somebody last acted under it."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """By name that nobody serves any more, or that pods wait for in vain: why that is known."""
    knows_leases: bool = False
    """Whether leases could be read: otherwise a name without signs may still be served."""
    named: frozenset[str] = frozenset()
    """Of those that serve, the ones that are schedulers for certain: any program holds a lease."""

    def nobody(self, name: str) -> str:
        """Why nobody schedules pods of this schedulerName; empty when somebody does, or when it is not known."""
        if name in self.silent:
            return self.silent[name]
        is_seen = name in self.running or name in self.seen_at or name == DEFAULT_SCHEDULER
        return "" if is_seen or not self.knows_leases else self._not_seen(name)

    def _not_seen(self, name: str) -> str:
        others = sorted(self.named)
        told = f" ({', '.join(others)} {'is' if len(others) == 1 else 'are'})" if others else ""
        return f"no scheduler named {name} seems to run{told}"


def seen_in(
    objects: Iterable[Object],
    leases: Iterable[Lease] | None,
    events: Iterable[Event] = (),
    *,
    now: datetime,
    running: Collection[str] = (),
) -> SchedulersSeen:
    """What a cluster shows. `running` are names that a scheduler says it serves; `leases` None could not be read."""
    known = list(objects)
    pods = [each for each in known if isinstance(each, Pod) and _MIRROR not in each.metadata.annotations]
    decided = {
        each.key
        for each in known
        if isinstance(each, PersistentVolumeClaim) and each.selected_node and not each.is_bound
    }
    tried_at = {each.key: at for each in pods if (at := _tried_at(each, decided)) is not None}
    signs = ((each.spec.scheduler_name, tried_at[each.key]) for each in pods if each.key in tried_at)
    seen_at = {name: max(times) for name, times in grouped((*signs, *_signs_of_events(events))).items()}
    held, ended_at = set(running), dict[str, datetime]()
    for name, until in _leases_by_name(leases or ()):
        if until > now - _PATIENCE:
            held.add(name)
        else:
            ended_at[name] = max(until, ended_at.get(name, until))
    asked = {DEFAULT_SCHEDULER, *(pod.spec.scheduler_name for pod in pods)}
    named = frozenset(running) | seen_at.keys() | (held & asked)
    schedulers_seen = SchedulersSeen(frozenset(held), seen_at, {}, leases is not None, named)
    silent = {name: f"the lease of scheduler {name} ran out at {rfc3339(until)}" for name, until in ended_at.items()}
    silent = {name: why for name, why in silent.items() if ended_at[name] >= seen_at.get(name, _NEVER)}
    for pod in pods:
        name, created_at = pod.spec.scheduler_name, pod.metadata.creation_timestamp
        is_held_back = pod.is_terminal or pod.metadata.is_terminating or pod.spec.scheduling_gates
        is_untried = pod.key not in tried_at and not pod.spec.node_name and not is_held_back
        if name in silent or not is_untried or created_at is None or created_at > now - _PATIENCE:
            continue
        if name not in seen_at:
            silent[name] = schedulers_seen._not_seen(name)
        elif seen_at[name] < created_at:
            silent[name] = f"scheduler {name} is silent since {rfc3339(seen_at[name])}: newer pods were never tried"
    return replace(schedulers_seen, silent={name: why for name, why in silent.items() if name not in held})


def _tried_at(pod: Pod, decided: Collection[Key]) -> datetime | None:
    """When a scheduler last said something about a pod. That it is gated is the API server's word. One that is decided
    about may wait for its volumes without a condition: its claims, of `decided`, or its nomination tell."""
    condition = pod.condition("PodScheduled")
    if condition is not None and condition.reason != "SchedulingGated":
        return condition.last_transition_time or pod.metadata.creation_timestamp
    is_decided = pod.status.nominated_node_name or any(key in decided for key in pod.claim_keys())
    return pod.metadata.creation_timestamp if is_decided else None


def _signs_of_events(events: Iterable[Event]) -> Iterator[tuple[str, datetime]]:
    for event in events:
        at = event.event_time or event.last_timestamp or event.metadata.creation_timestamp
        if at is not None:
            yield event.reporting_component or event.source.component, at


def _leases_by_name(leases: Iterable[Lease]) -> Iterator[tuple[str, datetime]]:
    """By name of a scheduler, until when a lease that may be its own is held; one that was let go ends then."""
    for lease in leases:
        until = lease_ends_at(lease)
        if until is not None:
            for name in {_LEASES.get(lease.name, lease.name), lease.name.removesuffix("-scheduler")}:
                yield name, until


def lease_ends_at(lease: Lease) -> datetime | None:
    """Until when a lease is held unless it is renewed; one that was released ended then. None if it was never held."""
    spec = lease.spec
    if spec.renew_time is None:
        return None
    lasts_s = (spec.lease_duration_seconds or _USUAL_LEASE_S) if spec.holder_identity else 0
    return spec.renew_time + timedelta(seconds=lasts_s)


def _wanted_names(objects: Iterable[Object]) -> set[str]:
    """The schedulerNames of pods that wait, and of pods that workloads would make."""
    found = set()
    for each in objects:
        if isinstance(each, Pod) and not each.spec.node_name:
            found.add(each.spec.scheduler_name)
        elif is_workload(each):
            made_by: Any = each.spec.job_template if isinstance(each, CronJob) else each
            found.add(str(made_by.spec.template.get("spec", {}).get("schedulerName", DEFAULT_SCHEDULER)))
    return found


async def schedulers_of(
    client: Client, objects: Collection[Object], *, running: Collection[str] = ()
) -> SchedulersSeen:
    """Ask a live cluster that holds these objects, once: what it does not answer is not known. Events are asked for
    only about names without any other sign."""
    now = client.clock.now()
    leases: list[Lease] | None = None
    with suppress(TonnageError):
        leases = await leases_of(client)
    schedulers_seen = seen_in(objects, leases, now=now, running=running)
    events: list[Event] = []
    for name in sorted(_wanted_names(objects)):
        if schedulers_seen.nobody(name):
            with suppress(TonnageError):  # they may not be read, or this is no name that a selector can hold
                selected = f"reason=Scheduled,source={name}"
                events += (await client.list(Event, field_selector=selected, retry=False)).items
    return seen_in(objects, leases, events, now=now, running=running) if events else schedulers_seen
