"""Made-up clusters and pods for properties of the scheduler: few names and few values, so that things meet.

Documents are as an API server would hand them out. `World` keeps them beside a `Cluster` that was told of them, with
nodes that came, went and left holes in the table. Hypothesis draws a seed and the sizes, which it can shrink, and
`Maker` makes up the rest: drawing every field of a dozen pods by itself would take a hundred times as long.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st
from scheduler_twins import Doc, NodeInfo

from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node, Pod
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.profiles import add_indexes

GPU, FPGA, HUGE = "example.com/gpu", "other.example/fpga", "hugepages-2Mi"

KEYS = ("zone", "size", "empty")
VALUES = ("a", "b", "5", "12", "-3", "+7", "1_0", "", "99999999999999999999")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
IMAGES = ("app", "app:latest", "app:1", "registry:5000/app", "registry:5000/app:1", "other:2")
CORDONED = "node.kubernetes.io/unschedulable"

_CPU = ("0", "1m", "100m", "250m", "1", "1500m", "2", "4", "0.0005")
_BYTES = ("0", "1", "1500m", "100Mi", "200Mi", "1Gi", "3Gi", "8Gi", "500M")
_COUNT = ("0", "1", "2", "3", "7")
_AMOUNTS = {
    "cpu": _CPU,
    "memory": _BYTES,
    "ephemeral-storage": _BYTES,
    GPU: _COUNT,
    FPGA: _COUNT,
    HUGE: ("0", "2Mi", "4Mi", "64Mi"),
    "storage": _BYTES,  # nobody counts it
}


class Maker:
    """Makes up documents. What is likely to matter is likely to be there."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def maybe(self, chance: float, **fields: Callable[[], object]) -> Doc:
        """Each of the fields, or not."""
        return {name: make() for name, make in fields.items() if self.rng.random() < chance}

    def some(self, most: int, make: Callable[[], Doc]) -> list[Doc]:
        return [make() for _ in range(self.rng.randint(0, most))]

    def amounts(self, chance: float = 0.4, *, large: bool = False) -> dict[str, str]:
        found = {}
        for name, texts in _AMOUNTS.items():
            if self.rng.random() < (0.8 if name in ("cpu", "memory") else chance):
                found[name] = self.rng.choice(texts[len(texts) // 2 :] if large else texts)
        return found

    # -- nodes --------------------------------------------------------------------------------------------------------

    def labels(self) -> dict[str, str]:
        return {key: self.rng.choice(VALUES) for key in KEYS if self.rng.random() < 0.6}

    def taint(self) -> Doc:
        return {
            "key": self.rng.choice(["dedicated", CORDONED]),
            "value": self.rng.choice(["", "db"]),
            "effect": self.rng.choice(EFFECTS),
            **self.maybe(0.3, timeAdded=lambda: f"2026-01-0{self.rng.randint(1, 9)}T00:00:00Z"),
        }

    def node(self, name: str) -> Doc:
        rng = self.rng
        return {
            "kind": "Node",
            "metadata": {"name": name, "uid": f"node-{name}", "labels": self.labels()},
            "spec": {"unschedulable": rng.random() < 0.2, "taints": self.some(2, self.taint)},
            "status": {
                "allocatable": {**self.amounts(0.6, large=True), **self.maybe(0.9, pods=lambda: rng.choice("0235"))},
                "images": [
                    {"names": [rng.choice(IMAGES)], "sizeBytes": rng.choice((0, 50, 700, 2500)) * 2**20}
                    for _ in range(rng.randint(0, 3))
                ],
            },
        }

    # -- pods ---------------------------------------------------------------------------------------------------------

    def port(self) -> Doc:
        rng = self.rng
        return {
            "containerPort": 80,
            **self.maybe(
                0.6,
                hostPort=lambda: rng.choice((0, 80, 443)),
                hostIP=lambda: rng.choice(("", "0.0.0.0", "10.0.0.1", "10.0.0.2")),
                protocol=lambda: rng.choice(("TCP", "UDP")),
            ),
        }

    def container(self, name: str) -> Doc:
        policy = {"restartPolicy": "Always"} if name.startswith("init") and self.rng.random() < 0.5 else {}
        return {
            "name": name,
            "image": self.rng.choice(IMAGES),
            "resources": {"requests": self.amounts()},
            "ports": self.some(1, self.port),
            **policy,
        }

    def toleration(self) -> Doc:
        rng = self.rng
        return {
            "operator": rng.choice(("Equal", "Exists", "Exists", "Gt")),
            **self.maybe(
                0.6,
                key=lambda: rng.choice(("dedicated", CORDONED)),
                value=lambda: rng.choice(("", "db")),
                effect=lambda: rng.choice(EFFECTS),
                tolerationSeconds=lambda: 300,
            ),
        }

    def expression(self) -> Doc:
        rng = self.rng
        return {
            "key": rng.choice((*KEYS, "nobody-has-it")),
            "operator": rng.choice(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Sometimes")),
            "values": rng.choices(VALUES, k=rng.choice((0, 1, 1, 1, 2))),
        }

    def field(self) -> Doc:
        rng = self.rng
        return {
            "key": rng.choice(("metadata.name", "metadata.name", "metadata.name", "metadata.namespace")),
            "operator": rng.choice(("In", "In", "NotIn", "Exists")),
            "values": rng.choices(("n0", "n1", "n2", "ghost", ""), k=rng.choice((0, 1, 1, 1, 2))),
        }

    def term(self) -> Doc:
        return self.maybe(
            0.6,
            matchExpressions=lambda: self.some(2, self.expression),
            matchFields=lambda: self.some(2, self.field),
        )

    def node_affinity(self) -> Doc:
        return self.maybe(
            0.5,
            requiredDuringSchedulingIgnoredDuringExecution=lambda: {"nodeSelectorTerms": self.some(2, self.term)},
            preferredDuringSchedulingIgnoredDuringExecution=lambda: self.some(
                3, lambda: {"weight": self.rng.choice((1, 7, 100)), "preference": self.term()}
            ),
        )

    def requirements(self) -> Doc:
        return self.maybe(0.8, requests=self.amounts)

    def pod(self, uid: str, on: str = "") -> Doc:
        rng = self.rng
        containers = [self.container(f"main-{i}") for i in range(rng.choice((1, 1, 2)))]
        init_containers = [self.container(f"init-{i}") for i in range(rng.choice((0, 0, 1, 3)))]
        spec = {
            "containers": containers,
            "initContainers": init_containers,
            "nodeName": on,
            "tolerations": self.some(2, self.toleration),
            "nodeSelector": self.labels() if rng.random() < 0.3 else {},
            "affinity": self.maybe(0.5, nodeAffinity=self.node_affinity),
            **self.maybe(0.3, resources=self.requirements, overhead=self.amounts),
        }
        return {
            "kind": "Pod",
            "metadata": {"name": uid, "namespace": "default", "uid": uid},
            "spec": spec,
            "status": self.status(containers, init_containers) if on else {},
        }

    def status(self, containers: Sequence[Doc], init_containers: Sequence[Doc]) -> Doc:
        """What a node says of a pod that may be in the middle of being resized."""

        def told(container: Doc) -> Doc:
            return {
                "name": container["name"],
                **self.maybe(0.5, resources=self.requirements, allocatedResources=self.amounts),
            }

        reason = self.rng.choice(("Infeasible", "Deferred"))
        return {
            "containerStatuses": [told(each) for each in containers],
            "initContainerStatuses": [told(each) for each in init_containers],
            "conditions": self.some(1, lambda: {"type": "PodResizePending", "status": "True", "reason": reason}),
            **self.maybe(0.4, resources=self.requirements, allocatedResources=self.amounts),
        }


@dataclass
class DocumentedCluster:
    """The same cluster twice: as documents, and as columns."""

    make: Maker
    cluster: Cluster = field(default_factory=lambda: add_indexes(Cluster()))
    nodes: dict[str, Doc] = field(default_factory=dict)
    pods: dict[str, Doc] = field(default_factory=dict)

    def put_node(self, name: str) -> None:
        node = self.nodes[name] = self.make.node(name)
        self.cluster.put_node(convert(Node, node))

    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cluster.remove_node(name)

    def put_pod(self, uid: str, on: str) -> None:
        pod = self.pods[uid] = self.make.pod(uid, on)
        place(self.cluster, convert(Pod, pod))

    def remove_pod(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.cluster.remove_pod(uid)

    def infos(self) -> dict[str, NodeInfo]:
        """Every node as upstream sees it, by name."""
        return {
            name: NodeInfo(node, [pod for pod in self.pods.values() if pod["spec"]["nodeName"] == name])
            for name, node in self.nodes.items()
        }


def _made(seed: int, nodes: int, residents: int, holes: int) -> DocumentedCluster:
    world = DocumentedCluster(Maker(seed))
    names = [f"n{i}" for i in range(nodes)]
    for name in names:
        world.put_node(name)
    for i in range(residents):
        world.put_pod(f"p{i}", on=world.make.rng.choice([*names, "ghost"]))
    for _ in range(min(holes, nodes - 1)):
        world.remove_node(world.make.rng.choice(sorted(world.nodes)))
    if holes and world.make.rng.random() < 0.5:
        world.put_node("late")
    return world


worlds = st.builds(_made, st.integers(0, 2**32), st.integers(1, 6), st.integers(0, 6), st.integers(0, 2))
"""A few nodes, some of them gone again, one of those replaced; pods on nodes that exist and that do not."""


def info_of(doc: Doc) -> PodInfo:
    return PodInfo(convert(Pod, doc))
