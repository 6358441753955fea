"""What must be true of a cluster, whatever was killed in it: laws over a `Sight`, each a pure function to problems.

`SAFETY` holds at every instant, also in the middle of a failure: it is about what cannot be taken back.
`LAWS` hold once a cluster has come to rest: nothing is missing, nothing is left behind, all three sides say the same.
`EMPTY` holds when everything that anybody asked for was deleted.

A problem is one sentence that names the objects. No problems is an empty list.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from support.cluster_sight import Sight
from tonnage.driver import TOPOLOGY_KEY
from tonnage.driver.node_pools import PoolId
from tonnage.objects.core_v1 import PersistentVolume, Pod, is_out_of_use
from tonnage.objects.meta import Object

Law = Callable[[Sight], Iterator[str]]


def problems_of(sight: Sight, laws: Sequence[Law] | None = None) -> list[str]:
    """Everything that is wrong, law by law."""
    return [problem for law in (LAWS if laws is None else laws) for problem in law(sight)]


# -- at every instant -------------------------------------------------------------------------------------------------


def no_volume_has_two_owners(sight: Sight) -> Iterator[str]:
    """A claim has one volume, a volume one claim, and a volume of the driver one PersistentVolume."""
    yield from _twice("claims are bound to volume", ((c.spec.volume_name, c.key) for c in sight.claims))
    yield from _twice("volumes are kept for claim", ((_claim_uid(v), v.name) for v in sight.volumes))
    yield from _twice("PersistentVolumes are the driver's", ((_handle(v), v.name) for v in sight.volumes))
    yield from _twice("volumes of the driver have the name", ((r.name, r.volume_id) for r in sight.records))


def no_pool_is_overdrawn(sight: Sight) -> Iterator[str]:
    """The volumes of a pool have room in it together."""
    for place, used_bytes in sorted(sight.used_bytes().items()):
        sizes = sight.pools.get(place.node, ())
        size_bytes = sizes[place.pool] if place.pool < len(sizes) else 0
        if used_bytes > size_bytes:
            yield f"pool {place.pool} of {place.node} has {size_bytes} bytes and {used_bytes} are used"


def no_volume_is_used_on_two_nodes(sight: Sight) -> Iterator[str]:
    """Every claim here is ReadWriteOnce: its volume is attached, staged and seen on one node at a time."""
    for record in sight.records:
        if len(record.users) > 1:
            yield f"{record.name} is used on {', '.join(sorted(record.users))}"


# -- at rest ----------------------------------------------------------------------------------------------------------


def every_claim_is_bound_once(sight: Sight) -> Iterator[str]:
    """Both sides of each binding name the other, and the volume is as large as was asked."""
    volumes = {volume.name: volume for volume in sight.volumes}
    users = {f"{pod.namespace}/{name}" for pod in sight.pods for name in pod.claim_names()}
    for claim in sight.claims:
        volume = volumes.get(claim.spec.volume_name)
        if not claim.is_bound and claim.key not in users and not claim.selected_node:
            continue  # it waits for its first consumer, as it should
        if not claim.is_bound or claim.status.phase != "Bound":
            yield f"claim {claim.key} is {claim.status.phase}, with volume {claim.spec.volume_name!r}"
        elif volume is None:
            yield f"claim {claim.key} is bound to {claim.spec.volume_name}, which is not there"
        elif _claim_uid(volume) != claim.uid or volume.status.phase != "Bound":
            owner = _claim_uid(volume)
            yield f"claim {claim.key} is bound to {volume.name}, which is {volume.status.phase} for {owner}"
        else:
            asked, has = claim.requested, volume.spec.capacity["storage"]
            told = claim.status.capacity.get("storage")
            if asked is not None and (has.value() < asked.value() or told is None or told.value() < asked.value()):
                yield f"claim {claim.key} asks for {asked}, its volume has {has}, and its status says {told}"
            if claim.status.conditions or claim.status.allocated_resource_statuses:
                said = [condition.type for condition in claim.status.conditions]
                yield f"claim {claim.key} is still being resized: {said} {claim.status.allocated_resource_statuses}"


def every_volume_has_an_owner(sight: Sight) -> Iterator[str]:
    """A volume has a claim, the driver has nothing without a volume, a pool nothing without a record."""
    claims = {claim.uid for claim in sight.claims}
    records = {record.volume_id: record for record in sight.records}
    handles = {_handle(volume) for volume in sight.volumes}
    in_use = {node.name for node in sight.nodes if not is_out_of_use(node)}
    for volume in sight.volumes:
        record = records.get(_handle(volume))
        if _claim_uid(volume) not in claims:
            yield f"volume {volume.name} is {volume.status.phase} for a claim that is gone"
        if record is None:
            yield f"volume {volume.name} is not known to the driver"
            continue
        has = volume.spec.capacity["storage"]
        if record.capacity_bytes != has.value():
            yield f"volume {volume.name} has {has}, the driver {record.capacity_bytes} bytes"
        # A volume may leave a node that is out of use, and then says no place at all.
        if _nodes_of(volume) != ([record.node] if record.node in in_use else []):
            yield f"volume {volume.name} is on {record.node}, and its affinity says {_nodes_of(volume)}"
    for record in sight.records:
        if record.volume_id not in handles:
            yield f"the driver has {record.name} on {record.node} without a PersistentVolume"
    yield from _contents_match(sight)


def capacity_is_told_as_it_is(sight: Sight) -> Iterator[str]:
    """There is one object a node and class, and it says what the driver has free, pool by pool."""
    told = defaultdict(list)
    for capacity in sight.capacities:
        labels = capacity.node_topology.match_labels if capacity.node_topology else {}
        told[labels.get(TOPOLOGY_KEY, ""), capacity.storage_class_name].append(capacity)
    classes = {class_name for _, class_name in told}
    used = sight.used_bytes()
    for node, class_name in itertools.product(sight.pools, sorted(classes) or [""]):
        free = sorted(size - used[PoolId(node, number)] for number, size in enumerate(sight.pools[node]))
        objects = told.pop((node, class_name), [])
        if len(objects) != 1:
            yield f"{node} has {len(objects)} CSIStorageCapacity objects of class {class_name}"
            continue
        said = sorted(pool.value() for pool in objects[0].available_capacities)
        total = objects[0].capacity.value() if objects[0].capacity is not None else None
        if said != free or total != sum(free):
            yield f"{node} has {free} bytes free, and {objects[0].name} says {said}, in all {total}"
    for (node, _), objects in told.items():
        yield f"{', '.join(each.name for each in objects)} speak of {node!r}, which is no node"


def attachments_follow_pods(sight: Sight) -> Iterator[str]:
    """A volume is attached where a pod uses it and nowhere else, in the API as in the driver."""
    volumes = {volume.name: volume for volume in sight.volumes}
    wanted = {(name, pod.spec.node_name): pod.key for pod in sight.pods for name in _mounted_by(sight, pod)}
    found = set()
    for attachment in sight.attachments:
        name, node = attachment.spec.source.persistent_volume_name, attachment.spec.node_name
        if (name, node) in found:
            yield f"{name} has two attachments on {node}"
        found.add((name, node))
        if (name, node) not in wanted:
            yield f"attachment of {name} to {node} is left behind"
        elif not attachment.status.attached or attachment.metadata.is_terminating:
            yield f"attachment of {name} to {node} for {wanted[name, node]} is {attachment.status}"
    for (name, node), pod in wanted.items():
        if (name, node) not in found:
            yield f"{pod} uses {name} on {node}, where it is not attached"
    handles = {(_handle(volumes[name]), node) for name, node in wanted if name in volumes}
    for record in sight.records:
        for node in sorted(record.users):
            if (record.volume_id, node) not in handles:
                yield f"the driver has {record.name} in use on {node}, where no pod uses it"


def mounts_follow_pods(sight: Sight) -> Iterator[str]:
    """A node has mounted what its pods use and nothing else; each pod sees the contents of its own volume."""
    contents = {id: path for path, (_, id) in sight.contents.items()}
    pods = {pod.uid: pod for pod in sight.pods if not pod.is_terminal}
    used_on = defaultdict(set)
    for pod in sight.pods:
        used_on[pod.spec.node_name].update(_mounted_by(sight, pod))
    for node, folder in sight.folders.items():
        for mount in folder.mounts:
            if mount.name not in used_on[node]:
                yield f"{node} still has {mount.name} {f'for pod {mount.pod_uid}' if mount.pod_uid else 'staged'}"
            elif mount.pod_uid and mount.pod_uid not in pods:
                yield f"{node} still has {mount.name} for pod {mount.pod_uid}, which is gone"
        for uid in sorted(folder.pod_uids):
            if uid not in pods or pods[uid].spec.node_name != node:
                yield f"{node} still has a folder for pod {uid}"
        yield from (f"{node} has {path}, which no record accounts for" for path in folder.left_over)
    handles = {volume.name: _handle(volume) for volume in sight.volumes}
    for pod in pods.values():
        for name in _mounted_by(sight, pod):
            folder = sight.folders[pod.spec.node_name]
            seen, real = folder.targets.get((pod.uid, name)), contents.get(handles.get(name, ""))
            if seen is None or seen != real:
                yield f"{pod.key} on {pod.spec.node_name} sees {seen} for {name}, which lies at {real}"
    for record in sight.records:
        for target in record.targets:
            if not any(uid in target.path for uid in pods):
                yield f"the driver still has {record.name} at {target.path}"


def every_pod_runs(sight: Sight) -> Iterator[str]:
    """Each pod runs on a node, and none has ended."""
    for pod in sight.pods:
        if pod.metadata.is_terminating or pod.status.phase != "Running" or not _is_ready(pod):
            scheduled = pod.condition("PodScheduled")
            why = pod.status.message or (scheduled.message if scheduled is not None else "")
            yield (
                f"pod {pod.key} is {pod.status.phase} {pod.status.reason} on {pod.spec.node_name!r}"
                f"{', being deleted' if pod.metadata.is_terminating else ''}: {why}"
            )


def workloads_have_their_replicas(sight: Sight) -> Iterator[str]:
    """As many pods as were asked for, not one more; whoever owns a pod is there."""
    owned = Counter(pod.metadata.controller.uid for pod in sight.pods if pod.metadata.controller is not None)
    replica_sets = defaultdict(list)
    for replica_set in sight.replica_sets:
        owner = replica_set.metadata.controller
        replica_sets[owner.uid if owner is not None else ""].append(replica_set)
    for stateful_set in sight.stateful_sets:
        yield from _replicas(stateful_set, owned.pop(stateful_set.uid, 0), stateful_set.spec.replicas)
        if stateful_set.status.ready_replicas != stateful_set.spec.replicas:
            yield f"StatefulSet {stateful_set.key} says {stateful_set.status.ready_replicas} ready"
    for deployment in sight.deployments:
        mine = replica_sets.pop(deployment.uid, [])
        yield from _replicas(deployment, sum(owned.pop(each.uid, 0) for each in mine), deployment.spec.replicas)
        if deployment.status.ready_replicas != deployment.spec.replicas:
            yield f"Deployment {deployment.key} says {deployment.status.ready_replicas} ready"
    for uid, left in replica_sets.items():
        yield from (f"ReplicaSet {each.key} belongs to {uid!r}, which is not there" for each in left)
    for uid, count in owned.items():
        yield f"{count} pods belong to {uid}, which is not there"


def every_owner_is_there(sight: Sight) -> Iterator[str]:
    """A claim that was made for a pod goes with it."""
    pods = {pod.uid for pod in sight.pods}
    for claim in sight.claims:
        for owner in claim.metadata.owner_references:
            if owner.kind == "Pod" and owner.uid not in pods:
                yield f"claim {claim.key} was made for pod {owner.name}, which is gone"


def nothing_waits_to_be_deleted(sight: Sight) -> Iterator[str]:
    """No finalizer holds an object for ever."""
    for each in _objects(sight):
        if each.metadata.is_terminating:
            yield f"{type(each).__name__} {each.key} is being deleted, held by {list(each.metadata.finalizers)}"


def nodes_are_well(sight: Sight) -> Iterator[str]:
    """Every node is there, Ready, untainted, and knows its driver."""
    nodes = {node.name: node for node in sight.nodes}
    drivers = {each.name: [driver.name for driver in each.spec.drivers] for each in sight.csi_nodes}
    for name in sight.pools:
        node = nodes.get(name)
        if node is None:
            yield f"{name} is not there"
        elif not any(each.type == "Ready" and each.is_true for each in node.status.conditions):
            yield f"{name} is not Ready"
        elif node.spec.taints:
            yield f"{name} is tainted: {[taint.key for taint in node.spec.taints]}"
        if len(drivers.get(name, ())) != 1:
            yield f"the CSINode of {name} knows {drivers.get(name)}"


def nothing_is_left(sight: Sight) -> Iterator[str]:
    """Not an object, not a record, not a file."""
    for each in _objects(sight):
        if type(each).__name__ not in ("Node", "CSINode", "CSIStorageCapacity"):
            yield f"{type(each).__name__} {each.key} is left"
    yield from (f"the driver still has {record.name}" for record in sight.records)
    for node, folder in sight.folders.items():
        yield from (f"{node} still has {mount}" for mount in folder.mounts)
        yield from (f"{node} still has a folder for pod {uid}" for uid in sorted(folder.pod_uids))


SAFETY: Final[tuple[Law, ...]] = (no_volume_has_two_owners, no_pool_is_overdrawn, no_volume_is_used_on_two_nodes)
LAWS: Final[tuple[Law, ...]] = (
    *SAFETY,
    nodes_are_well,
    every_pod_runs,
    workloads_have_their_replicas,
    every_owner_is_there,
    every_claim_is_bound_once,
    every_volume_has_an_owner,
    attachments_follow_pods,
    mounts_follow_pods,
    capacity_is_told_as_it_is,
    nothing_waits_to_be_deleted,
)
EMPTY: Final[tuple[Law, ...]] = (nothing_is_left, *LAWS)


# -- behind them ------------------------------------------------------------------------------------------------------


def _twice(what: str, pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Keys that have more than one name; the empty key is nobody's."""
    names = defaultdict(set)
    for key, name in pairs:
        if key:
            names[key].add(name)
    for key, found in names.items():
        if len(found) > 1:
            yield f"{len(found)} {what} {key}: {', '.join(sorted(found))}"


