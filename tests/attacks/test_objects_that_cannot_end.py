"""Objects that are as large as they may be: they can be deleted, finalizers come off, pods and namespaces go.

A user fills an object up to the limit, to the byte. What tells (who changed a field, a message, the containers) is cut
or left out then; what ends the object is written.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually_async
from support.workload_stage import stage_in, workload
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.cache import remove_finalizer
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.program import Runtime
from tonnage.client.recorder import Recorder
from tonnage.clock import SystemClock
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.garbage_collector import GarbageCollector
from tonnage.controllers.namespaces import NamespaceController, Remains, conditions_after
from tonnage.controllers.nodes.pod_deletion import mark_disrupted
from tonnage.documents import creation
from tonnage.errors import NotFound, RequestEntityTooLarge
from tonnage.faults import FaultFile
from tonnage.node.program import NodeProgram
from tonnage.node.settings import NodeSettings
from tonnage.objects.batch_v1 import Job
from tonnage.objects.core_v1 import ConfigMap, Namespace, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc
from tonnage.objects.meta import Object
from tonnage.objects.resources import BY_PLURAL

NOW = SystemClock().now()
SHORT = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 1}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture(params=[48 * 1024, pytest.param(creation.MAX_OBJECT_BYTES, marks=pytest.mark.slow)])
def limit_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How large an object may be: little, to be quick, and as much as users have."""
    limit: int = request.param
    monkeypatch.setattr(creation, "MAX_OBJECT_BYTES", limit)
    monkeypatch.setattr(creation, "STATUS_ROOM_BYTES", limit // 24)
    return limit


@asynccontextmanager
async def server_in(folder: Path) -> AsyncIterator[Client]:
    async with (
        serve(ServerSettings(data_dir=folder, port=0)) as server,
        Client.connect(kubeconfig.load(server.kubeconfig)) as client,
    ):
        yield client


async def fill(client: Client, cls: type[Object], key: str, *, status: bool = False) -> None:
    """Make an object as large as it may be: not a byte more fits. With `status`, by a message in its status."""

    async def grow(largest: int, patch_of: Callable[[int], Doc]) -> None:
        size, step = 0, largest
        while step:
            try:
                await client.patch_doc(cls, key, patch_of(size + step), subresource="status" if status else "")
                size += step
            except RequestEntityTooLarge:
                step //= 2
            if size + step > largest:
                step //= 2

    if status:
        await grow(2 * creation.STATUS_ROOM_BYTES, lambda size: {"status": {"message": "x" * size}})
        return
    prefix = ".".join(["p" * 60] * 4)
    await client.patch_doc(cls, key, {"metadata": {"annotations": {"pad": ""}}})  # there is room for its name yet
    await grow(4_096, lambda size: {"metadata": {"labels": {f"{prefix}/{n}": "x" * 63 for n in range(size)}}})
    await grow(2_048, lambda size: {"metadata": {"annotations": {"pad": "x" * size}}})


async def is_gone(client: Client, cls: type[Object], key: str) -> bool:
    try:
        await client.get(cls, key)
    except NotFound:
        return True
    return False


# -- finalizers --------------------------------------------------------------------------------------------------------


def object_of(kind: str, **spec: Any) -> Doc:
    metadata = {"name": "large", "namespace": "default", "finalizers": ["example.com/hold", "example.com/other"]}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **spec}


@pytest.mark.parametrize(
    ("cls", "doc"),
    [
        (ConfigMap, object_of("ConfigMap")),
        (PersistentVolumeClaim, object_of("PersistentVolumeClaim", spec=CLAIM)),
        (Pod, object_of("Pod", spec=SHORT)),
    ],
)
@pytest.mark.usefixtures("limit_bytes")
async def test_finalizers_come_off_an_object_that_has_no_room(tmp_path: Path, cls: type[Object], doc: Doc) -> None:
    async with server_in(tmp_path) as client:
        await client.create_doc(doc)
        await fill(client, cls, "default/large")
        with pytest.raises(RequestEntityTooLarge):
            await client.patch(cls, "default/large", {"metadata": {"labels": {"a": "b"}}})
        await client.delete(cls, "default/large", grace_s=0, propagation="Foreground")
        for name in ("example.com/other", "example.com/hold", "kubernetes.io/pvc-protection", "foregroundDeletion"):
            found = await client.get(cls, "default/large")
            patch = remove_finalizer(found, name)
            if patch is not None:
                await client.patch(cls, "default/large", patch, field_manager=name.replace("/", "-"))
        assert await is_gone(client, cls, "default/large")


@pytest.mark.usefixtures("limit_bytes")
async def test_a_circle_of_owners_without_room_is_collected(tmp_path: Path) -> None:
    """Each of two ConfigMaps owns the other, both are full, and one is deleted in the foreground."""
    async with server_in(tmp_path) as client, controllers(client, GarbageCollector):
        keys = ("default/a", "default/b")
        uids = [(await client.create_doc(config_map(name))).get("metadata", {})["uid"] for name in ("a", "b")]
        for key, owner, uid in zip(keys, ("b", "a"), reversed(uids), strict=True):
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": True}
            await client.patch(ConfigMap, key, {"metadata": {"ownerReferences": [reference]}})
            await fill(client, ConfigMap, key)
        await client.delete(ConfigMap, keys[0], propagation="Foreground")
        for key in keys:
            await until_gone(client, ConfigMap, key)


