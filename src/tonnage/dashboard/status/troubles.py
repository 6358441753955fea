"""All rules, one list: what is wrong with a cluster at one moment, worst first. Here also the rules about what should
run: nodes, programs (schedulers, drivers, provisioners, holders of leases), and pods.

    for each in troubles(sight):                    # pure: the moment is sight.now
        print(each.severity, each.headline, each.meaning, each.command)

A cause comes before what follows from it: nodes, then programs, then volumes, then pods; of one kind the oldest first.

Who schedules is judged by `seen_in`, as `explain` and `doctor` judge it. A lease counts if it is that of a scheduler in
use, of a driver in use (external-provisioner and its siblings name theirs after the driver), or of the controllers. A
pod that waits for a volume in trouble is not reported beside that volume: the volume's trouble names it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final

from tonnage.clock import rfc3339
from tonnage.dashboard.status import storage_rules
from tonnage.dashboard.status.sight import KINDS, Sight, Trouble, capital, explain, trouble
from tonnage.dashboard.wire import NodeRow, NoticeRow, PodRow, VolumeRow
from tonnage.keyed import grouped
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.meta import Key
from tonnage.objects.requirements import UNSCHEDULABLE
from tonnage.provisioner.context import lease_name
from tonnage.scheduler.storage_totals import ClassTotals
from tonnage.scheduling.volumes.explain.refusal_notes import half_made_in
from tonnage.whatif.doctor.facts import WORST_FIRST, Severity
from tonnage.whatif.page import count_text, named
from tonnage.whatif.schedulers_seen import lease_ends_at, seen_in

SHOWN: Final = 5
"""How many troubles of one kind are shown by themselves."""
_RANKS: Final = {kind: rank for rank, kind in enumerate(KINDS)}
_LATEST: Final = datetime.max.replace(tzinfo=UTC)


def troubles(sight: Sight, totals: Mapping[str, ClassTotals]) -> list[Trouble]:
    """Everything that is wrong, worst first. `totals`: bytes by class."""
    found = sorted(_all(sight, totals), key=_order)
    unique = {each.key: each for each in reversed(found)}
    return [each for each in found if unique[each.key] is each]


def _all(sight: Sight, totals: Mapping[str, ClassTotals]) -> Iterator[Trouble]:
    yield from notice_troubles(sight)
    yield from node_troubles(sight)
    silent = dict(scheduler_troubles(sight))
    yield from silent.values()
    yield from driver_troubles(sight)
    yield from lease_troubles(sight)
    yield from storage_rules.capacity_troubles(sight, totals)
    of_volumes = list(storage_rules.volume_troubles(sight))
    yield from of_volumes
    claims = {each.object.partition(" ")[2] for each in of_volumes}
    claims |= {key for key, row in sight.rows.of(VolumeRow).items() if row.error}
    of_pods = list(pod_troubles(sight, claims, silent))
    yield from of_pods
    told = {*(each.object for each in of_volumes), *_attachments(sight, of_pods)}
    yield from (each for each in storage_rules.attach_troubles(sight) if each.object not in told)
    yield from storage_rules.doctors_troubles(sight, told)


def _attachments(sight: Sight, of_pods: Iterable[Trouble]) -> Iterator[str]:
    """The attachments of pods that do not start: their trouble is the pod's."""
    pods, volumes = sight.rows.of(PodRow), sight.rows.of(VolumeRow)
    for found in of_pods:
        if found.kind != "pod-not-starting":
            continue
        for claim in pods[found.object.partition(" ")[2]].claims:
            if claim in volumes and volumes[claim].volume:
                names = sight.objects.attachments_of_volume[volumes[claim].volume]
                yield from (f"VolumeAttachment {name}" for name in names)


def _order(found: Trouble) -> tuple[int, datetime, str]:
    return _RANKS[found.kind], found.since or _LATEST, found.object


def worst(found: Iterable[Trouble]) -> Severity:
    severities = {each.severity for each in found}
    return next((severity for severity in WORST_FIRST if severity.value in severities), Severity.INFO)


def folded(found: Sequence[Trouble]) -> list[tuple[Trouble, int]]:
    """The troubles to show, each with the number of others of its kind that are left out after it."""
    shown = []
    for _, alike in groupby(found, key=lambda each: each.kind):
        of_kind = list(alike)
        more = max(len(of_kind) - SHOWN, 0)
        shown += [(each, 0) for each in of_kind[: SHOWN - 1]]
        shown += [(each, more) for each in of_kind[SHOWN - 1 : SHOWN]]
    return shown


