"""Pods with volumes on the embedded server, both as real processes; the test is their provisioner and binder."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.http import free_port, unverified_tls
from support.processes import ApiServerProcess, start_cluster
from support.programs import RunningProgram, spawn
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.errors import Conflict
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.scheduler.binding_cycle import send_patch

Doc = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CAPACITIES = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
HOSTNAME = "kubernetes.io/hostname"


class LiveScheduler:
    """A fresh server with a class, its driver, and whatever a test puts there."""

    def __init__(self, folder: Path, *, rebuilding: bool = False) -> None:
        self.folder = folder
        self.server: ApiServerProcess = start_cluster(folder / "data")
        self.port: int = free_port()
        self.create(
            "/apis/storage.k8s.io/v1/storageclasses",
            {
                "metadata": {"name": "fast"},
                "provisioner": "csi.example",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )
        self.create(
            "/apis/storage.k8s.io/v1/csidrivers",
            {
                "metadata": {"name": "csi.example"},
                "spec": {"storageCapacity": True, "volumeRebuilding": rebuilding},
            },
        )

    def create(self, path: str, doc: Doc) -> Doc:
        reply = self.server.post(path, doc)
        assert reply.code == 201, reply.body
        return dict(reply.body)

    def patch(self, path: str, patch: Doc) -> Doc:
        reply = self.server.patch(path, patch)
        assert reply.code == 200, reply.body
        return dict(reply.body)

    def node(self, name: str, free: str = "", **capacity: Any) -> None:
        """A node, and its room for the class."""
        room = {"cpu": "4", "memory": "16Gi", "pods": "20"}
        labels = {HOSTNAME: name}
        self.create(
            "/api/v1/nodes",
            {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room, "capacity": room}},
        )
        if free or capacity:
            said = {"capacity": free, **capacity} if free else capacity
            topology = {"matchLabels": labels}
            self.create(
                CAPACITIES,
                {"metadata": {"name": name}, "storageClassName": "fast", "nodeTopology": topology, **said},
            )

    def claim(self, name: str, size: str = "20Gi", **metadata: Any) -> None:
        self.create(
            CLAIMS,
            {
                "metadata": {"name": name, **metadata},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "fast",
                    "resources": {"requests": {"storage": size}},
                },
            },
        )

    def pod(self, name: str, *claims: str, **spec: Any) -> None:
        volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
        container = {"name": "c", "image": "app:1"}
        self.create(PODS, {"metadata": {"name": name}, "spec": {"containers": [container], "volumes": volumes, **spec}})

    def volume(self, name: str, node: str = "", size: str = "20Gi", claim: str = "") -> None:
        spec: Doc = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "csi": {"driver": "csi.example", "volumeHandle": name},
        }
        if node:
            terms = [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        if claim:
            owner = self.server.get(f"{CLAIMS}/{claim}").body["metadata"]
            spec["claimRef"] = {"namespace": "default", "name": claim, "uid": owner["uid"]}
        self.create(VOLUMES, {"metadata": {"name": name}, "spec": spec})
        # What the binder of volumes says about one that nobody has yet.
        phase = {"status": {"phase": "Bound" if claim else "Available"}}
        assert self.server.patch(f"{VOLUMES}/{name}/status", phase).code == 200

    def provision(self, claim: str, *, anywhere: bool = False) -> None:
        """Make the volume of a claim where it was sent, and bind the two."""
        self.volume(f"pv-{claim}", "" if anywhere else self.selected(claim), claim=claim)
        self.bind(claim, f"pv-{claim}")

    def bind(self, claim: str, volume: str) -> None:
        done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": volume}}
        self.patch(f"{CLAIMS}/{claim}", done)

    def selected(self, claim: str) -> str:
        found = self.server.get(f"{CLAIMS}/{claim}").body["metadata"].get("annotations", {})
        return str(found.get(SELECTED_NODE, ""))

    def node_of(self, pod: str) -> str:
        return str(self.server.get(f"{PODS}/{pod}").body["spec"].get("nodeName", ""))

    def message(self, pod: str) -> tuple[str, str]:
        """The reason and message of a pod's PodScheduled condition."""
        conditions = self.server.get(f"{PODS}/{pod}").body["status"].get("conditions", [])
        return next(((each["reason"], each["message"]) for each in conditions if each["status"] == "False"), ("", ""))

    def events(self, name: str) -> list[Doc]:
        items = self.server.get("/apis/events.k8s.io/v1/namespaces/default/events").body["items"]
        return [event for event in items if event["regarding"]["name"] == name]

    @contextmanager
    def scheduler(self, *, timeout_s: int = 600, reservation: str = "Object") -> Iterator[RunningProgram]:
        """A `tonnage scheduler` process; ended at the end, if it still runs."""
        config = self.folder / "scheduler.json"
        plugin_config = [
            {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": timeout_s}},
            {"name": "StorageCapacity", "args": {"reservation": reservation}},
        ]
        config.write_text(
            json.dumps(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "leaderElection": {"leaderElect": False},
                    "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": plugin_config}],
                }
            )
        )
        server = (
            "--secure-port",
            str(self.port),
            "--unauthenticated-on-loopback",
            "--kubeconfig",
            str(self.server.kubeconfig),
        )
        process = spawn("scheduler", "--config", str(config), *server, log=self.folder / "scheduler.log")
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)

    def read(self, path: str) -> str:
        with urllib.request.urlopen(
            f"https://127.0.0.1:{self.port}{path}", context=unverified_tls(), timeout=10
        ) as answer:
            return str(answer.read().decode())

    def metric(self, line: str) -> float:
        """The value of a metric with its labels; 0 while there is none, or nobody to ask."""
        try:
            told = self.read("/metrics")
        except OSError:
            return 0.0
        found = [each for each in told.splitlines() if each.startswith(f"{line} ")]
        return float(found[0].rpartition(" ")[2]) if found else 0.0


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[LiveScheduler]:
    stage = LiveScheduler(tmp_path)
    yield stage
    stage.server.stop()


