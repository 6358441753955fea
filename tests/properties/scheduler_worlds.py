"""Made-up clusters and pods for properties of the scheduler: few names and few values, so that things meet.

Documents are as an API server would hand them out. `World` keeps them beside a `Cluster` that was told of them, with
nodes that came, went and left holes in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from scheduler_twins import Doc, NodeInfo

from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node, Pod
from tonnage.scheduling.cluster import Cluster, place

GPU, FPGA, HUGE = "example.com/gpu", "other.example/fpga", "hugepages-2Mi"

KEYS = ("zone", "size", "empty")
VALUES = ("a", "b", "5", "12", "-3", "+7", "1_0", "", "99999999999999999999")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_cpu = st.sampled_from(["0", "1m", "100m", "250m", "1", "1500m", "2", "4", "0.0005"])
_memory = st.sampled_from(["0", "1", "1500m", "100Mi", "200Mi", "1Gi", "3Gi", "8Gi", "500M"])
_count = st.sampled_from(["0", "1", "2", "3", "7"])
_huge = st.sampled_from(["0", "2Mi", "4Mi", "64Mi"])


def _quantities(**extra: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, str]]:
    known = {"cpu": _cpu, "memory": _memory, "ephemeral-storage": _memory, GPU: _count, FPGA: _count, HUGE: _huge}
    return st.fixed_dictionaries({}, optional={**known, **extra})


names = st.sampled_from([f"n{i}" for i in range(6)])
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)
images = st.sampled_from(["app", "app:latest", "app:1", "registry:5000/app", "registry:5000/app:1", "other:2"])

taints = st.builds(
    lambda key, value, effect, added: {
        "key": key,
        "value": value,
        "effect": effect,
        **({"timeAdded": added} if added else {}),
    },
    st.sampled_from(["dedicated", "node.kubernetes.io/unschedulable"]),
    st.sampled_from(["", "db"]),
    st.sampled_from(EFFECTS),
    st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]),
)
tolerations = st.fixed_dictionaries(
    {"operator": st.sampled_from(["Equal", "Exists", "Gt"])},
    optional={
        "key": st.sampled_from(["dedicated", "node.kubernetes.io/unschedulable"]),
        "value": st.sampled_from(["", "db"]),
        "effect": st.sampled_from(EFFECTS),
        "tolerationSeconds": st.just(300),
    },
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Doc:
    listed = draw(st.lists(st.tuples(images, st.sampled_from([0, 50, 700, 2500])), max_size=4))
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": f"node-{name}", "labels": draw(labels)},
        "spec": {
            "unschedulable": draw(st.booleans()),
            "taints": draw(st.lists(taints, max_size=3)),
        },
        "status": {
            "allocatable": draw(_quantities(pods=_count)),
            "images": [{"names": [image], "sizeBytes": megabytes * 2**20} for image, megabytes in listed],
        },
    }


_ports = st.fixed_dictionaries(
    {"containerPort": st.just(80)},
    optional={
        "hostPort": st.sampled_from([0, 80, 443]),
        "hostIP": st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
        "protocol": st.sampled_from(["TCP", "UDP"]),
    },
)


def _containers(prefix: str, least: int, most: int) -> st.SearchStrategy[list[Doc]]:
    policy = {"restartPolicy": st.just("Always")} if prefix == "init" else {}
    one = st.fixed_dictionaries(
        {"image": images, "resources": st.fixed_dictionaries({"requests": _quantities()})},
        optional={"ports": st.lists(_ports, max_size=2), **policy},
    )
    return st.lists(one, min_size=least, max_size=most).map(
        lambda found: [{"name": f"{prefix}-{i}", **each} for i, each in enumerate(found)]
    )


_expressions = st.fixed_dictionaries(
    {
        "key": st.sampled_from([*KEYS, "nobody-has-it"]),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Sometimes"]),
        "values": st.lists(st.sampled_from(VALUES), max_size=2),
    }
)
_fields = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["metadata.name", "metadata.name", "metadata.namespace"]),
        "operator": st.sampled_from(["In", "In", "NotIn", "Exists"]),
        "values": st.lists(st.sampled_from(["n0", "n1", "n2", "ghost", ""]), max_size=2),
    }
)
terms = st.fixed_dictionaries(
    {}, optional={"matchExpressions": st.lists(_expressions, max_size=2), "matchFields": st.lists(_fields, max_size=2)}
)
node_affinities = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
            {"nodeSelectorTerms": st.lists(terms, max_size=2)}
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.fixed_dictionaries({"weight": st.sampled_from([1, 7, 100]), "preference": terms}), max_size=3
        ),
    },
)
_requirements = st.fixed_dictionaries({}, optional={"requests": _quantities()})


@st.composite
def pods(draw: st.DrawFn, uid: str, on: str = "") -> Doc:
    containers = draw(_containers("main", 1, 2))
    init_containers = draw(_containers("init", 0, 2))
    spec = {
        "containers": containers,
        "initContainers": init_containers,
        "nodeName": on,
        "tolerations": draw(st.lists(tolerations, max_size=2)),
        "nodeSelector": draw(st.one_of(st.just({}), st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)))),
        "affinity": draw(st.fixed_dictionaries({}, optional={"nodeAffinity": node_affinities})),
        **draw(st.fixed_dictionaries({}, optional={"resources": _requirements, "overhead": _quantities()})),
    }
    status = draw(_statuses([*containers, *init_containers])) if on else {}
    return {
        "kind": "Pod",
        "metadata": {"name": uid, "namespace": "default", "uid": uid},
        "spec": spec,
        "status": status,
    }


@st.composite
def _statuses(draw: st.DrawFn, containers: Sequence[Doc]) -> Doc:
    """What a node says of a pod that may be in the middle of being resized."""
    told = [
        {
            "name": container["name"],
            **draw(
                st.fixed_dictionaries({}, optional={"resources": _requirements, "allocatedResources": _quantities()})
            ),
        }
        for container in containers
    ]
    split = [each["name"].startswith("init") for each in told]
    pending = [
        {"type": "PodResizePending", "status": "True", "reason": draw(st.sampled_from(["Infeasible", "Deferred"]))}
    ]
    return {
        "containerStatuses": [each for each, is_init in zip(told, split, strict=True) if not is_init],
        "initContainerStatuses": [each for each, is_init in zip(told, split, strict=True) if is_init],
        "conditions": pending if draw(st.booleans()) else [],
        **draw(st.fixed_dictionaries({}, optional={"resources": _requirements, "allocatedResources": _quantities()})),
    }


@dataclass
class World:
    """The same cluster twice: as documents, and as columns."""

    cluster: Cluster = field(default_factory=Cluster)
    nodes: dict[str, Doc] = field(default_factory=dict)
    pods: dict[str, Doc] = field(default_factory=dict)

    def put_node(self, node: Doc) -> None:
        self.nodes[node["metadata"]["name"]] = node
        self.cluster.put_node(convert(Node, node))

    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cluster.remove_node(name)

    def put_pod(self, pod: Doc) -> None:
        self.pods[pod["metadata"]["uid"]] = pod
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


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A few nodes, some of them gone again, some of those replaced; pods on nodes that exist and that do not."""
    world = World()
    for i in range(draw(st.integers(1, 6))):
        world.put_node(draw(nodes(f"n{i}")))
    for i in range(draw(st.integers(0, 5))):
        world.put_pod(draw(pods(f"p{i}", on=draw(names))))
    for name in draw(st.lists(names, max_size=2)):
        world.remove_node(name)
    for name in draw(st.lists(names, max_size=1)):
        world.put_node(draw(nodes(name)))
    return world


def pod_of(doc: Doc) -> Any:
    return convert(Pod, doc)
