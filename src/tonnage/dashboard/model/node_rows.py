"""Rows of nodes (place, readiness, attach slots, pools) and of pods (waiting ones, and those with claims)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from tonnage.behaviour.workloads.pod_states import workload_of
from tonnage.dashboard.model.known_objects import Content, DriverContents, KnownObjects
from tonnage.dashboard.model.volume_rows import claim_of, volume_of
from tonnage.dashboard.wire import AttachSlots, NodeRow, PodRow, PoolRow
from tonnage.driver.node_pools import PoolId
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.core_v1.pod import BETA_ZONE, ZONE
from tonnage.objects.meta import Key
from tonnage.objects.requirements import HARD_EFFECTS, NOT_READY, UNREACHABLE, UNSCHEDULABLE
from tonnage.scheduling.cluster.storage import VolumeId, id_of_claim, id_of_inline


def row_of(
    objects: KnownObjects,
    name: str,
    *,
    assumed: Collection[Key],
    left_behind: Collection[Key],
    contents: DriverContents,
) -> NodeRow | None:
    """A node's row; None if nothing is left of it. `assumed`: pods assumed there. `left_behind`: volumes on it."""
    node = objects.nodes.get(name)
    residents = [objects.pods[key] for key in sorted({*objects.pods_of_node[name], *assumed})]
    living = [pod for pod in residents if not pod.is_terminal]
    pools = tuple(_pools(objects, name, contents))
    row = NodeRow(
        name=name,
        pods=len(living),
        slots=_slots(objects, name, living),
        pools=pools,
        pools_driver=contents.driver if pools else "",
    )
    if node is None:
        is_left = any(pool.volumes or pool.arriving or pool.other for pool in pools)
        if not (is_left or left_behind or objects.attachments_of_node[name]):
            return None
        return replace(row, ready=False, gone=True, reason=_GONE)
    labels, (ready, reason) = node.metadata.labels, _readiness(node)
    zone, cordoned = labels.get(ZONE, labels.get(BETA_ZONE, "")), node.spec.unschedulable
    return replace(row, zone=zone, ready=ready, cordoned=cordoned, reason=reason, taints=tuple(_taints(node)))


_GONE = "there is no such node any more; what is listed was left there"


def _readiness(node: Node) -> tuple[bool, str]:
    """Whether a node is ready, and why not. A node without conditions, as in a manifest, counts as ready."""
    ready = node.condition("Ready")
    if ready is None:
        found = [taint.key for taint in node.spec.taints if taint.key in (NOT_READY, UNREACHABLE)]
        return not found, f"it has the taint {found[0]}" if found else ""
    return ready.is_true, "" if ready.is_true else ready.message or ready.reason or "its kubelet does not say why"


def _taints(node: Node) -> Iterator[str]:
    """key=value:Effect of taints that keep pods away, except those of cordoning and readiness."""
    for taint in node.spec.taints:
        if taint.effect in HARD_EFFECTS and taint.key not in (UNSCHEDULABLE, NOT_READY, UNREACHABLE):
            yield f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _slots(objects: KnownObjects, name: str, pods: Collection[Pod]) -> tuple[AttachSlots, ...]:
    """Distinct volumes that pods mount or that are attached, counted like the scheduler (`attached_volumes.py`)."""
    used: dict[str, set[VolumeId]] = {}
    for volume_id in (*_mounted(objects, pods), *_attached(objects, name)):
        used.setdefault(volume_id.driver, set()).add(volume_id)
    csi_node = objects.csi_nodes.get(name) if name in objects.nodes else None
    limits: Mapping[str, int | None] = {}
    if csi_node is not None:
        limits = {driver.name: driver.allocatable.count for driver in csi_node.spec.drivers}
    return tuple(
        AttachSlots(driver=driver, used=len(used.get(driver, ())), limit=limits.get(driver))
        for driver in sorted(used.keys() | limits.keys())
    )


