"""A volume's life on Kubernetes' own API server: made, expanded, deleted, and a refusal told to a pod."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

import pytest
from provisioner_stage import Code, staged

from support.api_servers import kube_apiserver
from support.eventually import eventually_async
from tonnage.client.config.connection import KubeconfigCluster, KubeconfigUser, ServerConnection
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.provisioner.volumes.claims import FINALIZER

ASSETS = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))

pytestmark = [
    pytest.mark.envtest,
    pytest.mark.skipif(
        not (ASSETS / "kube-apiserver").exists(), reason="KUBEBUILDER_ASSETS names no folder with kube-apiserver"
    ),
]
GI = 1 << 30


async def test_a_volumes_life_on_kube_apiserver(tmp_path: Path) -> None:
    with kube_apiserver(tmp_path, ASSETS) as api:
        connection = ServerConnection(
            KubeconfigCluster(api.url, skip_tls_verify=True), KubeconfigUser(token="contract-token"), "default"
        )
        async with staged(connection) as on:
            on.driver.free_bytes["node-1"] = 40 * GI
            data = await on.claim("data", "20Gi", "node-1")
            await on.pod("db", "data", "logs")
            async with on.provisioner():
                volume = await on.provisioned(data)
                await on.bind(data, volume)
                await on.claim("logs", "30Gi", "node-1")  # 40 - 20 = 20 Gi are left
                stuck = await on.told("db", "VolumeProvisioningStuck", "Pod")
                assert stuck.startswith("the volume of claim logs (30Gi) found no room on node node-1 (rpc error: ")

                async def is_taken_back() -> bool:
                    return not (await on.get_claim("logs")).selected_node

                await eventually_async(is_taken_back)
                # Held while it waits for its volume, let go once it is bound.
                assert FINALIZER in (await on.get_claim("logs")).metadata.finalizers

                async def is_let_go() -> bool:
                    return FINALIZER not in (await on.get_claim("data")).metadata.finalizers

                await eventually_async(is_let_go)
                on.driver.script["ControllerExpandVolume"] = deque([Code.RESOURCE_EXHAUSTED])
                more = {"spec": {"resources": {"requests": {"storage": "25Gi"}}}}
                await on.client.patch(PersistentVolumeClaim, data.key, more)
                assert await on.told("data", "VolumeResizeSuccessful") == "Resize volume succeeded"
                grown = await on.get_claim("data")
                assert str(grown.status.capacity["storage"]) == "25Gi" and grown.status.conditions == ()
                await on.client.delete(PersistentVolumeClaim, data.key)
                await on.phase(volume, "Released")

                async def is_gone() -> bool:
                    return not (await on.client.list(PersistentVolume)).items

                await eventually_async(is_gone)
            assert not on.driver.volumes
