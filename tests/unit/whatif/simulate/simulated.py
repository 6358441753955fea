"""Worlds and plays for tests: a cluster in one line, and what a run of it did."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tonnage.gates import Gates
from tonnage.objects import codec
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.engine.attempt import Attempt
from tonnage.scheduling.framework import Status
from tonnage.whatif.creation import Creation
from tonnage.whatif.simulate.disks import StorageSettings
from tonnage.whatif.simulate.measures import Measures
from tonnage.whatif.simulate.play import Player, Run
from tonnage.whatif.simulate.scenario import read_scenario
from tonnage.whatif.simulate.world import World
from tonnage.whatif.simulate.world_state import Watcher, WorldSettings
from tonnage.whatif.sources import ClusterState, clock_of, from_files

GI = 1 << 30
DRIVER = "pools.tonnage.dev"


class Seen(Watcher):
    """What a run did."""

    def __init__(self) -> None:
        super().__init__()
        self.decisions: list[tuple[str, str]] = []
        self.ran: dict[str, float] = {}
        self.gone_because: list[tuple[str, str]] = []
        self.came_back: list[tuple[str, str, str]] = []
        self.world: World | None = None

    def decided(self, number: int, attempt: Attempt) -> None:
        self.decisions.append((attempt.pod.key, attempt.placement.node if attempt.placement is not None else ""))

    def running(self, pod: Pod, since_s: float) -> None:
        assert self.world is not None
        self.ran[pod.key] = self.world.agenda.now_s - since_s

    def gone(self, pod: Pod, why: str) -> None:
        self.gone_because.append((pod.key, why))

    def failed(self, pod: PodInfo, node: str, status: Status) -> None:
        self.came_back.append((pod.key, node, status.message))


def typed(docs: Iterable[Any]) -> list[Object]:
    return [codec.decode_doc(each) if isinstance(each, dict) else each for each in docs]


def world_of(*docs: Any, workloads: Iterable[Object] = (), **settings: Any) -> tuple[World, Seen]:
    """A world with these objects; `settings` are those of its storage."""
    seen = Seen()
    profiles = default_configuration(gates=Gates()).profiles
    chosen = WorldSettings(storage=StorageSettings(**settings))
    objects = typed(docs)
    state = ClusterState(objects, "the test", clock_of(objects), workloads=list(workloads))
    world = World(state, profiles, seen, settings=chosen)
    seen.world = world
    return world, seen


# -- scenarios on manifests -------------------------------------------------------------------------------------------


def cluster(nodes: int = 3, *, pools: Iterable[str] = ("100Gi",) * 3, **driver: Any) -> list[dict[str, Any]]:
    """Nodes with pools, as `tonnage up` has them; `driver` is what its CSIDriver says besides."""
    label, free = "topology.tonnage.dev/node", list(pools)
    docs: list[dict[str, Any]] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "pools"},
            "provisioner": DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"storageCapacity": True, **driver},
        },
    ]
    for number in range(1, nodes + 1):
        name = f"node-{number}"
        docs.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {label: name}},
                "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}},
            }
        )
        docs.append(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIStorageCapacity",
                "metadata": {"name": f"pools-{name}", "namespace": "kube-system"},
                "storageClassName": "pools",
                "nodeTopology": {"matchLabels": {label: name}},
                "availableCapacities": free,
                "capacity": f"{sum(int(each.removesuffix('Gi')) for each in free)}Gi",
            }
        )
    return docs


def claim_spec(size: str) -> dict[str, Any]:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "pools",
        "resources": {"requests": {"storage": size}},
    }


def stateful_set(name: str = "db", replicas: int = 3, size: str = "60Gi", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": name, "image": name}]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim_spec(size)}],
            **spec,
        },
    }


def workload(kind: str, name: str = "web", replicas: int | None = 3, size: str = "40Gi") -> dict[str, Any]:
    """A Deployment, a DaemonSet or the like whose pods have an ephemeral claim each."""
    labels = {"app": name}
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(size)}}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            **({"replicas": replicas} if replicas is not None else {}),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": name, "image": name}], "volumes": [scratch]},
            },
        },
    }


def player_of(folder: Path, docs: Iterable[dict[str, Any]], scenario: dict[str, Any]) -> Player:
    manifests, told = folder / "cluster.yaml", folder / "scenario.yaml"
    manifests.write_text(yaml.safe_dump_all(docs))
    told.write_text(yaml.safe_dump({"apiVersion": "tonnage.dev/v1alpha1", "kind": "Scenario", **scenario}))
    state = from_files([str(manifests)], Creation(Gates()), with_workloads=True)
    return Player(state, read_scenario(told), lambda: Creation(Gates()))


def played(folder: Path, docs: Iterable[dict[str, Any]], scenario: dict[str, Any], seed: int = 0) -> Measures:
    """One run by the defaults."""
    run = Run("default", default_configuration(gates=Gates()).profiles, seed)
    return player_of(folder, docs, scenario).play(run)
