"""Volumes that are rebuilt elsewhere, with a driver that needs no attachment and with one that does (KEP-5925).

Where the CSIDriver says attachRequired: false, a node's NodeStage is what rebuilds, else ControllerPublish; `tonnage
demo` plays the drain with attachments. Pools: node-1 has one of 100Gi, node-2 three of 100Gi, node-3 two of 60Gi.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
import yaml
from scene import OUT_OF_SERVICE, Scene, whole_cluster

from support.processes import Up
from tonnage.faults import Fault
from tonnage.objects.document import Doc
from tonnage.stories.story_runner import claim, deployment, pod_spec, stateful_set

pytestmark = pytest.mark.kubectl

POOLS = ("node-1=100Gi", "node-2=3x100Gi", "node-3=2x60Gi")
NO_ROOM = "node(s) did not have enough free storage"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(False, id="no attachments"),
        pytest.param(True, id="attachments", marks=pytest.mark.slow),
    ],
)
def attaches(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def cluster(attaches: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    said: Doc = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": "pools.tonnage.dev"},
        "spec": {"attachRequired": attaches, "storageCapacity": True, "volumeRebuilding": True},
    }
    driver = tmp_path_factory.mktemp("driver") / "driver.yaml"
    driver.write_text(yaml.safe_dump(said))
    pools = (text for pools in POOLS for text in ("--pools", pools))
    with whole_cluster(*pools, "-f", str(driver)) as running:
        yield running


def started(scene: Scene, size: str) -> tuple[str, str]:
    """A StatefulSet of one pod with a note in its volume; the node it runs on and the name of the volume."""
    scene.apply(stateful_set("db", size))
    home = scene.running("db-0")["spec"]["nodeName"]
    volume = scene.volume_of("data-db-0")["metadata"]["name"]
    scene.mount("db-0", volume).joinpath("note").write_text("remember me")
    return home, volume


def note(scene: Scene, volume: str) -> str:
    return scene.mount("db-0", volume).joinpath("note").read_text()


def test_a_manifest_of_ones_own_goes_before_what_a_cluster_starts_with(scene: Scene, attaches: bool):
    found = scene.up.get("/apis/storage.k8s.io/v1/csidrivers/pools.tonnage.dev").body
    assert found["spec"]["attachRequired"] is attaches and "nodeAllocatableUpdatePeriodSeconds" not in found["spec"]


def test_a_drained_pod_finds_its_data_on_another_node(scene: Scene, attaches: bool):
    home, volume = started(scene, "80Gi")
    assert f"node/{home} drained" in scene.kubectl("drain", home, "--timeout", "30s")
    node = scene.running("db-0", not_on=home)["spec"]["nodeName"]
    # Of the two nodes that are left, node-3 has disks of 60Gi.
    assert node == ({"node-1", "node-2"} - {home}).pop()
    assert note(scene, volume) == "remember me"
    assert [each["spec"]["nodeName"] for each in scene.items(ATTACHMENTS)] == ([node] if attaches else [])
    assert node in str(scene.volume_of("data-db-0")["spec"]["nodeAffinity"])
    assert scene.event("CapacityAwareRescheduling", "data-db-0")["message"] == (
        f"Volume of claim {scene.namespace}/data-db-0 will be rebuilt on {node}: node {home} is out of use"
    )


def test_a_drained_pod_waits_until_somewhere_is_room(scene: Scene):
    home, volume = started(scene, "80Gi")
    other = ({"node-1", "node-2"} - {home}).pop()
    scene.fill(other, *(["30Gi"] if other == "node-1" else ["30Gi", "30Gi", "30Gi"]))
    scene.kubectl("drain", home, "--timeout", "30s")
    # 80Gi: node-3 has 60Gi a disk, the other has 100 - 30 = 70Gi a disk, and its own node is cordoned.
    assert scene.waits("db-0") == (
        f"0/3 nodes are available: 1 node(s) were unschedulable, 2 {NO_ROOM}. "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    scene.kubectl("delete", "pod", f"fill-{other}")
    scene.kubectl("delete", "pvc", f"fill-{other}-0")
    assert scene.running("db-0")["spec"]["nodeName"] == other
    assert note(scene, volume) == "remember me"


def test_a_refused_rebuild_is_no_attach_limit_and_goes_on_when_room_comes(scene: Scene, attaches: bool):
    csi_driver = "/apis/storage.k8s.io/v1/csidrivers/pools.tonnage.dev"
    scene.up.patch(csi_driver, {"spec": {"nodeAllocatableUpdatePeriodSeconds": 10}})
    home, volume = started(scene, "80Gi")
    other = ({"node-1", "node-2"} - {home}).pop()
    scene.fault(Fault("out-of-space", other))  # the figures still promise 100Gi
    scene.kubectl("drain", home, "--timeout", "30s")
    told = scene.event("FailedAttachVolume" if attaches else "FailedMount", "db-0")
    assert f"cannot be rebuilt on {other}: no pool has room for 80Gi" in told["message"]
    assert "code = FailedPrecondition" in told["message"]
    sent = scene.pod("db-0")
    assert sent is not None and sent["spec"]["nodeName"] == other and sent["status"]["phase"] == "Pending"
    scene.fault()
    # It is the same pod: nobody failed it and made another.
    assert scene.running("db-0")["metadata"]["uid"] == sent["metadata"]["uid"]
    assert note(scene, volume) == "remember me"
    scene.up.patch(csi_driver, {"spec": {"nodeAllocatableUpdatePeriodSeconds": None}})


def test_pods_that_share_a_claim_end_up_on_one_node(scene: Scene):
    shared = deployment("web", pod_spec(["data"]))
    shared["spec"]["replicas"] = 2
    scene.apply(claim("data", "80Gi"), shared)

    def together() -> str:
        """The one node that both run on, and nobody else of them is anywhere."""
        pods = scene.pods("app=web")
        nodes = {each["spec"].get("nodeName", "") for each in pods}
        runs = [each["status"].get("phase") == "Running" for each in pods]
        return nodes.pop() if len(nodes) == 1 and runs == [True, True] else ""

    home = scene.until("both to run on one node", together)
    scene.kubectl("drain", home, "--timeout", "30s")
    node = scene.until(f"both to run elsewhere than on {home}", lambda: (now := together()) != home and now)
    assert node == ({"node-1", "node-2"} - {home}).pop()


def test_a_volume_whose_rebuild_is_refused_goes_nowhere_but_where_there_is_room(scene: Scene):
    home, volume = started(scene, "80Gi")
    other = ({"node-1", "node-2"} - {home}).pop()
    scene.fault(Fault("out-of-space", other))
    scene.kubectl("drain", home, "--timeout", "30s")

    def placed(before: str) -> Doc | None:
        found = scene.pod("db-0") or {"metadata": {"uid": before}}
        return found if found["metadata"]["uid"] != before and found["spec"].get("nodeName") else None

    uid = ""
    for _ in range(3):
        pod = scene.until("db-0 to be placed", partial(placed, uid))
        uid = pod["metadata"]["uid"]
        assert pod["spec"]["nodeName"] == other  # never node-3, with its disks of 60Gi
        annotations = (scene.claim("data-db-0") or {})["metadata"]["annotations"]
        assert annotations["tonnage.dev/rebuild-target"] == annotations["volume.kubernetes.io/selected-node"] == other
        scene.kubectl("delete", "pod", "db-0", "--force", "--grace-period", "0")
    scene.fault()
    assert scene.running("db-0", 60.0)["spec"]["nodeName"] == other
    assert note(scene, volume) == "remember me"


@pytest.fixture
def remove(scene: Scene) -> Iterator[Callable[[str], None]]:
    """A function that takes a node away for the rest of the test."""

    def is_there(node: str) -> bool:
        return scene.up.get(f"/api/v1/nodes/{node}").code == 200

    removed: list[str] = []

    def take(node: str) -> None:
        scene.fault(Fault("node-removed", node))
        removed.append(node)
        scene.until(f"{node} to be gone", lambda: not is_there(node))

    yield take
    scene.fault()
    scene.until("all nodes to be back", lambda: all(map(is_there, removed)))


def test_a_node_that_is_gone_gives_its_volumes_away_too(scene: Scene, remove: Callable[[str], None]):
    home, volume = started(scene, "80Gi")
    remove(home)
    scene.kubectl("delete", "pod", "db-0", "--force", "--grace-period", "0")
    node = scene.running("db-0", not_on=home)["spec"]["nodeName"]
    assert node == ({"node-1", "node-2"} - {home}).pop()
    assert note(scene, volume) == "remember me"
    assert scene.event("CapacityAwareRescheduling", "data-db-0")["message"] == (
        f"Volume of claim {scene.namespace}/data-db-0 will be rebuilt on {node}: node {home} is out of use"
    )


def test_a_dead_node_gives_its_volumes_away_once_a_person_says_so(scene: Scene):
    """The node stops and is NotReady: nothing moves. Then it gets the taint out-of-service."""
    home, volume = started(scene, "80Gi")
    before = (scene.pod("db-0") or {})["metadata"]["uid"]
    scene.fault(Fault("node-stopped", home))
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "it stopped"}
    scene.up.patch(f"/api/v1/nodes/{home}/status", {"status": {"conditions": [lost]}})
    scene.until(
        f"{home} to be found unreachable",
        lambda: "unreachable" in str(scene.up.get(f"/api/v1/nodes/{home}").body["spec"].get("taints")),
    )
    assert (scene.pod("db-0") or {})["metadata"]["uid"] == before
    scene.kubectl("taint", "nodes", home, f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute")
    found = scene.running("db-0", not_on=home)
    assert found["spec"]["nodeName"] == ({"node-1", "node-2"} - {home}).pop()
    assert note(scene, volume) == "remember me"
    assert scene.event("CapacityAwareRescheduling", "data-db-0")["message"].endswith(f"node {home} is out of use")
    assert scene.event("AffinityUnset", "data-db-0")["message"].startswith(f'Node "{home}" is out of service')


@pytest.mark.slow
def test_pods_of_a_node_that_is_gone_are_replaced_without_anybody_asking(scene: Scene, remove: Callable[[str], None]):
    home, volume = started(scene, "80Gi")
    remove(home)
    # The garbage collector of pods waits 40 s for a node to come back, as upstream's.
    assert scene.running("db-0", 90.0, not_on=home)["spec"]["nodeName"] != home
    assert note(scene, volume) == "remember me"
