"""The provisioner when others are in trouble: no clear answers, a server that is away, a process that is killed."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from pathlib import Path

import pytest
from provisioner_stage import Code, ProvisionerStage, short_folder, stage, staged

from support.eventually import eventually_async
from support.http import free_port
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity
from tonnage.provisioner.capacity.controller import CapacitySettings
from tonnage.provisioner.context import ProvisionerOptions

GI = 1 << 30


async def test_what_is_in_doubt_is_asked_again_word_for_word_though_its_node_goes() -> None:
    async with stage() as on:
        claim = await on.claim("data", "20Gi", "node-1")
        on.driver.gate = asyncio.Event()
        async with on.provisioner(timeout_s=0.2):
            await calls(on, 2)
            await on.client.delete(Node, "node-1")
            await on.client.delete(CSINode, "node-1")
            await on.select("data", "node-2")
            await calls(on, len(on.driver.asked("CreateVolume")) + 2)
            on.driver.gate.set()
            volume = await on.provisioned(claim)
        asked = {each.SerializeToString(deterministic=True) for each in on.driver.asked("CreateVolume")}
        assert len(asked) == 1
        assert volume.spec.node_affinity.required is not None
        # Made once, on node-1: 100 - 20 = 80 Gi.
        assert on.driver.free_bytes == {"node-1": 80 * GI, "node-2": 100 * GI}


async def test_a_volume_made_while_the_server_is_away_is_written_when_it_is_back() -> None:
    port: int = free_port()
    with short_folder() as folder:
        settings = ServerSettings(data_dir=folder / "data", port=port)
        server = serve(settings)
        running = await server.__aenter__()
        async with staged(kubeconfig.load(running.kubeconfig)) as on:
            claim = await on.claim("data", "20Gi", "node-1")
            on.driver.gate = asyncio.Event()
            async with on.provisioner(timeout_s=30.0):
                await calls(on, 1)
                await server.__aexit__(None, None, None)
                on.driver.gate.set()
                async with serve(settings):
                    volume = await on.provisioned(claim)
                    assert volume.name in on.driver.volumes
        assert len(on.driver.asked("CreateVolume")) == 1


async def test_a_request_that_can_never_succeed_is_not_repeated_whenever_the_claim_changes() -> None:
    async with stage() as on:
        on.driver.script["CreateVolume"] = deque([Code.INVALID_ARGUMENT])
        claim = await on.claim("data", "20Gi", "node-1")
        async with on.provisioner(ProvisionerOptions(retry_start_s=0.01, retry_max_s=60.0)) as running:
            assert await on.told("data", "ProvisioningFailed") == (
                "Volume provisioning failed with infeasible error. Retries will be delayed. "
                "rpc error: code = InvalidArgument desc = CreateVolume as the script says"
            )
            seen = running.informers.of(PersistentVolumeClaim)
            for number in range(3):
                labels = {"metadata": {"labels": {"n": str(number)}}}
                written = await on.client.patch(PersistentVolumeClaim, claim.key, labels)

                async def is_seen(version: str = written.metadata.resource_version) -> bool:
                    found = seen.get("default/data")
                    return found is not None and found.metadata.resource_version == version

                await eventually_async(is_seen)
            # Another node is another attempt, and made at once.
            await on.select("data", "node-2")
            await on.provisioned(claim)
        assert len(on.driver.asked("CreateVolume")) == 2


async def test_credentials_go_with_the_calls_and_are_named_on_the_volume() -> None:
    async with stage() as on:
        prefix = "csi.storage.k8s.io/provisioner-secret"
        named = {f"{prefix}-name": "${pvc.name}-key", f"{prefix}-namespace": "${pvc.namespace}", "tier": "gold"}
        await on.storage_class("secret", parameters=named)
        claim = await on.claim("data", "20Gi", "node-1", storageClassName="secret")
        async with on.provisioner():
            assert await on.told("data", "ProvisioningFailed") == (
                'error getting secret data-key in namespace default: secrets "data-key" not found'
            )
            metadata = {"name": "data-key", "namespace": "default"}
            await on.client.create_doc(
                {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"user": "me"}}
            )
            volume = await on.provisioned(claim)
            await on.client.delete(PersistentVolumeClaim, claim.key)
            await on.phase(volume, "Released")

            async def is_deleted() -> bool:
                return bool(on.driver.asked("DeleteVolume"))

            await eventually_async(is_deleted)
        made, deleted = on.driver.asked("CreateVolume")[0], on.driver.asked("DeleteVolume")[0]
        assert dict(made.parameters) == {"tier": "gold"}
        assert dict(made.secrets) == dict(deleted.secrets) == {"user": "me"}


async def test_capacity_is_published_anew_after_a_volume_is_made() -> None:
    async with stage() as on, on.provisioner(capacity=CapacitySettings(namespace="kube-system", qps=0.0)):

        async def published() -> dict[str, str]:
            found = (await on.client.list(CSIStorageCapacity)).items
            return {
                value: str(each.capacity)
                for each in found
                if each.node_topology is not None
                for value in each.node_topology.match_labels.values()
            }

        async def is_full() -> bool:
            return await published() == {"node-1": "100Gi", "node-2": "100Gi"}

        async def is_less() -> bool:
            return await published() == {"node-1": "80Gi", "node-2": "100Gi"}

        await eventually_async(is_full)
        await on.claim("data", "20Gi", "node-1")
        await eventually_async(is_less)


@pytest.mark.slow
async def test_the_command_says_ready_survives_a_kill_and_stops_in_order() -> None:
    with short_folder() as folder:
        async with (
            serve(ServerSettings(data_dir=folder / "data", port=0)) as server,
            staged(kubeconfig.load(server.kubeconfig)) as on,
        ):
            on.driver.gate = asyncio.Event()
            claim = await on.claim("data", "20Gi", "node-1")
            killed = await command(on, server.kubeconfig)
            await calls(on, 1)
            killed.kill()
            await killed.wait()
            on.driver.gate.set()
            again = await command(on, server.kubeconfig)
            await on.provisioned(claim)
            again.send_signal(signal.SIGTERM)
            assert await again.wait() == 0
            assert on.driver.free_bytes["node-1"] == 80 * GI


async def command(on: ProvisionerStage, path: Path) -> asyncio.subprocess.Process:
    """`tonnage provisioner` as a process, once it is ready."""
    flags = ["--csi-address", on.address, "--kubeconfig", str(path), "--retry-interval-start=50ms"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tonnage", "provisioner", *flags, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


async def calls(on: ProvisionerStage, count: int) -> None:
    """Return when the driver was asked so often for a volume."""

    async def are_made() -> bool:
        return len(on.driver.asked("CreateVolume")) >= count

    await eventually_async(are_made)