WAITS_S: Final = 30.0
"""A scheduler tries a new pod within a second; a pod that waits longer is pending."""
STARTS_S: Final = 300.0
"""How long a pod with claims may take to start on its node: volumes are attached, images pulled."""
_PREEMPTION: Final = " preemption: "
"""Where the words about nodes end in a scheduler's message."""
STOPS_S: Final = 60.0
"""How long after its grace period a pod may still be there."""
PATIENCE: Final = timedelta(seconds=30)
"""How long after its end a lease may be taken over by another holder."""
_CONTROLLERS: Final = "kube-controller-manager"


# -- nodes ------------------------------------------------------------------------------------------------------------


def node_troubles(sight: Sight) -> Iterator[Trouble]:
    lying: dict[str, int] = {}
    for volume in sight.rows.of(VolumeRow).values():
        lying[volume.node] = lying.get(volume.node, 0) + (volume.state == "bound")
    for name, row in sight.rows.of(NodeRow).items():
        node = sight.objects.nodes.get(name)
        if node is None:
            continue  # a node that is gone: volumes that are left behind are found by themselves
        if not row.ready:
            yield _not_ready(node, row, lying.get(name, 0))
        elif row.cordoned:
            meaning = f"No new pod goes there until you run kubectl uncordon {name}."
            since = next((taint.time_added for taint in node.spec.taints if taint.key == UNSCHEDULABLE), None)
            yield trouble("node-cordoned", "Node", name, meaning, since=since)


def _not_ready(node: Node, row: NodeRow, volumes: int) -> Trouble:
    ready = node.condition("Ready")
    what = [count_text(row.pods, "pod")] if row.pods else []
    what += [count_text(volumes, "volume")] if volumes else []
    held = f" It has {' and '.join(what)}." if what else ""
    meaning = f"{capital(row.reason)}{held} Its pods may stop, and nothing new starts there."
    since = ready.last_transition_time if ready is not None else None
    return trouble("node-not-ready", "Node", node.name, meaning, since=since)


# -- programs ---------------------------------------------------------------------------------------------------------


def notice_troubles(sight: Sight) -> Iterator[Trouble]:
    """An API server that does not answer, and a scheduler that was asked and did not."""
    for topic, name in (("server", "api-server-away"), ("scheduler", "scheduler-not-asked")):
        notice_row = sight.rows.of(NoticeRow).get(topic)
        if notice_row is not None and notice_row.severity != Severity.INFO.value:
            yield trouble(name, "Program", topic, capital(notice_row.text))


def scheduler_troubles(sight: Sight) -> Iterator[tuple[str, Trouble]]:
    """Schedulers that pods ask for and that do not run, by name."""
    objects = (*sight.objects.pods.values(), *sight.objects.claims.values())
    seen = seen_in(objects, sight.leases, now=sight.now, running=sight.running)
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
            since, meaning = _lease_end(sight, name) or min(times, default=None), f"{capital(why)} {wait} for it."
            yield name, trouble("scheduler-silent", "Scheduler", name, meaning, since=since, count=max(len(pods), 1))


def _lease_end(sight: Sight, scheduler: str) -> datetime | None:
    names = (scheduler, f"{scheduler}-scheduler", *(("kube-scheduler",) if scheduler == "default-scheduler" else ()))
    found = [at for lease in sight.leases or () if lease.name in names and (at := lease_ends_at(lease)) is not None]
    return max((at for at in found if at < sight.now), default=None)


def driver_troubles(sight: Sight) -> Iterator[Trouble]:
    """Drivers that do not answer their provisioner: claims whose last refusal is a silence."""
    rows = sorted((key, row) for key, row in sight.rows.of(VolumeRow).items() if row.error)
    refused = ((key, row.driver, sight.refusal_of(key)) for key, row in rows)
    silent = grouped((driver, (key, each)) for key, driver, each in refused if each is not None and each.is_silence)
    for driver, found in sorted(silent.items()):
        volumes, said = count_text(len(found), "volume"), capital(found[0][1].message, at_start=False)
        meaning = f"{volumes} cannot be made: {named([key for key, _ in found])}. The provisioner says: {said}"
        since = min((each.since for _, each in found if each.since is not None), default=None)
        yield trouble("driver-silent", "CSIDriver", driver, meaning, since=since, count=len(found))


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
        name = "provisioner-silent" if own else "lease-not-renewed"
        if own:
            who, meaning = (
                f"The provisioner of {own}",
                "Nobody makes or deletes its volumes, and its capacity figures grow old.",
            )
        elif other:
            who, meaning = f"A sidecar of {other}", "Its volumes may not be attached or resized."
        elif lease.name == _CONTROLLERS:
            who, meaning = "The controller manager", "Claims are not bound, and workloads get no new pods."
        else:
            continue
        told = f"Its lease {lease.key}, held by {lease.spec.holder_identity}, ran out at {rfc3339(until)}."
        yield trouble(name, "Lease", lease.key, f"{told} {meaning}", since=until, who=who)