def _claim_uid(volume: PersistentVolume) -> str:
    return volume.spec.claim_ref.uid if volume.spec.claim_ref is not None else ""


def _handle(volume: PersistentVolume) -> str:
    return volume.spec.csi.volume_handle if volume.spec.csi is not None else ""


def _nodes_of(volume: PersistentVolume) -> list[str]:
    """The nodes that a volume's affinity names; none when it may be used from all."""
    required = volume.spec.node_affinity.required
    if required is None:
        return []
    expressions = (each for term in required.node_selector_terms for each in term.match_expressions)
    return sorted(value for each in expressions if each.key == TOPOLOGY_KEY for value in each.values)


def _contents_match(sight: Sight) -> Iterator[str]:
    wanted = {(record.pool_id, record.volume_id) for record in sight.records}
    found = set(sight.contents.values())
    yield from (f"{id} on {place.node} has lost its contents" for place, id in sorted(wanted - found))
    yield from (
        f"{id} lies in pool {place.pool} of {place.node} without a record" for place, id in sorted(found - wanted)
    )


def _mounted_by(sight: Sight, pod: Pod) -> list[str]:
    """The PersistentVolumes that a pod uses on its node; one that has ended uses nothing."""
    if pod.is_terminal or not pod.spec.node_name:
        return []
    return [claim.spec.volume_name for claim in sight.claims_of(pod) if claim.spec.volume_name]


def _is_ready(pod: Pod) -> bool:
    ready = pod.condition("Ready")
    return ready is not None and ready.is_true


def _replicas(owner: Object, found: int, wanted: int) -> Iterator[str]:
    if found != wanted:
        yield f"{type(owner).__name__} {owner.key} has {found} pods and wants {wanted}"


def _objects(sight: Sight) -> Iterator[Object]:
    for group in (
        sight.pods, sight.claims, sight.volumes, sight.attachments, sight.nodes, sight.csi_nodes, sight.capacities,
        sight.stateful_sets, sight.deployments, sight.replica_sets,
    ):  # fmt: skip
        yield from group