def test_a_pod_is_bound_when_its_volume_was_made_where_it_goes(stage):
    stage.node("a", "100Gi")
    stage.claim("data")
    stage.pod("web", "data")
    with stage.scheduler():
        eventually(lambda: stage.selected("data") == "a")
        (hold,) = json.loads(stage.read("/debug/reservations"))
        assert (hold["mode"], hold["capacity"], hold["pod"]) == ("Object", "default/a", "default/web")
        assert (hold["claims"], hold["bytes"]) == (["default/data"], 20 * 2**30)
        assert stage.node_of("web") == ""
        assert stage.metric('scheduler_bindings{state="waiting"}') == 1.0
        stage.provision("data")
        eventually(lambda: stage.node_of("web") == "a")
        assert stage.metric("volume_binding_capacity_reservations_total") == 1.0
        timed = 'scheduler_plugin_execution_duration_seconds_count{extension_point="PreBind"'
        assert stage.metric(f'{timed},plugin="VolumeBinding",status="Success"}}') == 1.0


async def test_a_write_that_is_based_on_an_old_state_is_a_conflict(stage):
    stage.claim("data")
    async with Client.connect(kubeconfig.load(stage.server.kubeconfig)) as client:
        seen = await client.get(PersistentVolumeClaim, "default/data")
        written = await send_patch(client, seen, {"metadata": {"annotations": {SELECTED_NODE: "a"}}})
        assert written.selected_node == "a" and written.metadata.resource_version != seen.metadata.resource_version
        with pytest.raises(Conflict, match="the object has been modified"):
            await send_patch(client, seen, {"metadata": {"annotations": {SELECTED_NODE: "b"}}})
    assert stage.selected("data") == "a"