# -- pods -------------------------------------------------------------------------------------------------------------


def pod_troubles(sight: Sight, told: AbstractSet[Key], unserved: Collection[str]) -> Iterator[Trouble]:
    """`told`: claims whose trouble is reported already. `unserved`: names of schedulers that are reported as silent."""
    waiting: dict[str, list[Pod]] = {}
    messages: dict[str, str] = {}
    for key, pod in sight.objects.pods.items():
        if pod.is_terminal:
            continue
        if pod.metadata.is_terminating:
            if sight.is_over(pod.metadata.deletion_timestamp, STOPS_S):
                yield _terminating(sight, pod)
            continue
        row = sight.rows.of(PodRow).get(key)
        if row is None or not told.isdisjoint(row.claims):
            continue
        if row.state in ("waiting", "decided") and sight.is_over(row.created, WAITS_S):
            if stuck := half_made_in(row.message):
                yield trouble("pod-half-made", "Pod", key, stuck, command=explain(key), since=row.created)
            elif row.state == "waiting" and pod.spec.scheduler_name not in unserved:
                message = row.message.partition(_PREEMPTION)[0]
                message = messages.setdefault(row.workload, message) if row.workload else message
                waiting.setdefault(message, []).append(pod)
        elif row.state == "bound" and row.claims:
            volumes = [found for claim in row.claims if (found := sight.rows.of(VolumeRow).get(claim)) is not None]
            refused = next((volume for volume in volumes if volume.attach_error), None)
            if refused is not None or sight.is_over(_bound_at(pod), STARTS_S):
                yield _not_starting(pod, row, volumes, refused)
    for message, pods in waiting.items():
        yield _pending(
            message, sorted(pods, key=lambda each: (each.metadata.creation_timestamp or sight.now, each.key))
        )


def _terminating(sight: Sight, pod: Pod) -> Trouble:
    node = sight.rows.of(NodeRow).get(pod.spec.node_name)
    if node is None or not pod.spec.node_name:
        why = "Its node is gone, so nothing confirms that it stopped."
    elif not node.ready:
        why = f"Its node {node.name} is not ready, so nothing confirms that it stopped."
    else:
        why = f"Its node {node.name} does not confirm that it stopped, or a finalizer holds it."
    held = " Its volumes stay with it until then." if pod.claim_names() else ""
    return trouble("pod-terminating", "Pod", pod.key, f"{why}{held}", since=pod.metadata.deletion_timestamp)


def _bound_at(pod: Pod) -> datetime | None:
    scheduled = pod.condition("PodScheduled")
    return scheduled.last_transition_time if scheduled is not None else pod.metadata.creation_timestamp


def _not_starting(pod: Pod, row: PodRow, volumes: Sequence[VolumeRow], refused: VolumeRow | None) -> Trouble:
    if refused is not None:
        why = f"The volume of {refused.claim} cannot be attached to {row.node}: {refused.attach_error}"
    else:
        slow = [volume.claim for volume in volumes if row.node in volume.attaching]
        why = f"The volume of {slow[0]} is still being attached" if slow else row.message or "Its node does not say why"
    return trouble("pod-not-starting", "Pod", pod.key, capital(why), since=_bound_at(pod), node=row.node)


def _pending(message: str, pods: Sequence[Pod]) -> Trouble:
    first, count = pods[0].key, len(pods)
    others, command = " is", explain(first)
    if count > 1:
        others, command = f" and {count_text(count - 1, 'more pod')} are", "tonnage explain --pending"
    meaning, since = capital(message) or "No scheduler has said why yet.", pods[0].metadata.creation_timestamp
    return trouble("pods-pending", "Pod", first, meaning, command=command, since=since, count=count, others=others)
