"""`tonnage pools` as a process beside a real API server."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.processes import ApiServerProcess, start_cluster
from support.programs import RunningProgram, spawn
from tonnage.objects.codec import convert
from tonnage.objects.storage_v1 import (
    AVAILABLE_CAPACITIES,
    CAPACITY_GROUP,
    POOL_IDS,
    POOL_POLICY,
    POOLS_OBSERVED_AT,
    POOLS_PROGRAM,
    POOLS_SOURCE,
    POOLS_STALE_SINCE,
    SIZE_RULES,
    CSIStorageCapacity,
)

Doc = dict[str, Any]
CAPACITIES = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
DRIVER = "csi.example"
KEY = "example.com/pools"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ApiServerProcess]:
    cluster = start_cluster(tmp_path)
    try:
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def pools(cluster: ApiServerProcess, *flags: str) -> Iterator[RunningProgram]:
    process = spawn("pools", "--kubeconfig", str(cluster.kubeconfig), *flags, log=cluster.folder / "pools.log")
    try:
        assert process.readline() == "ready\n", (cluster.folder / "pools.log").read_text()
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0, (cluster.folder / "pools.log").read_text()


def create(cluster: ApiServerProcess, path: str, doc: Doc) -> None:
    reply = cluster.post(path, doc)
    assert reply.code == 201, reply.body


def add_node(cluster: ApiServerProcess, name: str, annotations: dict[str, str]) -> None:
    labels = {"example.com/node": name}
    create(cluster, "/api/v1/nodes", {"metadata": {"name": name, "labels": labels, "annotations": annotations}})


def add_class(cluster: ApiServerProcess, name: str = "fast", **parameters: str) -> None:
    doc = {"metadata": {"name": name}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    create(cluster, CLASSES, {**doc, "parameters": parameters})


def add_capacity(cluster: ApiServerProcess, name: str, node: str, storage_class: str = "fast") -> None:
    topology = {"matchLabels": {"example.com/node": node}}
    doc = {"storageClassName": storage_class, "capacity": "100Gi", "nodeTopology": topology}
    create(cluster, CAPACITIES, {"metadata": {"name": name}, **doc})


def annotations_at(cluster: ApiServerProcess, path: str) -> dict[str, str]:
    found: dict[str, str] = cluster.get(path).body["metadata"].get("annotations", {})
    return found


def becomes(cluster: ApiServerProcess, name: str, pools: str | None) -> None:
    def holds() -> bool:
        return annotations_at(cluster, f"{CAPACITIES}/{name}").get(AVAILABLE_CAPACITIES) == pools

    eventually(
        holds,
        f"{name} to say {pools}",
        details=lambda: (
            f"{annotations_at(cluster, f'{CAPACITIES}/{name}')} {(cluster.folder / 'pools.log').read_text()}"
        ),
    )


def merge(cluster: ApiServerProcess, path: str, doc: Doc) -> None:
    reply = cluster.patch(path, doc)
    assert reply.code == 200, reply.body


def annotate(cluster: ApiServerProcess, node: str, text: str | None) -> None:
    merge(cluster, f"/api/v1/nodes/{node}", {"metadata": {"annotations": {KEY: text}}})


NODES_SOURCE = ("--source", "nodes", "--driver", DRIVER, "--annotation", KEY, "--pool-policy", "most-free")


def test_pools_follow_their_source_and_go_with_it(cluster: ApiServerProcess) -> None:
    add_node(cluster, "node-1", {KEY: "100Gi,20Gi"})
    add_class(cluster)
    add_capacity(cluster, "of-node-1", "node-1")
    add_capacity(cluster, "of-another", "node-1", "of-another-driver")
    with pools(cluster, *NODES_SOURCE):
        becomes(cluster, "of-node-1", "100Gi,20Gi")
        found = annotations_at(cluster, f"{CAPACITIES}/of-node-1")
        assert found[POOLS_SOURCE] == "nodes"
        assert found[POOLS_OBSERVED_AT]
        # The server notes when the program has written: that it has looked counts by the server's clock.
        kept = convert(CSIStorageCapacity, cluster.get(f"{CAPACITIES}/of-node-1").body)
        assert kept.checked_at is not None
        assert kept.checked_at == kept.metadata.written_at(POOLS_PROGRAM)
        annotate(cluster, "node-1", "100Gi,40Gi")
        becomes(cluster, "of-node-1", "100Gi,40Gi")
        # The provisioner's own field is not ours to touch, and a change of it not ours to fight.
        merge(cluster, f"{CAPACITIES}/of-node-1", {"capacity": "40Gi"})
        annotate(cluster, "node-1", "much")
        becomes(cluster, "of-node-1", None)
        assert cluster.get(f"{CAPACITIES}/of-node-1").body["capacity"] == "40Gi"
        annotate(cluster, "node-1", "")
        becomes(cluster, "of-node-1", "0")
        cluster.delete("/api/v1/nodes/node-1")
        becomes(cluster, "of-node-1", None)
        add_node(cluster, "node-1", {KEY: "1Gi,1Gi"})
        becomes(cluster, "of-node-1", "1Gi,1Gi")
        eventually(
            lambda: annotations_at(cluster, f"{CLASSES}/fast").get(POOL_POLICY) == "most-free", "the policy to be told"
        )
        assert AVAILABLE_CAPACITIES not in annotations_at(cluster, f"{CAPACITIES}/of-another")


def test_it_stands_back_when_the_driver_tells_pools_itself(cluster: ApiServerProcess) -> None:
    add_node(cluster, "node-1", {KEY: "100Gi,20Gi"})
    add_class(cluster)
    add_capacity(cluster, "of-node-1", "node-1")
    with pools(cluster, *NODES_SOURCE):
        becomes(cluster, "of-node-1", "100Gi,20Gi")
        merge(cluster, f"{CAPACITIES}/of-node-1", {"availableCapacities": ["7Gi"]})
        becomes(cluster, "of-node-1", None)
        merge(cluster, f"{CAPACITIES}/of-node-1", {"availableCapacities": None})
        becomes(cluster, "of-node-1", "100Gi,20Gi")


def test_a_restart_writes_nothing_and_remove_takes_all_away(cluster: ApiServerProcess) -> None:
    add_node(cluster, "node-1", {KEY: "100Gi,20Gi"})
    add_class(cluster)
    add_capacity(cluster, "of-node-1", "node-1")
    with pools(cluster, *NODES_SOURCE):
        becomes(cluster, "of-node-1", "100Gi,20Gi")
        eventually(lambda: POOL_POLICY in annotations_at(cluster, f"{CLASSES}/fast"), "the policy to be told")
    version = cluster.get(f"{CAPACITIES}/of-node-1").body["metadata"]["resourceVersion"]
    with pools(cluster, *NODES_SOURCE):
        add_capacity(cluster, "another", "node-1")
        becomes(cluster, "another", "100Gi,20Gi")
    assert cluster.get(f"{CAPACITIES}/of-node-1").body["metadata"]["resourceVersion"] == version
    process = spawn(
        "pools",
        "--kubeconfig",
        str(cluster.kubeconfig),
        *NODES_SOURCE,
        "--remove",
        log=cluster.folder / "remove.log",
    )
    assert process.wait() == 0, (cluster.folder / "remove.log").read_text()
    assert annotations_at(cluster, f"{CAPACITIES}/of-node-1") == {}
    assert annotations_at(cluster, f"{CLASSES}/fast") == {}


def test_classes_on_the_same_disks_become_a_group_and_what_an_admin_wrote_stays(cluster: ApiServerProcess) -> None:
    add_node(cluster, "node-1", {KEY: "100Gi,20Gi"})
    add_class(cluster, "fast")
    add_class(cluster, "slow")
    merge(cluster, f"{CLASSES}/slow", {"metadata": {"annotations": {POOL_POLICY: "random"}}})
    with pools(cluster, *NODES_SOURCE, "--set-capacity-groups"):
        eventually(
            lambda: (
                [annotations_at(cluster, f"{CLASSES}/{name}").get(CAPACITY_GROUP) for name in ("fast", "slow")]
                == ["shared-fast", "shared-fast"]
            ),
            "the group to be told",
            details=lambda: (cluster.folder / "pools.log").read_text(),
        )
        assert annotations_at(cluster, f"{CLASSES}/fast")[POOL_POLICY] == "most-free"
        assert annotations_at(cluster, f"{CLASSES}/slow")[POOL_POLICY] == "random"


def test_sizes_and_ids_of_a_known_driver_are_written_and_what_an_admin_wrote_stays(cluster: ApiServerProcess) -> None:
    add_node(
        cluster, "node-1", {"capacity.topolvm.io/00default": "107374182400", "capacity.topolvm.io/ssd": "107374182400"}
    )
    for name, parameters, own in (
        ("plain", {}, ""),
        ("xfs", {"csi.storage.k8s.io/fstype": "xfs", "topolvm.io/device-class": "ssd"}, ""),
        ("ours", {"csi.storage.k8s.io/fstype": "xfs"}, "minimum=1Gi"),
    ):
        metadata = {"name": name, **({"annotations": {SIZE_RULES: own}} if own else {})}
        doc = {"metadata": metadata, "provisioner": "topolvm.io", "parameters": parameters}
        create(cluster, CLASSES, {**doc, "volumeBindingMode": "WaitForFirstConsumer"})
        add_capacity(cluster, f"{name}-of-node-1", "node-1", name)
    driver = {"name": "topolvm.io", "nodeID": "node-1", "topologyKeys": ["example.com/node"]}
    create(cluster, CSI_NODES, {"metadata": {"name": "node-1"}, "spec": {"drivers": [driver]}})
    told = {"plain": "block-minimum=8Mi,extent=4Mi", "xfs": "minimum=300Mi,block-minimum=8Mi,extent=4Mi"}
    with pools(cluster, "--source", "topolvm"):
        for name, rules in {**told, "ours": "minimum=1Gi"}.items():
            eventually(
                lambda name=name, rules=rules: annotations_at(cluster, f"{CLASSES}/{name}").get(SIZE_RULES) == rules,  # type: ignore[misc]
                f"the sizes of class {name}",
            )
            becomes(cluster, f"{name}-of-node-1", "100Gi")
            # The default is the device class ssd under another name: one pool for all.
            assert annotations_at(cluster, f"{CAPACITIES}/{name}-of-node-1")[POOL_IDS] == "ssd"
    log = (cluster.folder / "pools.log").read_text()
    assert log.count("tonnage.dev/size-rules is minimum=1Gi, which another program wrote: it stays") == 1


def test_the_default_device_class_is_known_by_its_number_on_all_nodes(cluster: ApiServerProcess) -> None:
    """On node-1 two device classes have the default's number, on node-2 only one has."""
    told = {"node-1": ("100Gi", "100Gi", "100Gi"), "node-2": ("60Gi", "60Gi", "50Gi")}
    for name, amounts in told.items():
        kinds = ("00default", "ssd", "hdd")
        add_node(
            cluster, name, {f"capacity.topolvm.io/{kind}": free for kind, free in zip(kinds, amounts, strict=True)}
        )
        add_capacity(cluster, f"of-{name}", name)
    doc = {"metadata": {"name": "fast"}, "provisioner": "topolvm.io", "volumeBindingMode": "WaitForFirstConsumer"}
    create(cluster, CLASSES, doc)
    with pools(cluster, "--source", "topolvm"):
        becomes(cluster, "of-node-2", "60Gi")
        becomes(cluster, "of-node-1", "100Gi")
        for name in told:
            assert annotations_at(cluster, f"{CAPACITIES}/of-{name}")[POOL_IDS] == "ssd"
        # What changes on one node is seen there, and what it tells of the default is seen on the others.
        free = {f"capacity.topolvm.io/{kind}": "40Gi" for kind in ("00default", "ssd")}
        merge(cluster, "/api/v1/nodes/node-2", {"metadata": {"annotations": free}})
        becomes(cluster, "of-node-2", "40Gi")
        assert annotations_at(cluster, f"{CAPACITIES}/of-node-1")[POOL_IDS] == "ssd"


