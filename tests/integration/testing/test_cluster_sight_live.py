"""What is seen of a cluster: its objects, the driver's records and pools, and what lies in the folders of its nodes."""

from __future__ import annotations

from pathlib import Path

from support.cluster_sight import look
from support.driver_builders import controller, create, driver_at, size_bytes
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.driver.node_pools import PoolId
from tonnage.node.mounts import mount_paths
from tonnage.node.mounts.mount_paths import MountPaths, MountRecord

POOLS = {"node-1": (size_bytes("10Gi"),), "node-2": (size_bytes("10Gi"),)}


async def test_a_cluster_is_seen_from_all_three_sides(tmp_path: Path) -> None:
    driver = driver_at(tmp_path / "driver", nodes=tuple(POOLS))
    made = (await controller(driver).CreateVolume(create("pvc-1", "4Gi", node="node-1"), None)).volume
    contents = tmp_path / "driver" / "node-1" / "pool-0" / made.volume_id

    # A pod sees the volume, it is staged for it, and somebody else's link was left beside it.
    paths = MountPaths(tmp_path / "nodes" / "node-1")
    staged = MountRecord(driver="d", handle=made.volume_id, name="pvc-1")
    mounted = MountRecord(driver="d", handle=made.volume_id, name="pvc-1", pod_uid="u-1")
    mount_paths.save(paths.record(staged), staged, node="node-1", attachment="a")
    mount_paths.save(paths.record(mounted), mounted, node="node-1", attachment="a")
    paths.target(mounted).symlink_to(contents)
    left = paths.root / "plugins" / "kubernetes.io" / "csi" / "d" / "gone" / "globalmount" / "volume"
    left.parent.mkdir(parents=True)
    left.symlink_to(contents)

    async with (
        serve(ServerSettings(data_dir=tmp_path / "data", port=0)) as server,
        Client.connect(kubeconfig.load(server.kubeconfig)) as client,
    ):
        await client.create_doc({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
        sight = await look(client, tmp_path, POOLS)

    assert [node.name for node in sight.nodes] == ["node-1"]
    assert [(each.name, each.volume_id, each.pool_id) for each in sight.records] == [
        ("pvc-1", made.volume_id, PoolId("node-1", 0))
    ]
    assert sight.contents == {contents: (PoolId("node-1", 0), made.volume_id)}
    assert sight.used_bytes() == {PoolId("node-1", 0): size_bytes("4Gi"), PoolId("node-2", 0): 0}
    folder = sight.folders["node-1"]
    assert set(folder.mounts) == {staged, mounted}
    assert folder.pod_uids == {"u-1"}
    assert folder.targets == {("u-1", "pvc-1"): contents}
    assert folder.left_over == ("plugins/kubernetes.io/csi/d/gone/globalmount/volume",)
    assert sight.folders["node-2"].mounts == ()
    driver.close()
