"""Each gated rule on a running server, restarted on the same folder with the gate off and on again.

With the gate off a new value is dropped and a stored one is kept; with the gate on again everything works as before.
"""

from __future__ import annotations

import pytest

from support.processes import ApiServerProcess, start_cluster

CAPACITIES = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
VOLUMES = "/api/v1/persistentvolumes"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def restarted(tmp_path):
    """A function that stops the running server and starts one on the same folder with these gates."""
    running: list[ApiServerProcess] = []

    def start(gates: str = ""):
        if running:
            assert running.pop().stop() == 0
        running.append(start_cluster(tmp_path, *(["--feature-gates", gates] if gates else [])))
        return running[0]

    yield start
    running.pop().stop()


def test_pool_lists_follow_their_gate(restarted):
    on = restarted()
    doc = {"metadata": {"name": "a"}, "storageClassName": "pools", "availableCapacities": ["1Gi", "2Gi"]}
    assert on.post(CAPACITIES, doc).body["availableCapacities"] == ["1Gi", "2Gi"]
    off = restarted("CSIStorageCapacityV2=false")
    assert off.get(f"{CAPACITIES}/a").body["availableCapacities"] == ["1Gi", "2Gi"]
    dropped = off.post(CAPACITIES, {**doc, "metadata": {"name": "b"}, "availableCapacities": ["-5Gi"]})
    assert dropped.code == 201 and "availableCapacities" not in dropped.body
    assert off.patch(f"{CAPACITIES}/a", {"availableCapacities": ["3Gi"]}).body["availableCapacities"] == ["3Gi"]
    assert "availableCapacities" not in off.patch(f"{CAPACITIES}/a", {"availableCapacities": None}).body
    assert "availableCapacities" not in off.patch(f"{CAPACITIES}/a", {"availableCapacities": ["4Gi"]}).body
    again = restarted()
    assert again.patch(f"{CAPACITIES}/a", {"availableCapacities": ["4Gi"]}).body["availableCapacities"] == ["4Gi"]
    refused = again.patch(f"{CAPACITIES}/b", {"availableCapacities": ["1Gi", "-5Gi"]})
    assert refused.causes == [("availableCapacities[1]", 'Invalid value: "-5Gi": must be greater than or equal to 0')]


def test_volume_rebuilding_follows_its_gate(restarted):
    on = restarted()
    assert on.post(DRIVERS, {"metadata": {"name": "d"}, "spec": {"volumeRebuilding": False}}).code == 201
    assert on.patch(f"{DRIVERS}/d", {"spec": {"volumeRebuilding": True}}).body["spec"]["volumeRebuilding"] is True
    off = restarted("CSIStorageCapacityV2=false")
    made = off.post(DRIVERS, {"metadata": {"name": "e"}, "spec": {"volumeRebuilding": True}})
    assert made.code == 201 and "volumeRebuilding" not in made.body["spec"]
    assert off.patch(f"{DRIVERS}/d", {"spec": {"podInfoOnMount": True}}).body["spec"]["volumeRebuilding"] is True
    again = restarted()
    assert again.patch(f"{DRIVERS}/e", {"spec": {"volumeRebuilding": True}}).body["spec"]["volumeRebuilding"] is True


def csi_node(count: int | None, **changes):
    driver = {"name": "d", "nodeID": "n", "topologyKeys": ["t"], **changes}
    if count is not None:
        driver["allocatable"] = {"count": count}
    return {"spec": {"drivers": [driver]}}


def test_attach_limits_are_mutable_under_their_gate_only(restarted):
    on = restarted()
    assert on.post(CSI_NODES, {"metadata": {"name": "n1"}, **csi_node(10)}).code == 201
    assert on.patch(f"{CSI_NODES}/n1", csi_node(8)).body["spec"]["drivers"][0]["allocatable"]["count"] == 8
    assert on.patch(f"{CSI_NODES}/n1", csi_node(8, nodeID="other")).code == 422
    assert on.patch(f"{CSI_NODES}/n1", csi_node(8, topologyKeys=["t", "u"])).code == 422
    off = restarted("MutableCSINodeAllocatableCount=false")
    refused = off.patch(f"{CSI_NODES}/n1", csi_node(7))
    assert refused.code == 422 and refused.causes[0][0] == "spec.drivers"
    again = restarted()
    assert again.patch(f"{CSI_NODES}/n1", csi_node(7)).code == 200
    assert "allocatable" not in again.patch(f"{CSI_NODES}/n1", csi_node(None)).body["spec"]["drivers"][0]