def config_map(name: str) -> Doc:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


async def until_gone(client: Client, cls: type[Object], key: str) -> None:
    async def gone() -> bool:
        return await is_gone(client, cls, key)

    async def shown() -> Doc:
        doc = await client.get_doc(cls, key)
        return {"metadata": {k: v for k, v in doc["metadata"].items() if k not in ("annotations", "managedFields")}}

    await eventually_async(gone, f"{key} to go", within_s=30.0, details=shown)


# -- pods and namespaces -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def controllers(client: Client, *kinds: Callable[[ControllerContext], Any]) -> AsyncIterator[None]:
    clock, informers = client.clock, Informers(client)
    recorder = Recorder(client, "test", "test-1", by_note=True)
    running = [kind(ControllerContext(client, informers, recorder, clock, random.Random(1))) for kind in kinds]
    async with recorder, informers:
        tasks = [asyncio.create_task(each.run()) for each in running]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


@asynccontextmanager
async def a_node(client: Client, folder: Path) -> AsyncIterator[None]:
    settings = NodeSettings(names=("node-1",), root_dir=folder / "nodes", csi_addresses=())
    runtime = Runtime(client, clock=SystemClock(), rng=random.Random(1))
    program = NodeProgram(runtime, settings, faults=FaultFile(folder / "faults.json"))
    async with program:
        running = asyncio.create_task(program.run())
        try:
            await asyncio.wait_for(program.wait_ready(), 30)
            yield
        finally:
            running.cancel()
            await asyncio.wait((running,))


async def until_runs(client: Client, key: str) -> Pod:
    async def running() -> Pod | None:
        pod = await client.get(Pod, key)
        return pod if pod.status.phase == "Running" else None

    found: Pod = await eventually_async(running, within_s=30.0)
    return found


async def test_a_pod_without_room_ends_and_its_namespace_with_it(tmp_path: Path, limit_bytes: int) -> None:
    """A pod that is filled up while it runs, its status too; one whose containers have no room from the start."""
    async with server_in(tmp_path) as client, a_node(client, tmp_path), controllers(client, NamespaceController):
        await client.create_doc({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "full"}})
        many = [{"name": f"{n:05}{'c' * 58}", "image": "i"} for n in range(limit_bytes // 500)]
        for name, spec in (("filled", SHORT), ("many", {**SHORT, "containers": many})):
            metadata = {"name": name, "namespace": "full"}
            spec = {**spec, "nodeName": "node-1"}
            await client.create_doc({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
            await until_runs(client, f"full/{name}")
        told = await client.get(Pod, "full/many")
        assert told.condition("Ready") is not None
        await fill(client, Pod, "full/filled")
        await fill(client, Pod, "full/filled", status=True)
        await mark_disrupted(
            client, await client.get(Pod, "full/filled"), "Reason", "m" * 100, clock=client.clock, failed=False
        )
        await client.delete(Namespace, "full")
        await until_gone(client, Pod, "full/filled")
        await until_gone(client, Pod, "full/many")
        await until_gone(client, Namespace, "full")


async def test_pods_of_a_job_without_room_go_uncounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creation, "MAX_OBJECT_BYTES", 24 * 1024)
    monkeypatch.setattr(creation, "STATUS_ROOM_BYTES", 256)
    async with stage_in(tmp_path) as stage:
        spec = {**SHORT, "restartPolicy": "Never"}
        await stage.create("batch/v1", "Job", "full", {"parallelism": 9, "completions": 9, "template": {"spec": spec}})

        async def are_running() -> bool:
            return [pod.status.phase for pod in await stage.pods()] == ["Running"] * 9

        await stage.until(are_running)
        pods = await stage.pods()
        await fill(stage.client, Job, "default/full")
        for pod in pods:
            await stage.client.delete(Pod, pod.key)
        for pod in pods:
            await until_gone(stage.client, Pod, pod.key)


async def test_an_orphan_without_room_does_not_hold_up_who_would_adopt_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation, "MAX_OBJECT_BYTES", 24 * 1024)
    async with stage_in(tmp_path) as stage:
        metadata = {"name": "orphan", "namespace": "default", "labels": {"app": "web"}}
        await stage.client.create_doc({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": SHORT})
        await fill(stage.client, Pod, "default/orphan")
        await stage.create("apps/v1", "ReplicaSet", "web", workload(2))

        async def are_there() -> bool:
            return len(await stage.pods()) == 3

        await stage.until(are_there)


@pytest.mark.usefixtures("limit_bytes")
async def test_a_namespace_without_room_goes(tmp_path: Path) -> None:
    async with server_in(tmp_path) as client, controllers(client, NamespaceController):
        await client.create_doc({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "full"}})
        await fill(client, Namespace, "full")
        condition = {"type": "Filled", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z", "reason": "R"}
        padded = {"status": {"conditions": [{**condition, "message": "x" * (creation.STATUS_ROOM_BYTES - 500)}]}}
        await client.patch_doc(Namespace, "full", padded, subresource="status")
        await client.delete(Namespace, "full")
        await until_gone(client, Namespace, "full")


def test_what_a_namespace_waits_for_is_told_in_short() -> None:
    remains = Remains()
    names = [f"example.com/{n:0200}" for n in range(10_000)]
    remains.add(BY_PLURAL["", "pods"], [names])
    told = conditions_after((), remains, NOW)
    assert told is not None
    assert max(len(each["message"]) for each in told) <= 8 * 1024
