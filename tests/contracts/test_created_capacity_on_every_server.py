"""`tonnage pools --create-objects` for drivers that publish no capacity, on our server and on Kubernetes' own."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scheduler_program import second

from support.api_servers import ServerApi
from support.eventually import eventually
from support.foreign_drivers import (
    DIRECTPV,
    HWAMEISTOR,
    LONGHORN,
    class_doc,
    definition_of,
    disk,
    drive,
    has_status_apart,
    longhorn_node,
    pool,
    storage_node,
)
from support.http import Doc
from support.programs import RunningProgram, spawn
from tonnage.objects.resources import Resource
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES, CHECK_CAPACITY, FREE_VOLUMES, POOL_POLICY, POOLS_SOURCE
from tonnage.pools.class_pools import PoolSource

STORAGE = "/apis/storage.k8s.io/v1"
KEY = "example.com/pools"


class Stage:
    """A namespace, and nodes and a class that are named after it."""

    def __init__(self, api: ServerApi, ns: str, folder: Path) -> None:
        self.api, self.ns, self.folder = api, ns, folder
        self.log = folder / "pools.log"
        self._made: list[str] = []
        kubeconfig = {
            "clusters": [{"name": "c", "cluster": {"server": api.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "u", "user": {"token": api.token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        (folder / "kubeconfig").write_text(json.dumps(kubeconfig))

    def node(self, number: int, **annotations: str) -> str:
        name = f"{self.ns}-node-{number}"
        room = {"cpu": "2", "memory": "4Gi", "pods": "10"}
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": annotations}
        self.add("/api/v1/nodes", {"metadata": meta, "status": {"capacity": room, "allocatable": room}})
        return name

    def storage_class(self, source: PoolSource | None = None, name: str = "", **parameters: str) -> str:
        doc = class_doc(source or LONGHORN, name or self.ns, **parameters)
        self.add(f"{STORAGE}/storageclasses", doc if source else {**doc, "provisioner": self.ns})
        return name or self.ns

    def kinds(self, source: PoolSource) -> None:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for kind in source.kinds:
            self.api.post(path, definition_of(kind))
            eventually(partial(self._is_served, _path(kind)), f"{kind.plural} to be served")

    def _is_served(self, path: str) -> bool:
        return self.api.get(path).code == 200

    def add(self, path: str, doc: Doc) -> str:
        self.api.create(path, doc)
        self._made.append(f"{path}/{doc['metadata']['name']}")
        return self._made[-1]

    def told(self, source: PoolSource, doc: Doc) -> str:
        kind = next(each for each in source.kinds if each.kind == doc["kind"])
        namespace = doc["metadata"].get("namespace", "")
        if namespace:
            self.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        path = self.add(_path(kind, namespace), doc)
        if has_status_apart(kind):
            self.status(source, path, doc["status"])
        found = self.api.get(path).body
        assert {**found, "metadata": doc["metadata"]} == doc, "the definition has every field that is told"
        return path

    def status(self, source: PoolSource, path: str, told: Doc) -> None:
        """Change some fields of an object's status, as the driver's own program does."""
        self.api.patch(path + ("/status" if has_status_apart(source.kinds[0]) else ""), {"status": told})

    def clear(self) -> None:
        for path in reversed(self._made):
            self.api.delete(path)

    @contextmanager
    def pools(self, *flags: str) -> Iterator[RunningProgram]:
        process = self.program(*flags)
        try:
            assert process.readline() == "ready\n", self.log.read_text()
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0, self.log.read_text()

    def program(self, *flags: str) -> RunningProgram:
        given = ("--kubeconfig", str(self.folder / "kubeconfig"), "--objects-namespace", self.ns)
        return spawn("pools", *given, *flags, log=self.log)

    def objects(self, class_name: str = "") -> list[Doc]:
        found = self.api.get(f"{STORAGE}/namespaces/{self.ns}/csistoragecapacities")["items"]
        return [each for each in found if each["storageClassName"] == (class_name or self.ns)]

    def figures(self, class_name: str = "") -> dict[str, tuple[str, str, str]]:
        """By node (empty for all nodes) the pools, the capacity and the largest volume."""
        found = {}
        for each in self.objects(class_name):
            labels = each["nodeTopology"].get("matchLabels", {})
            pools = each["metadata"].get("annotations", {}).get(AVAILABLE_CAPACITIES, "")
            node = labels.get("kubernetes.io/hostname", "").removeprefix(f"{self.ns}-")
            found[node] = (pools, each["capacity"], each.get("maximumVolumeSize", ""))
        return found

    def become(self, wanted: dict[str, tuple[str, str, str]], class_name: str = "") -> None:
        eventually(
            lambda: self.figures(class_name) == wanted,
            f"the objects to be {wanted}",
            details=lambda: f"{self.figures(class_name)} {self.log.read_text()}",
        )

    def annotation(self, key: str, class_name: str = "") -> str | None:
        found = self.api.get(f"{STORAGE}/storageclasses/{class_name or self.ns}")["metadata"]
        text: str | None = found.get("annotations", {}).get(key)
        return text


def _path(kind: Resource, namespace: str = "") -> str:
    return f"{kind.root}/{f'namespaces/{namespace}/' if namespace else ''}{kind.plural}"


@pytest.fixture
def stage(api: ServerApi, ns: str, tmp_path: Path) -> Iterator[Stage]:
    found = Stage(api, ns, tmp_path)
    yield found
    found.clear()


def nodes_source(stage: Stage, *flags: str) -> tuple[str, ...]:
    return ("--source", "nodes", "--driver", stage.ns, "--annotation", KEY, *flags)


def test_objects_come_and_go_with_class_node_and_source(stage: Stage) -> None:
    first, second_node = stage.node(1, **{KEY: "100Gi,20Gi"}), stage.node(2, **{KEY: "5Gi"})
    stage.node(3)
    stage.storage_class()
    both = {"node-1": ("100Gi,20Gi", "120Gi", "100Gi"), "node-2": ("5Gi", "5Gi", "5Gi")}
    with stage.pools(*nodes_source(stage, "--create-objects")):
        stage.become(both)
        eventually(lambda: stage.annotation(CHECK_CAPACITY) == "true", "the class to ask for capacity")
        (found,) = [each for each in stage.objects() if each["capacity"] == "120Gi"]
        assert found["metadata"]["labels"] == {
            "csi.storage.k8s.io/drivername": stage.ns,
            "csi.storage.k8s.io/managed-by": "tonnage-pools",
        }
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Node", first)
        stage.api.patch(f"/api/v1/nodes/{first}", {"metadata": {"annotations": {KEY: "90Gi,20Gi"}}})
        stage.become({**both, "node-1": ("90Gi,20Gi", "110Gi", "90Gi")})
        # The source no longer tells node-2, then node-1 is gone.
        stage.api.patch(f"/api/v1/nodes/{second_node}", {"metadata": {"annotations": {KEY: None}}})
        stage.become({"node-1": ("90Gi,20Gi", "110Gi", "90Gi")})
        stage.api.delete(f"/api/v1/nodes/{first}")
        stage.become({})
        stage.api.patch(f"/api/v1/nodes/{second_node}", {"metadata": {"annotations": {KEY: "5Gi"}}})
        stage.become({"node-2": ("5Gi", "5Gi", "5Gi")})
        stage.api.delete(f"{STORAGE}/storageclasses/{stage.ns}")
        stage.become({})


def test_ours_go_when_the_driver_publishes_its_own_and_come_back(stage: Stage) -> None:
    name = stage.node(1, **{KEY: "100Gi"})
    stage.node(2, **{KEY: "50Gi"})
    stage.storage_class()
    theirs = {
        "metadata": {"name": "csisc-1"},
        "storageClassName": stage.ns,
        "capacity": "7Gi",
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": name}},
    }
    with stage.pools(*nodes_source(stage, "--create-objects")):
        stage.become({"node-1": ("100Gi", "100Gi", "100Gi"), "node-2": ("50Gi", "50Gi", "50Gi")})
        path = stage.add(f"{STORAGE}/namespaces/{stage.ns}/csistoragecapacities", theirs)
        stage.become({"node-1": ("100Gi", "7Gi", ""), "node-2": ("50Gi", "50Gi", "50Gi")})
        assert len(stage.objects()) == 2
        stage.api.delete(path)
        stage.become({"node-1": ("100Gi", "100Gi", "100Gi"), "node-2": ("50Gi", "50Gi", "50Gi")})


def test_restarts_and_copies_change_nothing_and_remove_takes_all_away(stage: Stage) -> None:
    stage.node(1, **{KEY: "100Gi"})
    stage.storage_class()
    flags = nodes_source(stage, "--create-objects")
    with stage.pools(*flags):
        stage.become({"node-1": ("100Gi", "100Gi", "100Gi")})
        eventually(lambda: stage.annotation(CHECK_CAPACITY) == "true", "the class to ask for capacity")
    (before,) = stage.objects()
    with ExitStack() as copies:
        for _ in range(2):
            copies.enter_context(stage.pools(*flags))
        stage.node(2, **{KEY: "5Gi"})
        stage.become({"node-1": ("100Gi", "100Gi", "100Gi"), "node-2": ("5Gi", "5Gi", "5Gi")})
        (after,) = [each for each in stage.objects() if each["capacity"] == "100Gi"]
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert stage.program(*flags, "--remove").wait() == 0, stage.log.read_text()
    assert stage.objects() == []
    assert stage.annotation(CHECK_CAPACITY) is None


def test_without_the_option_ours_go_and_a_class_without_objects_is_warned_of_once(stage: Stage) -> None:
    stage.node(1, **{KEY: "100Gi"})
    stage.storage_class()
    with stage.pools(*nodes_source(stage, "--create-objects")):
        stage.become({"node-1": ("100Gi", "100Gi", "100Gi")})
        eventually(lambda: stage.annotation(CHECK_CAPACITY) == "true", "the class to ask for capacity")
    with stage.pools(*nodes_source(stage)):
        stage.become({})
        eventually(lambda: stage.annotation(CHECK_CAPACITY) is None, "the class to ask for nothing")
        eventually(lambda: "start with --create-objects" in stage.log.read_text(), "the warning")
    assert stage.log.read_text().count("start with --create-objects") == 1


def test_a_pod_is_kept_from_nodes_without_room_although_the_driver_says_that_it_has_no_capacity(
    stage: Stage, tmp_path: Path
) -> None:
    small, large = stage.node(1, **{KEY: "100Gi"}), stage.node(2, **{KEY: "1000Gi"})
    stage.storage_class()
    stage.add(f"{STORAGE}/csidrivers", {"metadata": {"name": stage.ns}, "spec": {"storageCapacity": False}})
    with stage.pools(*nodes_source(stage, "--create-objects")), second(stage.api, tmp_path, stage.ns):
        eventually(lambda: stage.annotation(CHECK_CAPACITY) == "true", "the class to ask for capacity")
        _pod(stage, "large", "900Gi")
        eventually(lambda: _node_of_claim(stage, "large") == large, "the claim to go to the large node")
        _pod(stage, "too-large", "1001Gi")
        eventually(lambda: "did not have enough free storage" in _message(stage, "too-large"), "the pod to be refused")
        _pod(stage, "small", "100Gi", node=small)
        eventually(lambda: _node_of_claim(stage, "small") == small, "the claim to go to the small node")


def test_directpv_has_an_object_a_node_and_takes_the_drive_with_the_most_free(stage: Stage) -> None:
    stage.kinds(DIRECTPV)
    first = stage.node(1)
    stage.storage_class(DIRECTPV, **{"csi.storage.k8s.io/fstype": "xfs"})
    path = stage.told(DIRECTPV, drive(first, "a", free="10Gi"))
    stage.told(DIRECTPV, drive(first, "b", free="30Gi"))
    with stage.pools("--source", "directpv", "--create-objects"):
        stage.become({"node-1": ("30Gi,10Gi", "40Gi", "30Gi")})
        eventually(lambda: stage.annotation(POOL_POLICY) == "most-free", "the policy to be told")
        # A volume of 4Gi, as CreateVolume writes it.
        stage.status(DIRECTPV, path, {"freeCapacity": 6 << 30})
        stage.become({"node-1": ("30Gi,6Gi", "36Gi", "30Gi")})


def test_hwameistor_has_an_object_for_the_pool_of_a_disk_class(stage: Stage) -> None:
    stage.kinds(HWAMEISTOR)
    first, second_node = stage.node(1), stage.node(2)
    stage.storage_class(HWAMEISTOR, poolClass="SSD", replicaNumber="1")
    copied = stage.storage_class(HWAMEISTOR, f"{stage.ns}-ha", poolClass="SSD", replicaNumber="2")
    path = stage.told(HWAMEISTOR, storage_node(first, SSD=pool("100Gi", free="60Gi")))
    stage.told(HWAMEISTOR, storage_node(second_node, SSD=pool("100Gi", free="20Gi")))
    with stage.pools("--source", "hwameistor", "--create-objects"):
        stage.become({"node-1": ("60Gi", "60Gi", "60Gi"), "node-2": ("20Gi", "20Gi", "20Gi")})
        stage.become({"node-1": ("20Gi", "20Gi", "20Gi"), "node-2": ("20Gi", "20Gi", "20Gi")}, copied)
        assert {each["metadata"]["annotations"][FREE_VOLUMES] for each in stage.objects()} == {"1000"}
        told: dict[str, Any] = {"freeCapacityBytes": 0, "usedCapacityBytes": 100 << 30}
        stage.status(HWAMEISTOR, path, {"pools": {"LocalStorage_PoolSSD": told}})
        stage.become({"node-1": ("0", "0", "0"), "node-2": ("20Gi", "20Gi", "20Gi")})
        stage.become({"node-1": ("0", "0", "0"), "node-2": ("0", "0", "0")}, copied)


def test_longhorn_has_an_object_a_node_for_strict_local_classes_and_one_for_all_nodes_for_others(stage: Stage) -> None:
    stage.kinds(LONGHORN)
    names = [stage.node(number) for number in (1, 2, 3)]
    local = stage.storage_class(LONGHORN, f"{stage.ns}-local", dataLocality="strict-local", numberOfReplicas="1")
    single = stage.storage_class(LONGHORN, f"{stage.ns}-one", numberOfReplicas="1")
    double = stage.storage_class(LONGHORN, f"{stage.ns}-two", numberOfReplicas="2")
    path = ""
    for name, size in zip(names, ("100Gi", "60Gi", "30Gi"), strict=True):
        path = stage.told(LONGHORN, longhorn_node(name, a=disk(size)))
    with stage.pools("--source", "longhorn", "--create-objects"):
        sizes = {"node-1": "100Gi", "node-2": "60Gi", "node-3": "30Gi"}
        stage.become({node: (size, size, size) for node, size in sizes.items()}, local)
        stage.become({"": ("100Gi,60Gi,30Gi", "190Gi", "100Gi")}, single)
        stage.become({"": ("90Gi", "90Gi", "60Gi")}, double)
        (found,) = stage.objects(double)
        assert found["nodeTopology"] == {}
        assert found["metadata"]["annotations"][POOLS_SOURCE] == "longhorn"
        assert [each["kind"] for each in found["metadata"]["ownerReferences"]] == ["StorageClass"]
        # A replica of 20Gi on node-3: it is left 10Gi; two replicas have min(170/2, 70) = 70Gi in all.
        stage.status(LONGHORN, path, {"diskStatus": {"a": {"storageScheduled": 20 << 30}}})
        stage.become({"": ("100Gi,60Gi,10Gi", "170Gi", "100Gi")}, single)
        stage.become({"": ("70Gi", "70Gi", "60Gi")}, double)


def _pod(stage: Stage, name: str, size: str, node: str = "") -> None:
    resources = {"requests": {"storage": size}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": stage.ns, "resources": resources}
    stage.api.create(
        f"/api/v1/namespaces/{stage.ns}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec}
    )
    container = {"name": "c", "image": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
    selector = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    pod = {"schedulerName": stage.ns, "containers": [container], "volumes": [volume], **selector}
    stage.api.create(f"/api/v1/namespaces/{stage.ns}/pods", {"metadata": {"name": name}, "spec": pod})


def _node_of_claim(stage: Stage, name: str) -> str:
    found = stage.api.get(f"/api/v1/namespaces/{stage.ns}/persistentvolumeclaims/{name}")["metadata"]
    return str(found.get("annotations", {}).get("volume.kubernetes.io/selected-node", ""))


def _message(stage: Stage, name: str) -> str:
    status = stage.api.get(f"/api/v1/namespaces/{stage.ns}/pods/{name}")["status"]
    return " ".join(each.get("message", "") for each in status.get("conditions", ()))