def test_a_source_whose_agent_is_gone_is_marked_and_then_dropped(cluster: ApiServerProcess) -> None:
    free = {"capacity.topolvm.io/00default": "107374182400"}
    add_node(cluster, "node-1", free)
    doc = {"metadata": {"name": "fast"}, "provisioner": "topolvm.io", "volumeBindingMode": "WaitForFirstConsumer"}
    create(cluster, CLASSES, doc)
    driver = {"name": "topolvm.io", "nodeID": "node-1", "topologyKeys": ["example.com/node"]}
    create(cluster, CSI_NODES, {"metadata": {"name": "node-1"}, "spec": {"drivers": [driver]}})
    add_capacity(cluster, "of-node-1", "node-1")
    with pools(cluster, "--driver", "topolvm.io", "--drop-after", "1h"):
        becomes(cluster, "of-node-1", "100Gi")
        merge(cluster, f"{CSI_NODES}/node-1", {"spec": {"drivers": []}})
        eventually(
            lambda: POOLS_STALE_SINCE in annotations_at(cluster, f"{CAPACITIES}/of-node-1"), "its pools to be marked"
        )
        becomes(cluster, "of-node-1", "100Gi")
    with pools(cluster, "--driver", "topolvm.io", "--drop-after", "1s"):
        becomes(cluster, "of-node-1", None)
        merge(cluster, f"{CSI_NODES}/node-1", {"spec": {"drivers": [driver]}})
        becomes(cluster, "of-node-1", "100Gi")


