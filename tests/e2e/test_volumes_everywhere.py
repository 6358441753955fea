"""All programs beside a driver whose volumes can be reached from everywhere, on our API server and on Kubernetes' own.

A claim that waits for its pod and one that does not, a raw block, one shared by two pods: made, bound, scheduled,
mounted, deleted. First no CSIDriver describes the driver, as an attacher needs none; then one says that nothing is
attached.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from support.api_servers import ServerApi, embedded, kube_apiserver, logged
from support.eventually import eventually_async
from support.scripted_driver import ScriptedDriver
from tonnage.objects.document import Doc
from tonnage.quantity import Quantity

ASSETS = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))
ON_KUBE_APISERVER = [
    pytest.mark.envtest,
    pytest.mark.skipif(
        not (ASSETS / "kube-apiserver").exists(), reason="KUBEBUILDER_ASSETS names no folder with kube-apiserver"
    ),
]
DRIVER = "nfs.example"
CORE, STORAGE = "/api/v1/namespaces/default", "/apis/storage.k8s.io/v1"
CLAIMS: Doc = {"waits": {}, "now": {}, "blocks": {"volumeMode": "Block"}, "shared": {"accessModes": ["ReadWriteMany"]}}
PODS = {"db": ("waits",), "early": ("now",), "raw": ("blocks",), "one": ("shared",), "two": ("shared",)}


@contextmanager
def server(name: str, folder: Path) -> Iterator[ServerApi]:
    with embedded(folder / "api") if name == "embedded" else kube_apiserver(folder, ASSETS) as api:
        yield api


@pytest.mark.slow
@pytest.mark.parametrize("attaches", [True, False])
@pytest.mark.parametrize("name", ["embedded", pytest.param("kube-apiserver", marks=ON_KUBE_APISERVER)])
async def test_volumes_without_topology_live_and_die_among_all_programs(name: str, attaches: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="t") as short, ExitStack() as stack:
        folder = Path(short)
        api = stack.enter_context(server(name, folder))
        socket = f"unix://{folder}/csi.sock"
        driver = ScriptedDriver(socket, name=DRIVER, node_id="node-a", has_topology=False)
        driver.free_bytes[""] = Quantity.parse("10Gi").value()
        async with driver.served():
            if not attaches:
                spec = {"attachRequired": False, "storageCapacity": True}
                assert api.post(f"{STORAGE}/csidrivers", {"metadata": {"name": DRIVER}, "spec": spec}).code == 201
            for mode in ("WaitForFirstConsumer", "Immediate"):
                storage_class = {"metadata": {"name": mode.lower()}, "provisioner": DRIVER, "volumeBindingMode": mode}
                assert api.post(f"{STORAGE}/storageclasses", storage_class).code == 201
            start_programs(stack, folder, api, socket)
            await life(api, driver)
            assert bool(driver.attach_calls) is attaches


def start_programs(stack: ExitStack, folder: Path, api: ServerApi, socket: str) -> None:
    kubeconfig = folder / "kubeconfig"
    cluster = {"server": api.url, "insecure-skip-tls-verify": True}
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": api.token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    kubeconfig.write_text(json.dumps(config))
    kubeconfig.chmod(0o600)
    for program, *more in (
        ("controllers", "--csi-address", socket, "--secure-port", "0"),
        ("scheduler", "--no-leader-elect", "--secure-port", "0"),
        ("provisioner", "--csi-address", socket, "--enable-capacity", "--capacity-ownerref-level=-1"),
        ("node", "--node-name", "node-a", "--root-dir", str(folder / "node"), "--csi-address", socket),
    ):
        command = [sys.executable, "-m", "tonnage", program, "--kubeconfig", str(kubeconfig), *more]
        stack.enter_context(logged(command, folder / f"{program}.log"))


async def life(api: ServerApi, driver: ScriptedDriver) -> None:
    for claim, spec in CLAIMS.items():
        base = {
            "storageClassName": "immediate" if claim == "now" else "waitforfirstconsumer",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        doc = {"metadata": {"name": claim}, "spec": {**base, **spec}}
        assert (await asyncio.to_thread(api.post, f"{CORE}/persistentvolumeclaims", doc)).code == 201
    for pod, (claim,) in PODS.items():
        container: Doc = {"name": "main", "image": "x"}
        if claim == "blocks":
            container |= {"volumeDevices": [{"name": "v", "devicePath": "/dev/v"}]}
        else:
            container |= {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
        doc = {"metadata": {"name": pod}, "spec": {"containers": [container], "volumes": [volume]}}
        assert (await asyncio.to_thread(api.post, f"{CORE}/pods", doc)).code == 201

    async def items(path: str) -> list[Doc]:
        return list((await asyncio.to_thread(api.get, path)).body["items"])

    async def all_run() -> bool:
        return {each["status"].get("phase") for each in await items(f"{CORE}/pods")} == {"Running"}

    async def is_empty(path: str) -> bool:
        return not await items(path)

    await eventually_async(all_run, within_s=60.0)
    assert len(driver.volumes) == 4
    assert all("nodeAffinity" not in each["spec"] for each in await items("/api/v1/persistentvolumes"))
    for path in (f"{CORE}/pods", f"{CORE}/persistentvolumeclaims"):
        for found in await items(path):
            await asyncio.to_thread(api.delete, f"{path}/{found['metadata']['name']}")
    for path in (f"{CORE}/pods", f"{CORE}/persistentvolumeclaims", "/api/v1/persistentvolumes"):
        await eventually_async(partial(is_empty, path), within_s=60.0)
    assert not driver.volumes and not driver.attached and not driver.published
