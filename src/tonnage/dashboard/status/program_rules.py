"""Rules about programs: schedulers, drivers and provisioners that are silent, and leases that nobody renews.

Who schedules is judged by `seen_in`, as `explain` and `doctor` judge it. A lease counts if it is that of a scheduler in
use, of a driver in use (external-provisioner and its siblings name theirs after the driver), or of the controllers.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from tonnage.clock import rfc3339
from tonnage.dashboard.status.node_rules import WAITS_S
from tonnage.dashboard.status.sight import Sight, Trouble, capital, describe, trouble
from tonnage.dashboard.wire import NoticeRow, VolumeRow
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key
from tonnage.objects.small_groups import Lease
from tonnage.provisioner.context import lease_name
from tonnage.whatif.doctor.facts import Severity
from tonnage.whatif.page import count_text, named
from tonnage.whatif.schedulers_seen import SchedulersSeen, lease_ends_at, seen_in

PATIENCE: Final = timedelta(seconds=30)
"""How long after its end a lease may be taken over by another holder."""
_CONTROLLERS: Final = "kube-controller-manager"


def notice_troubles(sight: Sight) -> Iterator[Trouble]:
    """An API server that does not answer, and a scheduler that was asked and did not."""
    notices = sight.rows.of(NoticeRow)
    for topic, kind, headline, command in (
        ("server", "api-server-away", "The API server does not answer", "kubectl get --raw /readyz"),
        ("scheduler", "scheduler-not-asked", "The scheduler does not answer", "kubectl get leases -A"),
    ):
        notice_row = notices.get(topic)
        if notice_row is not None and notice_row.severity != Severity.INFO.value:
            yield trouble(kind, f"Program {topic}", headline, capital(notice_row.text), command)


def scheduler_troubles(sight: Sight) -> Iterator[tuple[str, Trouble]]:
    """Schedulers that pods ask for and that do not run, by name."""
    seen = _schedulers(sight)
    waiting: dict[str, list[Pod]] = {}
    used: set[str] = set()
    for pod in sight.objects.pods.values():
        if pod.is_terminal or pod.metadata.is_terminating:
            continue
        used.add(pod.spec.scheduler_name)
        is_waiting = not pod.spec.node_name and not pod.spec.scheduling_gates
        if is_waiting and sight.is_over(pod.metadata.creation_timestamp, WAITS_S):
            waiting.setdefault(pod.spec.scheduler_name, []).append(pod)
    for name in sorted(used):
        pods = waiting.get(name, [])
        why = seen.nobody(name) if pods else seen.silent.get(name, "")
        if why:
            times = [at for each in pods if (at := each.metadata.creation_timestamp) is not None]
            wait = count_text(len(pods), "pod waits", "pods wait") if pods else "New pods will wait"
            yield (
                name,
                trouble(
                    "scheduler-silent",
                    f"Scheduler {name}",
                    f"Scheduler {name} is not running",
                    f"{capital(why)} {wait} for it.",
                    "kubectl get leases -A",
                    since=_lease_end(sight, name) or min(times, default=None),
                    count=max(len(pods), 1),
                ),
            )


def _schedulers(sight: Sight) -> SchedulersSeen:
    objects = (*sight.objects.pods.values(), *sight.objects.claims.values())
    return seen_in(objects, sight.leases, now=sight.now, running=sight.running)


def _lease_end(sight: Sight, scheduler: str) -> datetime | None:
    names = (scheduler, f"{scheduler}-scheduler", *(("kube-scheduler",) if scheduler == "default-scheduler" else ()))
    found = [at for lease in sight.leases or () if lease.name in names and (at := lease_ends_at(lease)) is not None]
    return max((at for at in found if at < sight.now), default=None)


def driver_troubles(sight: Sight) -> Iterator[Trouble]:
    """Drivers that do not answer their provisioner: claims whose last refusal is a silence."""
    silent: dict[str, list[Key]] = {}
    for key, row in sight.rows.of(VolumeRow).items():
        claim = sight.objects.claims.get(key) if row.error else None
        refusal = sight.refusals.get(claim.uid) if claim is not None else None
        if refusal is not None and refusal.is_silence:
            silent.setdefault(row.driver, []).append(key)
    for driver, keys in sorted(silent.items()):
        refusals = [sight.refusals[sight.objects.claims[key].uid] for key in sorted(keys)]
        yield trouble(
            "driver-silent",
            f"CSIDriver {driver}",
            f"Driver {driver} does not answer",
            f"{count_text(len(keys), 'volume')} cannot be made: {named(sorted(keys))}. The provisioner says: "
            f"{capital(refusals[0].message, at_start=False)}",
            "kubectl get events -A --field-selector reason=ProvisioningFailed",
            since=min((each.since for each in refusals if each.since is not None), default=None),
            count=len(keys),
        )


def lease_troubles(sight: Sight) -> Iterator[Trouble]:
    """Leases of storage programs that are held and not renewed. A lease that was released is nobody's by intent."""
    drivers = {lease_name(each.provisioner): each.provisioner for each in sight.objects.classes.values()}
    drivers |= {lease_name(name): name for name in sight.objects.drivers}
    for lease in sight.leases or ():
        until = lease_ends_at(lease)
        if not lease.spec.holder_identity or until is None or until + PATIENCE > sight.now:
            continue
        own = drivers.get(lease.name)
        other = next((each for name, each in drivers.items() if lease.name.endswith(f"-{name}")), "")
        if own:
            yield _not_renewed(
                "provisioner-silent",
                lease,
                f"The provisioner of {own} is not running",
                "Nobody makes or deletes its volumes, and its capacity figures grow old.",
                until,
            )
        elif other or lease.name == _CONTROLLERS:
            who, meaning = "The controller manager", "Claims are not bound, and workloads get no new pods."
            if other:
                who, meaning = f"A sidecar of {other}", "Its volumes may not be attached or resized."
            yield _not_renewed("lease-not-renewed", lease, f"{who} is not running", meaning, until)


def _not_renewed(kind: str, lease: Lease, headline: str, meaning: str, until: datetime) -> Trouble:
    told = f"Its lease {lease.key}, held by {lease.spec.holder_identity}, ran out at {rfc3339(until)}."
    return trouble(
        kind,
        f"Lease {lease.key}",
        headline,
        f"{told} {meaning}",
        describe("Lease", lease.key),
        since=until,
    )