def test_a_program_on_the_node_is_asked_again_and_again(cluster: ApiServerProcess) -> None:
    add_node(cluster, "node-1", {})
    add_node(cluster, "node-2", {})
    add_class(cluster)
    add_capacity(cluster, "of-node-1", "node-1")
    add_capacity(cluster, "of-node-2", "node-2")
    told = cluster.folder / "pools.json"
    told.write_text(json.dumps([{"name": "a", "free": "10Gi"}, {"name": "b", "free": "20Gi"}]))
    command = f'{sys.executable} -c "import sys; print(open(sys.argv[1]).read())" {told}'
    flags = ("--source", "command", "--driver", DRIVER, "--node-name", "node-1", "--command", command)
    with pools(cluster, *flags, "--interval", "1s", "--drop-after", "1s"):
        becomes(cluster, "of-node-1", "20Gi,10Gi")
        told.write_text(json.dumps(["5Gi"]))
        becomes(cluster, "of-node-1", "5Gi")
        told.write_text("nothing")
        becomes(cluster, "of-node-1", None)
        told.write_text(json.dumps(["6Gi"]))
        becomes(cluster, "of-node-1", "6Gi")
    assert annotations_at(cluster, f"{CAPACITIES}/of-node-2") == {}
    log = (cluster.folder / "pools.log").read_text()
    assert log.count("the output is not a list of pools") == 1


