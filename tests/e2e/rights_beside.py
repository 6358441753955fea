"""Programs that run beside a cluster, and what they use: another driver, pools, a node scaler, commands that look."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rights_acts import classed, storage_class
from rights_stage import NAMESPACE, RightsStage

from support.foreign_drivers import DIRECTPV, HWAMEISTOR, LONGHORN, drive
from support.http import ApiClient, free_port
from support.scripted_driver import ScriptedDriver
from tonnage.csi.driver_capabilities import ControllerRpc
from tonnage.stories.story_runner import claim, pod
from tonnage_command import tonnage

Doc = dict[str, Any]
OTHER = "csi.example"
LVM = "local.csi.openebs.io"
DEBUG_PAGES = ("/configz", "/debug/assumed", "/debug/nominations", "/debug/reservations")


@contextmanager
def other_driver(address: str) -> Iterator[ScriptedDriver]:
    """A driver that grows volumes on nodes only and knows VolumeAttributesClasses, on a thread of its own."""
    rpcs = (ControllerRpc.CREATE_DELETE_VOLUME, ControllerRpc.MODIFY_VOLUME, ControllerRpc.GET_CAPACITY)
    driver = ScriptedDriver(address, node_id="other-1", name=OTHER, controller_rpcs=rpcs)
    driver.run_on("other-1")
    driver.free_bytes["other-1"] = 100 << 30
    driver.report("other-1", total="100Gi")
    loop, is_served, is_over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with driver.served():
            is_served.set()
            await is_over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert is_served.wait(30)
    try:
        yield driver
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join(30)


def a_driver_that_grows_on_nodes(stage: RightsStage) -> None:
    """Beside another driver: who owns what is published, attributes of volumes, growth on a node."""
    address = f"unix://{stage.commands.socket_dir}/other.sock"
    waits = {"attachRequired": False, "storageCapacity": True}
    attributes = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttributesClass",
        "metadata": {"name": "gold"},
        "driverName": OTHER,
        "parameters": {"iops": "1"},
    }
    stage.apply(
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": OTHER}, "spec": waits},
        storage_class("other", provisioner=OTHER),
    )
    stage.api.post("/apis/storage.k8s.io/v1/volumeattributesclasses", attributes)
    environment = {**os.environ, "POD_NAME": own_pod(stage), "NAMESPACE": "kube-system"}
    with other_driver(address):
        command = [sys.executable, "-m", "tonnage", "provisioner", "--csi-address", address]
        command += ["--kubeconfig", str(stage.kubeconfig("provisioner")), "--capacity-ownerref-level", "2"]
        with (stage.folder / "logs" / "other-provisioner.log").open("w") as log:
            provisioner = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        node = ("--node-name", "other-1", "--csi-address", address, "--root-dir", str(stage.folder / "other"))
        try:
            stage.run("other-node", *node, program="node")
            stage.apply(classed(claim("other", "1Gi"), "other"), pod("other", ["other"], node="other-1"))
            golden = classed(claim("golden", "1Gi"), "other")
            golden["spec"]["volumeAttributesClassName"] = "gold"
            stage.apply(golden, pod("golden", ["golden"], node="other-1"))
            stage.running("other")
            stage.until(
                lambda: stage.has_asked("provisioner", "get", "volumeattributesclasses"), "the attributes to be read"
            )
            stage.patch("PersistentVolumeClaim", "other", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
            stage.until(lambda: stage.asked("node", "patch", "persistentvolumeclaims/status"), "the node to tell")
            for name in ("other", "golden"):
                stage.delete("Pod", name)
                stage.delete("PersistentVolumeClaim", name)
                stage.gone("PersistentVolumeClaim", name)
        finally:
            stage.stop("other-node")
            provisioner.terminate()
            provisioner.wait(30)


def own_pod(stage: RightsStage) -> str:
    """A pod that a provisioner says it is, of a ReplicaSet of a Deployment: the latter owns what is published."""
    template = {"metadata": {"labels": {"app": "p"}}, "spec": pod("p")["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "p"}}, "template": template}
    deployments = stage.path("Deployment", namespace="kube-system")
    stage.api.create(deployments, {"metadata": {"name": "provisioner"}, "spec": spec})
    selector = "?labelSelector=app=p"
    stage.until(lambda: stage.objects("Pod", namespace="kube-system", query=selector), "a pod of the Deployment")
    return str(stage.objects("Pod", namespace="kube-system", query=selector)[0]["metadata"]["name"])


def figures_are_published_unseen(stage: RightsStage) -> None:
    """A provisioner that does not see what it publishes looks before it writes again."""
    stage.stop("provisioner")
    for each in stage.objects("CSIStorageCapacity", namespace="kube-system"):
        stage.delete("CSIStorageCapacity", each["metadata"]["name"], namespace="kube-system")
    stage.trouble.blind.append("csistoragecapacities")
    stage.start("provisioner")
    stage.until(lambda: len(stage.objects("CSIStorageCapacity", namespace="kube-system")) >= 3, "figures")
    stage.apply(claim("unseen", "1Gi"), pod("unseen", ["unseen"]))
    stage.running("unseen")
    stage.until(lambda: stage.has_asked("provisioner", "get", "csistoragecapacities"), "the figure to be looked at")
    stage.trouble.blind.clear()
    stage.delete("StorageClass", "pools")  # what is published for it goes
    stage.until(lambda: stage.asked("provisioner", "delete", "csistoragecapacities"), "figures to go")


def pools_are_kept(stage: RightsStage) -> None:
    """`tonnage pools` by every source, each by its own lease; and the driver that plays one of today."""
    stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openebs"}})
    stage.define("local.openebs.io", "v1alpha1", "lvmnodes", "LVMNode", "Namespaced")
    stage.define("zfs.openebs.io", "v1", "zfsnodes", "ZFSNode", "Namespaced")
    stage.until(lambda: stage.api.get("/apis/local.openebs.io/v1alpha1/lvmnodes").code == 200, "LVMNodes")
    stage.until(lambda: stage.api.get("/apis/zfs.openebs.io/v1/zfsnodes").code == 200, "ZFSNodes")
    for each in (kind for source in (LONGHORN, DIRECTPV, HWAMEISTOR) for kind in source.kinds):
        stage.define(each.group, each.version, each.plural, each.kind, "Namespaced" if each.namespaced else "Cluster")
        served = f"{each.root}/{each.plural}"
        stage.until(partial(lambda path: stage.api.get(path).code == 200, served), each.plural)
    sockets = stage.commands.socket_dir
    lvm: tuple[str, ...] = (
        "--endpoint",
        f"unix://{sockets}/lvm.sock",
        "--node-endpoint",
        f"unix://{sockets}/{{node}}/lvm.sock",
    )
    lvm += ("--node-id", "node-1", "--pools", "2x100Gi", "--state-dir", str(stage.folder / "lvm"))
    lvm += ("--one-number", "sum", "--lvm-nodes", "openebs")
    driver = stage.run("lvm", *lvm, program="csi-driver")
    assert driver.readline().startswith("ready"), stage.log("lvm")
    topology = "topology.tonnage.dev/node"
    entries = [{"name": LVM, "nodeID": "node-1", "topologyKeys": [topology]}]
    stage.api.patch(stage.path("CSINode", "node-1"), {"spec": {"drivers": entries}}, "strategic")
    stage.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": LVM},
            "spec": {"storageCapacity": True},
        },
        storage_class("lvm", provisioner=LVM, parameters={"vgpattern": ".*"}),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "csisc-lvm", "namespace": "openebs"},
            "storageClassName": "lvm",
            "nodeTopology": {"matchLabels": {topology: "node-1"}},
            "capacity": "200Gi",
        },
    )
    told = stage.folder / "pools.json"
    told.write_text(json.dumps({"pools": {"lvm": ["100Gi", "100Gi"]}}))
    sources: dict[str, tuple[str, ...]] = {
        "openebs-lvm": (),
        "openebs-zfs": (),
        "topolvm": (),
        "longhorn": (),
        "directpv": (),
        "hwameistor": (),
        "nodes": ("--annotation", "example.com/pools", "--driver", LVM),
        "command": ("--command", f"cat {told}", "--node-name", "node-1", "--driver", LVM),
    }
    quick = ("--leader-elect", "--leader-elect-lease-duration", "3s", "--leader-elect-renew-deadline", "2s")
    for source, flags in sources.items():
        name = f"pools-{source}"
        stage.run(name, "--source", source, *flags, *quick, "--leader-elect-retry-period", "300ms", program="pools")
        lease = f"tonnage-pools-{source}"
        stage.until(partial(stage.asked, "pools", "update", "leases", name=lease), f"the lease {lease}")
    stage.until(lambda: stage.asked("pools", "patch", "csistoragecapacities"), "pools to be told")
    stage.until(lambda: stage.asked("pools", "patch", "storageclasses"), "the policy to be told")
    stage.until(lambda: stage.asked("csi-driver", "create", "lvmnodes"), "the LVMNode")
    stage.stop("lvm", *(f"pools-{source}" for source in sources))
    objects_are_created(stage)


def objects_are_created(stage: RightsStage) -> None:
    """`tonnage pools --create-objects` in a pod of a Deployment, which owns what it creates."""
    stage.api.create(f"{DIRECTPV.kinds[0].root}/directpvdrives", drive("node-1", "sda", free="10Gi"))
    stage.apply(storage_class("drives", provisioner=DIRECTPV.drivers[0]))
    command = [sys.executable, "-m", "tonnage", "pools", "--source", "directpv", "--create-objects"]
    command += ["--kubeconfig", str(stage.kubeconfig("pools"))]
    pods = stage.objects("Pod", namespace="kube-system", query="?labelSelector=app=p")
    environment = {**os.environ, "POD_NAME": pods[0]["metadata"]["name"], "NAMESPACE": "kube-system"}
    with (stage.folder / "logs" / "creating-pools.log").open("w") as log:
        creating = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        stage.until(lambda: stage.asked("pools", "create", "csistoragecapacities"), "an object to be created")
        stage.delete("StorageClass", "drives")
        stage.until(lambda: stage.asked("pools", "delete", "csistoragecapacities"), "the object to be deleted")
    finally:
        creating.terminate()
        creating.wait(30)


def nodes_are_scaled(stage: RightsStage) -> None:
    """`tonnage node-scaler`: a node for a pod that waits, and none any more."""
    room = {"cpu": "40", "memory": "8Gi", "pods": "20"}
    template = stage.folder / "burst.json"
    metadata = {"name": "burst", "labels": {"disk": "ssd"}}
    template.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": metadata,
                "status": {"allocatable": room, "capacity": room},
            }
        )
    )
    flags = ("--template", str(template), "--max", "1", "--provision-seconds", "1", "--ready-seconds", "0.2")
    stage.run("node-scaler", *flags, "--unneeded-seconds", "0.5")
    hopeless, waiting = pod("hopeless", cpu="1000"), pod("waiting", cpu="30")
    for each in (hopeless, waiting):
        each["spec"]["nodeSelector"] = {"disk": "ssd"}
    stage.apply(hopeless)
    stage.until(lambda: stage.told("hopeless", "NotTriggerScaleUp"), "the pod that fits nowhere to be told")
    stage.apply(waiting)  # its node is the last there may be, which is told to the other, and counted
    stage.until(lambda: stage.asked("node-scaler", "patch", "events"), "the event that repeats to be counted")
    stage.until(lambda: stage.asked("node-scaler", "create", "nodes"), "a node to be made")
    stage.until(lambda: stage.get("Pod", "waiting")["spec"].get("nodeName"), "the pod to be bound")  # type: ignore[index]
    now = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    stage.delete("Pod", "waiting", now)
    stage.delete("Pod", "hopeless", now)
    stage.until(lambda: stage.asked("node-scaler", "delete", "nodes"), "the node to be removed")
    stage.stop("node-scaler")


def pages_are_for_whom_the_server_lets_in(stage: RightsStage) -> None:
    """Metrics and debug pages by delegated access; the scheduler by kube-scheduler's lease, as its only one."""
    config = stage.folder / "instead.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: true, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 300ms}\n"
    )
    token = (stage.commands.identities / "reader.token").read_text()
    for name, flags in (("scheduler", ("--config", str(config))), ("controllers", ("--leader-elect",))):
        port = free_port()
        where = ("--bind-address", "127.0.0.1", "--secure-port", str(port))
        stage.run(f"serving-{name}", *flags, *where, "--cert-dir", str(stage.folder / "tls" / name), program=name)
        pages = ApiClient(f"https://127.0.0.1:{port}", token)
        stage.until(partial(is_up, pages), f"{name} to serve")
        assert pages.get("/healthz", token="").code == 200
        assert pages.get("/metrics", token="").code in (401, 403)
        shown = ("/metrics", *DEBUG_PAGES) if name == "scheduler" else ("/metrics",)
        for path in shown:
            assert pages.get(path).code == 200, path
            stage.shown.append(path)
    lease = "kube-scheduler"
    stage.until(lambda: stage.asked("scheduler", "update", "leases", name=lease), "kube-scheduler's lease to be held")
    stage.stop("serving-scheduler", "serving-controllers")