def test_a_static_volume_is_given_to_its_claim_and_the_pod_goes_there(stage):
    stage.node("a")
    stage.node("b")
    stage.volume("disk", "b")
    stage.claim("data")
    stage.pod("web", "data")
    with stage.scheduler():
        owner = eventually(lambda: stage.server.get(f"{VOLUMES}/disk").body["spec"].get("claimRef"))
        claim = stage.server.get(f"{CLAIMS}/data").body["metadata"]
        assert (owner["kind"], owner["apiVersion"]) == ("PersistentVolumeClaim", "v1")
        assert (owner["name"], owner["uid"]) == ("data", claim["uid"])
        annotations = stage.server.get(f"{VOLUMES}/disk").body["metadata"]["annotations"]
        assert annotations["pv.kubernetes.io/bound-by-controller"] == "yes"
        stage.bind("data", "disk")
        eventually(lambda: stage.node_of("web") == "b")


def test_a_claim_that_cannot_be_provisioned_is_tried_on_another_node(stage):
    stage.node("a", "100Gi")
    stage.node("b", "100Gi")
    stage.claim("data", annotations={"kept": "yes"})
    stage.pod("web", "data")
    with stage.scheduler():
        first = eventually(lambda: stage.selected("data"))
        stage.patch(f"{CAPACITIES}/{first}", {"capacity": "0"})
        stage.patch(f"{CLAIMS}/data", {"metadata": {"annotations": {SELECTED_NODE: None}}})
        told = 'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"'
        eventually(lambda: any(event["note"] == told for event in stage.events("web")))
        second = eventually(lambda: stage.selected("data"))
        assert {first, second} == {"a", "b"}
        stage.provision("data")
        eventually(lambda: stage.node_of("web") == second)
        assert stage.metric('scheduler_volume_scheduling_stage_error_total{operation="bind"}') == 1.0


def test_a_volume_that_does_not_come_in_time_fails_the_attempt_and_the_next_waits_again(stage):
    stage.node("a", "100Gi")
    stage.claim("data")
    stage.pod("web", "data")
    with stage.scheduler(timeout_s=1):
        told = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
        eventually(lambda: stage.message("web") == ("SchedulerError", told))
        stage.provision("data")
        eventually(lambda: stage.node_of("web") == "a")


def test_a_scheduler_killed_in_the_middle_is_taken_over_from(stage):
    stage.node("a", "100Gi")
    stage.node("b", "100Gi")
    stage.claim("data")
    stage.pod("web", "data")
    with stage.scheduler() as process:
        chosen = eventually(lambda: stage.selected("data"))
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
    with stage.scheduler():
        stage.provision("data")
        eventually(lambda: stage.node_of("web") == chosen)


def test_a_scheduler_told_to_stop_does_not_wait_for_volumes(stage):
    stage.node("a", "100Gi")
    stage.claim("data")
    stage.pod("web", "data")
    with stage.scheduler(timeout_s=600) as process:
        eventually(lambda: stage.selected("data") == "a")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    assert stage.selected("data") == "a"


def test_the_wait_survives_a_restart_of_the_api_server(stage):
    stage.node("a", "100Gi")
    stage.claim("data")
    stage.pod("web", "data")
    port = stage.server.url.rpartition(":")[2]
    with stage.scheduler() as process:
        eventually(lambda: stage.selected("data") == "a")
        stage.server.stop(signal.SIGKILL)
        stage.server = start_cluster(stage.folder / "data", "--secure-port", port)
        stage.provision("data")
        eventually(lambda: stage.node_of("web") == "a")
        assert process.poll() is None