def _mounted(objects: KnownObjects, pods: Collection[Pod]) -> Iterator[VolumeId]:
    for pod in pods:
        for volume in pod.spec.volumes:
            name = volume.claim_name(pod.name)
            claim = objects.claims.get(f"{pod.namespace}/{name}") if name is not None else None
            found = None
            if name is None:
                found = id_of_inline(volume)
            elif claim is not None and (volume.ephemeral is None or claim.is_for_pod(pod)):
                found = id_of_claim(claim, objects)  # type: ignore[arg-type]  # it has volumes and classes, as a Storage
            if found is not None:
                yield found


def _attached(objects: KnownObjects, name: str) -> Iterator[VolumeId]:
    for key in objects.attachments_of_node[name]:
        each = objects.attachments[key]
        volume = objects.volumes.get(each.spec.source.persistent_volume_name)
        if each.spec.attacher and volume is not None and volume.spec.csi is not None:
            yield VolumeId(each.spec.attacher, volume.spec.csi.volume_handle)


def _pools(objects: KnownObjects, node: str, contents: DriverContents) -> Iterator[PoolRow]:
    for number, size in enumerate(contents.pools_of(node)):
        place = PoolId(node, number)
        snapshots, unknown = contents.snapshots.get(place, 0), contents.unknown.get(place, 0)
        used = other = snapshots + unknown
        lying: list[Key] = []
        arriving: list[Key] = []
        for handle in contents.in_pools.get(place, ()):
            content = contents.volumes[handle]
            used += content.bytes
            key = shown_key(objects, contents.driver, handle, content)
            if key is None:
                other += content.bytes
            elif content.place == place:
                lying.append(key)
            else:
                arriving.append(key)
        yield PoolRow(
            size=size,
            free=max(size - used, 0),
            volumes=tuple(sorted(lying)),
            arriving=tuple(sorted(arriving)),
            other=other,
            snapshots=snapshots,
            unknown=unknown,
        )


def shown_key(objects: KnownObjects, driver: str, handle: str, content: Content) -> Key | None:
    """The key in `volumes` of a driver's volume; None if no object belongs to it."""
    for name in sorted(objects.volumes_by_handle[driver, handle]):
        return claim_of(objects, objects.volumes[name]) or name
    uid = content.name.removeprefix("pvc-")
    keys = objects.claims_by_uid[uid] if uid != content.name else ()
    return min((key for key in keys if volume_of(objects, objects.claims[key]) is None), default=None)


def pod_row(objects: KnownObjects, key: Key, decided: str) -> PodRow | None:
    """A pod's row. `decided`: the node that the scheduler chose while the API does not show it yet; else empty."""
    pod = objects.pods.get(key)
    if pod is None:
        return None
    claims = pod.claim_keys()
    if not claims and (pod.spec.node_name or pod.is_terminal):
        return None
    return PodRow(
        uid=pod.uid,
        phase=pod.status.phase,
        state=state_of(pod, decided),
        node=pod.spec.node_name or decided,
        nominated=pod.status.nominated_node_name,
        claims=claims,
        workload=workload_of(pod, objects.owners),
        scheduler=pod.spec.scheduler_name,
        created=pod.metadata.creation_timestamp,
        message=_message(pod),
        terminating=pod.metadata.is_terminating,
    )


def state_of(pod: Pod, decided: str = "") -> str:
    if pod.is_terminal:
        return pod.status.phase.lower()
    if pod.metadata.is_terminating:
        return "terminating"
    if pod.status.phase == "Running":
        return "running"
    if pod.spec.node_name:
        return "bound"
    if decided:
        return "decided"
    return "gated" if pod.spec.scheduling_gates else "waiting"


def _message(pod: Pod) -> str:
    if pod.status.message or pod.is_terminal:
        return pod.status.message or pod.status.reason
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and not scheduled.is_true:
        return scheduled.message
    waiting = [statuse.state.waiting for statuse in pod.status.container_statuses if statuse.state.waiting is not None]
    return next((each.message for each in waiting if each.message), "")