def is_up(pages: ApiClient) -> bool:
    try:
        return pages.get("/healthz", token="").code == 200
    except OSError:
        return False


def the_dashboard_shows(stage: RightsStage) -> None:
    """The dashboard of `tonnage up --dashboard`: what it follows, and what is asked from its page."""
    stage.apply(pod("shown"))
    running = stage.run("dashboard", "--port", "0")
    line = running.readline()
    assert line.startswith("ready http://"), stage.log("dashboard")
    address, _, token = line.split()[1].partition("#token=")
    headers = {"Authorization": f"Bearer {token}", "X-Tonnage-Dashboard": "1"}
    for path, body in (
        ("api/v1/state", None),
        (f"api/v1/pods/{NAMESPACE}/shown", None),
        ("api/v1/drain-preview", {"nodes": ["node-1"]}),
        ("api/v1/fit", {"workload": f"StatefulSet/{NAMESPACE}/none"}),
    ):
        data = json.dumps(body).encode() if body is not None else None
        asked = urllib.request.Request(address + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(asked) as answer:
                told = answer.read()
        except urllib.error.HTTPError as exc:
            told = exc.read()
        assert b"forbidden" not in told.lower(), told
    stage.stop("dashboard")


def people_look(stage: RightsStage) -> None:
    """The commands that only look, as `tonnage-reader`."""
    reader = ("--kubeconfig", str(stage.kubeconfig("reader")))
    following = stage.run("looking", "--port", "0", program="dashboard", kubeconfig="reader")
    assert following.readline().startswith("ready http://"), stage.log("looking")
    stage.until(lambda: stage.asked("reader", "watch", "cronjobs"), "workloads to be followed")
    stage.stop("looking")
    stage.apply(pod("asked"))
    for command in (
        ("explain", "--pod", f"{NAMESPACE}/asked"),
        ("explain", "--pending"),
        ("drain-preview", "node-1"),
        ("doctor",),
        ("shadow", "--for", "2s"),
    ):
        done = tonnage(command[0], *reader, *command[1:])
        assert "forbidden" not in (done.stdout + done.stderr).lower(), done.stdout + done.stderr
        assert not done.stderr.startswith("error:"), done.stderr