def test_a_pod_deleted_while_it_waits_gives_its_reservation_up(stage):
    stage.node("a", "100Gi")
    stage.claim("one")
    stage.claim("two")
    stage.pod("first", "one")
    with stage.scheduler():
        eventually(lambda: stage.selected("one") == "a")
        stage.pod("second", "two")
        told = "0/1 nodes are available: 1 node(s) did not have enough free storage."
        eventually(lambda: stage.message("second")[1].startswith(told))
        stage.server.delete(f"{PODS}/first?gracePeriodSeconds=0")
        eventually(lambda: stage.selected("two") == "a")
        ended = "volume_binding_capacity_reservations_ended_total{cause="
        assert stage.metric(f'{ended}"deletion"}}') + stage.metric(f'{ended}"failure"}}') == 1.0


def test_one_pod_at_a_time_is_admitted_by_a_stale_capacity_and_each_refresh_lets_one_in(stage):
    stage.node("a", availableCapacities=["40Gi", "40Gi"])
    for i in range(4):
        stage.claim(f"data-{i}")
        stage.pod(f"db-{i}", f"data-{i}")
    names = [f"data-{i}" for i in range(4)]

    def sent() -> list[str]:
        return [name for name in names if stage.selected(name)]

    with stage.scheduler():
        for admitted, pools in ((1, ["20Gi", "40Gi"]), (2, ["20Gi", "20Gi"]), (3, ["0", "20Gi"]), (4, ["0", "0"])):
            eventually(lambda: len(sent()) == admitted)  # noqa: B023  it is over before the next turn
            assert stage.metric('volume_binding_capacity_held_objects{mode="Object"}') == 1.0
            newest = next(name for name in sent() if stage.server.get(f"{VOLUMES}/pv-{name}").code != 200)
            stage.provision(newest)
            stage.patch(f"{CAPACITIES}/a", {"availableCapacities": pools})
        eventually(lambda: all(stage.node_of(f"db-{i}") == "a" for i in range(4)))
        assert stage.metric("volume_binding_capacity_reservations_total") == 4.0
        eventually(lambda: stage.metric("volume_binding_capacity_reservation_resets_total") == 4.0)


def test_the_ledger_admits_at_once_what_fits_and_is_rebuilt_after_a_restart(stage):
    stage.node("a", "100Gi")
    for i in range(6):
        stage.claim(f"data-{i}")
        stage.pod(f"db-{i}", f"data-{i}")

    def sent() -> int:
        return sum(bool(stage.selected(f"data-{i}")) for i in range(6))

    def held() -> int:
        return sum(int(hold["bytes"]) for hold in json.loads(stage.read("/debug/reservations"))) // 2**30

    with stage.scheduler(reservation="Ledger") as process:
        eventually(lambda: sent() == 5)  # 5 x 20 Gi = 100 Gi
        assert held() == 100
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
    with stage.scheduler(reservation="Ledger"):
        eventually(lambda: stage.metric('scheduler_bindings{state="waiting"}') == 5.0)
        assert held() == 100 and sent() == 5


def test_a_volume_whose_node_is_gone_is_rebuilt_where_there_is_room(tmp_path):
    stage = LiveScheduler(tmp_path, rebuilding=True)
    stage.node("a", "100Gi")
    stage.claim("data")
    stage.pod("before", "data")
    with stage.scheduler():
        eventually(lambda: stage.selected("data") == "a")
        stage.provision("data", anywhere=True)
        eventually(lambda: stage.node_of("before") == "a")
        stage.server.delete(f"{PODS}/before?gracePeriodSeconds=0")
        stage.server.delete("/api/v1/nodes/a")
        stage.node("b", "100Gi")
        stage.pod("after", "data")
        eventually(lambda: stage.node_of("after") == "b")
        assert stage.selected("data") == "b"
        told = eventually(lambda: [each for each in stage.events("data") if each["reason"] != "Scheduled"])
        assert (told[0]["reason"], told[0]["type"]) == ("CapacityAwareRescheduling", "Normal")
        assert told[0]["regarding"]["kind"] == "PersistentVolumeClaim"
        assert stage.metric("volume_binding_rescheduling_events_total") == 1.0
    stage.server.stop()