def test_programs_on_several_nodes_keep_to_their_own_objects_and_take_nothing_away_from_one_another(
    cluster: ApiServerProcess,
) -> None:
    """As a DaemonSet runs them: node-1 has two pools, and both classes on them, node-2 one pool a class."""
    told = {
        "node-1": {"pools": [{"name": "a", "free": "10Gi"}, {"name": "b", "free": "20Gi"}], "policy": "most-free"},
        "node-2": {"classes": {"fast": ["5Gi"], "slow": [{"name": "c", "free": "6Gi"}]}},
    }
    add_class(cluster, "fast")
    add_class(cluster, "slow")
    with ExitStack() as running:
        for name, output in told.items():
            add_node(cluster, name, {})
            add_capacity(cluster, f"of-{name}", name)
            file = cluster.folder / f"{name}.json"
            file.write_text(json.dumps(output))
            command = f'{sys.executable} -c "import sys; print(open(sys.argv[1]).read())" {file}'
            flags = ("--source", "command", "--driver", DRIVER, "--node-name", name, "--command", command)
            running.enter_context(pools(cluster, *flags, "--interval", "1s", "--set-capacity-groups"))
            becomes(cluster, f"of-{name}", {"node-1": "20Gi,10Gi", "node-2": "5Gi"}[name])
        # Each has run again since, and seen what the other wrote.
        add_capacity(cluster, "slow-of-node-1", "node-1", "slow")
        add_capacity(cluster, "slow-of-node-2", "node-2", "slow")
        becomes(cluster, "slow-of-node-1", "20Gi,10Gi")
        becomes(cluster, "slow-of-node-2", "6Gi")
        becomes(cluster, "of-node-1", "20Gi,10Gi")
        becomes(cluster, "of-node-2", "5Gi")
        kept = {POOL_POLICY: "most-free", CAPACITY_GROUP: "shared-fast"}
        eventually(lambda: annotations_at(cluster, f"{CLASSES}/slow") == kept, "what node-1 says of the class")
        eventually(lambda: annotations_at(cluster, f"{CLASSES}/fast") == kept, "what node-1 says of the other")
    log = (cluster.folder / "pools.log").read_text()
    assert '"Annotations taken away" object="CSIStorageCapacity' not in log


def test_a_driver_that_is_not_installed_is_waited_for_and_told_once(cluster: ApiServerProcess) -> None:
    add_node(cluster, "node-1", {})
    with pools(cluster, "--source", "openebs-lvm", "--driver", DRIVER, "--leader-elect"):
        eventually(lambda: "not there yet" in (cluster.folder / "pools.log").read_text(), "it to say what it waits for")
    assert (cluster.folder / "pools.log").read_text().count("not there yet") == 1
