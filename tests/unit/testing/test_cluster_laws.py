"""The laws by which a cluster is judged after a storm: one at rest breaks none, and each can be seen to break."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.cluster_laws import EMPTY, LAWS, SAFETY, problems_of
from support.cluster_sight import NodeFolder, Sight
from support.workload_builders import deployment, owned_by, replica_set, stateful_set
from tonnage.driver import TOPOLOGY_KEY
from tonnage.driver.node_pools import PoolId
from tonnage.driver.state.records import Capability, Publication, Staging, Target, VolumeRecord
from tonnage.node.mounts.mount_paths import MountRecord
from tonnage.objects.codec import convert, to_doc
from tonnage.objects.core_v1 import Node
from tonnage.objects.meta import Object
from tonnage.testing import storage_builders as storage
from tonnage.testing.builders import Doc, node
from tonnage.testing.storage_builders import attachment, capacity, claim, csi_node, pod_with, volume

GI = 1 << 30
MOUNTED = Capability("mount", 1)
AT = Path("/driver/node-1/pool-0/vol-1")
TARGET = "/nodes/node-1/pods/default-db-0/mount"
GONE = {"deletionTimestamp": "2026-01-01T12:00:00Z"}

SET = stateful_set("db", 1, status={"readyReplicas": 1})
POD = pod_with(
    "db-0",
    "data-db-0",
    on="node-1",
    metadata={"ownerReferences": [owned_by(SET)]},
    status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
)
CLAIM = claim("data-db-0", "4Gi", volume="pv-1")
CLAIM = msgspec.structs.replace(
    CLAIM, status=msgspec.structs.replace(CLAIM.status, capacity=CLAIM.spec.resources.requests)
)
VOLUME = volume(
    "pv-1",
    "4Gi",
    claim="default/data-db-0",
    handle="vol-1",
    affinity={"key": TOPOLOGY_KEY, "operator": "In", "values": ["node-1"]},
)
RECORD = VolumeRecord(
    volume_id="vol-1",
    name="pv-1",
    order=1,
    node="node-1",
    pool=0,
    capacity_bytes=4 * GI,
    access_type="mount",
    published={"node-1": Publication(MOUNTED)},
    staged={"node-1": Staging("/nodes/node-1/staging", MOUNTED)},
    targets=(Target("node-1", TARGET, MOUNTED),),
)
ATTACHMENT = attachment("va-1", "pv-1", "node-1")
STAGED = MountRecord(driver="csi.example", handle="vol-1", name="pv-1")
MOUNT = MountRecord(driver="csi.example", handle="vol-1", name="pv-1", pod_uid="default-db-0")
FOLDER = NodeFolder(
    mounts=(STAGED, MOUNT), pod_uids=frozenset({"default-db-0"}), targets={("default-db-0", "pv-1"): AT}
)


def ready(name: str, **options: Any) -> Node:
    doc = to_doc(node(name, **options))
    doc["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return convert(Node, doc)


def room(name: str, *pools: str, total: str, **options: Any) -> Any:
    return capacity(
        "fast", free=total, pools=pools, topology={"matchLabels": {TOPOLOGY_KEY: name}}, name=f"c-{name}", **options
    )


# node-1: 10Gi - 4Gi in the first pool, 10Gi in the second; node-2: all of its 5Gi.
ROOM_1 = room("node-1", "6Gi", "10Gi", total="16Gi")
ROOM_2 = room("node-2", "5Gi", total="5Gi")

AT_REST = Sight(
    pools={"node-1": (10 * GI, 10 * GI), "node-2": (5 * GI,)},
    pods=(POD,),
    claims=(CLAIM,),
    volumes=(VOLUME,),
    attachments=(ATTACHMENT,),
    nodes=(ready("node-1"), ready("node-2")),
    csi_nodes=(csi_node("node-1", {"csi.example": 8}), csi_node("node-2", {"csi.example": 8})),
    capacities=(ROOM_1, ROOM_2),
    stateful_sets=(SET,),
    records=(RECORD,),
    contents={AT: (PoolId("node-1", 0), "vol-1")},
    folders={"node-1": FOLDER, "node-2": NodeFolder()},
)
NOTHING = Sight(
    pools={"node-1": (10 * GI,)},
    nodes=(ready("node-1"),),
    csi_nodes=(csi_node("node-1", {"csi.example": 8}),),
    capacities=(room("node-1", "10Gi", total="10Gi"),),
    folders={"node-1": NodeFolder()},
)


def but(each: Object, **parts: Doc) -> Any:
    """The same object with parts of it changed: `but(POD, status={"phase": "Failed"})`."""
    doc = to_doc(each)
    for part, said in parts.items():
        doc[part] = {**doc.get(part, {}), **said}
    return convert(type(each), doc)


def test_a_cluster_at_rest_breaks_no_law():
    assert problems_of(AT_REST) == []


def test_a_cluster_with_nothing_in_it_is_empty():
    assert problems_of(NOTHING, EMPTY) == []


def test_a_claim_that_nobody_uses_may_wait():
    assert problems_of(replace(AT_REST, claims=(CLAIM, claim("later")))) == []


def test_what_is_wrong_for_an_instant_is_no_matter_of_safety():
    assert problems_of(replace(AT_REST, claims=(), pods=()), SAFETY) == []


OTHER_PV = volume("pv-2", "4Gi", claim="default/data-db-0", handle="vol-1")
OTHER_RECORD = msgspec.structs.replace(RECORD, volume_id="vol-2", published={}, staged={}, targets=())
TWO_NODES = msgspec.structs.replace(RECORD, published={"node-1": Publication(MOUNTED), "node-2": Publication(MOUNTED)})
GROWN = msgspec.structs.replace(RECORD, capacity_bytes=11 * GI)
DEPLOYMENT = deployment("web", 2, status={"readyReplicas": 2})
REPLICA_SET = replica_set("web-1", 2, of=DEPLOYMENT)

BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "two claims on one volume": (
        {"claims": (CLAIM, claim("copy", "4Gi", volume="pv-1"))},
        "2 claims are bound to volume pv-1: default/copy, default/data-db-0",
    ),
    "two volumes for one claim": (
        {"volumes": (VOLUME, OTHER_PV)},
        "2 volumes are kept for claim default-data-db-0: pv-1, pv-2",
    ),
    "two volumes on one of the driver's": (
        {"volumes": (VOLUME, OTHER_PV)},
        "2 PersistentVolumes are the driver's vol-1: pv-1, pv-2",
    ),
    "made twice by the driver": (
        {"records": (RECORD, OTHER_RECORD)},
        "2 volumes of the driver have the name pv-1: vol-1, vol-2",
    ),
    # 11Gi in a pool of 10Gi.
    "overdrawn": (
        {"records": (GROWN,)},
        "pool 0 of node-1 has 10737418240 bytes and 11811160064 are used",
    ),
    "in a pool that is none": (
        {"records": (msgspec.structs.replace(RECORD, pool=7),)},
        "pool 7 of node-1 has 0 bytes and 4294967296 are used",
    ),
    "used on two nodes": ({"records": (TWO_NODES,)}, "pv-1 is used on node-1, node-2"),
    "used where no pod is": (
        {"records": (TWO_NODES,)},
        "the driver has pv-1 in use on node-2, where no pod uses it",
    ),
    "never bound": (
        {"claims": (claim("data-db-0", "4Gi"),)},
        "claim default/data-db-0 is Pending, with volume ''",
    ),
    "never provisioned": (
        {"claims": (CLAIM, claim("asked", selected_node="node-1"))},
        "claim default/asked is Pending, with volume ''",
    ),
    "bound to nothing": ({"volumes": ()}, "claim default/data-db-0 is bound to pv-1, which is not there"),
    "bound on one side": (
        {"volumes": (volume("pv-1", "4Gi", claim="default/data-db-0", claim_uid="before", handle="vol-1"),)},
        "claim default/data-db-0 is bound to pv-1, which is Bound for before",
    ),
    "too small": (
        {"claims": (but(CLAIM, spec={"resources": {"requests": {"storage": "5Gi"}}}),)},
        "claim default/data-db-0 asks for 5Gi, its volume has 4Gi, and its status says 4Gi",
    ),
    "resized for ever": (
        {"claims": (but(CLAIM, status={"conditions": [{"type": "Resizing", "status": "True"}]}),)},
        "claim default/data-db-0 is still being resized: ['Resizing'] {}",
    ),
    "released and kept": ({"claims": ()}, "volume pv-1 is Bound for a claim that is gone"),
    "unknown to the driver": ({"records": ()}, "volume pv-1 is not known to the driver"),
    "another size": (
        {"records": (msgspec.structs.replace(RECORD, capacity_bytes=5 * GI),)},
        "volume pv-1 has 4Gi, the driver 5368709120 bytes",
    ),
    "elsewhere than said": (
        {"records": (msgspec.structs.replace(RECORD, node="node-2"),)},
        "volume pv-1 is on node-2, and its affinity says ['node-1']",
    ),
    "nowhere, on a node in use": (
        {"volumes": (volume("pv-1", "4Gi", claim="default/data-db-0", handle="vol-1"),)},
        "volume pv-1 is on node-1, and its affinity says []",
    ),
    "bound to a node that is cordoned": (
        {"nodes": (ready("node-1", unschedulable=True), ready("node-2"))},
        "volume pv-1 is on node-1, and its affinity says ['node-1']",
    ),
    "without a volume": ({"volumes": ()}, "the driver has pv-1 on node-1 without a PersistentVolume"),
    "without contents": ({"contents": {}}, "vol-1 on node-1 has lost its contents"),
    "without a record": ({"records": ()}, "vol-1 lies in pool 0 of node-1 without a record"),
    "stale figures": (
        {"capacities": (ROOM_2, room("node-1", "10Gi", "10Gi", total="20Gi"))},
        "node-1 has [6442450944, 10737418240] bytes free, and c-node-1 says [10737418240, 10737418240], "
        "in all 21474836480",
    ),
    "a wrong sum": (
        {"capacities": (ROOM_2, room("node-1", "6Gi", "10Gi", total="20Gi"))},
        "node-1 has [6442450944, 10737418240] bytes free, and c-node-1 says [6442450944, 10737418240], "
        "in all 21474836480",
    ),
    "figures twice": (
        {"capacities": (ROOM_1, ROOM_1, ROOM_2)},
        "node-1 has 2 CSIStorageCapacity objects of class fast",
    ),
    "figures of nobody": (
        {"capacities": (ROOM_1, ROOM_2, room("node-9", total="1Gi"))},
        "c-node-9 speak of 'node-9', which is no node",
    ),
    "attached twice": (
        {"attachments": (ATTACHMENT, attachment("va-2", "pv-1", "node-1"))},
        "pv-1 has two attachments on node-1",
    ),
    "attached for nobody": ({"pods": ()}, "attachment of pv-1 to node-1 is left behind"),
    "attached for a pod that has ended": (
        {"pods": (but(POD, status={"phase": "Failed"}),)},
        "attachment of pv-1 to node-1 is left behind",
    ),
    "not attached": ({"attachments": ()}, "default/db-0 uses pv-1 on node-1, where it is not attached"),
    "mounted for nobody": ({"pods": ()}, "node-1 still has pv-1 for pod default-db-0"),
    "staged for nobody": ({"pods": ()}, "node-1 still has pv-1 staged"),
    "mounted for a pod that was": (
        {"pods": (but(POD, metadata={"uid": "another"}),)},
        "node-1 still has pv-1 for pod default-db-0, which is gone",
    ),
    "a folder of a pod that was": (
        {"folders": {"node-1": FOLDER, "node-2": NodeFolder(pod_uids=frozenset({"default-db-0"}))}},
        "node-2 still has a folder for pod default-db-0",
    ),
    "a link that is left": (
        {"folders": {"node-1": replace(FOLDER, left_over=("plugins/x",)), "node-2": NodeFolder()}},
        "node-1 has plugins/x, which no record accounts for",
    ),
    "not mounted": (
        {"folders": {"node-1": replace(FOLDER, targets={}), "node-2": NodeFolder()}},
        "default/db-0 on node-1 sees None for pv-1, which lies at /driver/node-1/pool-0/vol-1",
    ),
    "published for a pod that was": (
        {"pods": (but(POD, metadata={"uid": "another"}),)},
        f"the driver still has pv-1 at {TARGET}",
    ),
    "a pod that cannot go anywhere": (
        {
            "pods": (
                but(
                    POD,
                    spec={"nodeName": ""},
                    status={
                        "phase": "Pending",
                        "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes"}],
                    },
                ),
            )
        },
        "pod default/db-0 is Pending  on '': 0/2 nodes",
    ),
    "a pod that does not end": (
        {"pods": (but(POD, metadata=GONE),)},
        "pod default/db-0 is Running  on 'node-1', being deleted: ",
    ),
    "a pod too few": ({"pods": ()}, "StatefulSet default/db has 0 pods and wants 1"),
    "a status behind": (
        {"stateful_sets": (stateful_set("db", 1, status={"readyReplicas": 0}),)},
        "StatefulSet default/db says 0 ready",
    ),
    "a pod of nobody": ({"stateful_sets": ()}, "1 pods belong to uid-db, which is not there"),
    "a Deployment's pods too few": (
        {"deployments": (DEPLOYMENT,), "replica_sets": (REPLICA_SET,)},
        "Deployment default/web has 0 pods and wants 2",
    ),
    "a ReplicaSet of nobody": (
        {"replica_sets": (REPLICA_SET,)},
        "ReplicaSet default/web-1 belongs to 'uid-web', which is not there",
    ),
    "a claim of a pod that was": (
        {
            "claims": (
                CLAIM,
                claim("scratch", metadata={"ownerReferences": [{**owned_by(POD), "name": "web-x", "uid": "web-x"}]}),
            )
        },
        "claim default/scratch was made for pod web-x, which is gone",
    ),
    "held by a finalizer": (
        {"volumes": (but(VOLUME, metadata={**GONE, "finalizers": ["kubernetes.io/pv-protection"]}),)},
        "PersistentVolume pv-1 is being deleted, held by ['kubernetes.io/pv-protection']",
    ),
    "a node that is gone": ({"nodes": (ready("node-2"),)}, "node-1 is not there"),
    "a node that is not Ready": ({"nodes": (node("node-1"), ready("node-2"))}, "node-1 is not Ready"),
    "a node that is cordoned": (
        {"nodes": (ready("node-1", taints=["node.kubernetes.io/unschedulable:NoSchedule"]), ready("node-2"))},
        "node-1 is tainted: ['node.kubernetes.io/unschedulable']",
    ),
    "a driver that did not register": (
        {"csi_nodes": (csi_node("node-1", {}), csi_node("node-2", {"csi.example": 8}))},
        "the CSINode of node-1 knows []",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_law_names_what_is_wrong(name: str):
    changed, problem = BROKEN[name]
    assert problem in problems_of(replace(AT_REST, **changed), LAWS)


def test_an_attachment_that_never_happened_is_a_problem():
    waiting = attachment("va-1", "pv-1", "node-1", attached=False)
    (problem,) = problems_of(replace(AT_REST, attachments=(waiting,)))
    assert problem.startswith("attachment of pv-1 to node-1 for default/db-0 is VolumeAttachmentStatus(attached=False")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"claims": (claim("later"),)}, "PersistentVolumeClaim default/later is left"),
        ({"records": (RECORD,)}, "the driver still has pv-1"),
        ({"folders": {"node-1": NodeFolder(pod_uids=frozenset({"u"}))}}, "node-1 still has a folder for pod u"),
        ({"folders": {"node-1": NodeFolder(mounts=(STAGED,))}}, f"node-1 still has {STAGED}"),
        ({"attachments": (storage.attachment("va-1", "pv-1", "node-1"),)}, "VolumeAttachment va-1 is left"),
    ],
)
def test_what_is_left_when_all_was_deleted_is_named(changed: dict[str, Any], problem: str):
    assert problem in problems_of(replace(NOTHING, **changed), EMPTY)