def test_the_update_period_follows_its_gate(restarted):
    on = restarted()
    assert on.post(DRIVERS, {"metadata": {"name": "d"}, "spec": {"nodeAllocatableUpdatePeriodSeconds": 10}}).code == 201
    refused = on.patch(f"{DRIVERS}/d", {"spec": {"nodeAllocatableUpdatePeriodSeconds": 9}})
    assert refused.causes == [
        ("spec.nodeAllocatableUpdatePeriodSeconds", "Invalid value: 9: must be greater than or equal to 10 seconds")
    ]
    off = restarted("MutableCSINodeAllocatableCount=false")
    made = off.post(DRIVERS, {"metadata": {"name": "e"}, "spec": {"nodeAllocatableUpdatePeriodSeconds": 3}})
    assert made.code == 201 and "nodeAllocatableUpdatePeriodSeconds" not in made.body["spec"]
    assert off.get(f"{DRIVERS}/d").body["spec"]["nodeAllocatableUpdatePeriodSeconds"] == 10
    again = restarted()
    later = again.patch(f"{DRIVERS}/e", {"spec": {"nodeAllocatableUpdatePeriodSeconds": 60}})
    assert later.body["spec"]["nodeAllocatableUpdatePeriodSeconds"] == 60


def test_error_codes_of_attachments_follow_their_gate(restarted):
    on = restarted()
    spec = {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    assert on.post(ATTACHMENTS, {"metadata": {"name": "a"}, "spec": spec}).code == 201
    failed = {"status": {"attached": False, "attachError": {"message": "full", "errorCode": 8}}}
    assert on.patch(f"{ATTACHMENTS}/a/status", failed).body["status"]["attachError"]["errorCode"] == 8
    off = restarted("MutableCSINodeAllocatableCount=false")
    both = {"status": {"attachError": {"errorCode": 9}, "detachError": {"message": "x", "errorCode": 5}}}
    status = off.patch(f"{ATTACHMENTS}/a/status", both).body["status"]
    # attachError had a code, so it may be changed; detachError had none, so none is taken in.
    assert status["attachError"]["errorCode"] == 9 and "errorCode" not in status["detachError"]
    again = restarted()
    assert again.patch(f"{ATTACHMENTS}/a/status", both).body["status"]["detachError"]["errorCode"] == 5


def test_node_affinity_of_volumes_is_mutable_under_its_gate_only(restarted):
    def on_node(name):
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}
        return {"required": {"nodeSelectorTerms": [term]}}

    on = restarted()
    volume = {
        "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "d", "volumeHandle": "v"},
            "nodeAffinity": on_node("a"),
        },
    }
    assert on.post(VOLUMES, volume).code == 201
    assert on.patch(f"{VOLUMES}/v", {"spec": {"nodeAffinity": on_node("b")}}).code == 200
    off = restarted("MutablePVNodeAffinity=false")
    refused = off.patch(f"{VOLUMES}/v", {"spec": {"nodeAffinity": on_node("c")}})
    assert refused.code == 422 and refused.causes[0][0] == "nodeAffinity"
    again = restarted()
    assert "nodeAffinity" not in again.patch(f"{VOLUMES}/v", {"spec": {"nodeAffinity": None}}).body["spec"]


@pytest.mark.parametrize("gate", ["NominatedNodeNameForExpectation", "ClearingNominatedNodeNameAfterBinding"])
def test_binding_clears_the_nomination_only_with_both_gates_on(restarted, gate):
    def nominate_and_bind(cluster, name):
        pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert cluster.post(PODS, pod).code == 201
        assert cluster.patch(f"{PODS}/{name}/status", {"status": {"nominatedNodeName": "n1"}}).code == 200
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n2"}}
        bound = cluster.post(f"{PODS}/{name}/binding", binding)
        assert (bound.code, bound.body["status"]) == (201, "Success")
        return cluster.get(f"{PODS}/{name}").body["status"].get("nominatedNodeName")

    assert nominate_and_bind(restarted(), "on") is None
    assert nominate_and_bind(restarted(f"{gate}=false"), "off") == "n1"
    assert nominate_and_bind(restarted(), "again") is None
