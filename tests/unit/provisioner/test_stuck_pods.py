"""Who is stuck, and what they are told."""

from __future__ import annotations

from typing import Any

from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.provisioner.volumes.claims import StuckPod, stuck_message, stuck_pod
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import claim, pod_with, volume

NODES = [node("node-1"), node("node-2"), node("node-3")]
LOGS = claim("logs", "20Gi")


def stuck(
    pod: Pod,
    *others: tuple[PersistentVolumeClaim, PersistentVolume | None],
    nodes: list[Node] = NODES,
    full: tuple[str, ...] = ("node-1",),
) -> StuckPod | None:
    claims = {each.key: each for each, _ in others}
    volumes = {each.key: found for each, found in others}
    return stuck_pod(
        pod,
        LOGS,
        claims=claims.get,
        volume_of=lambda each: volumes[each.key],
        nodes=nodes,
        full_nodes=full,
    )


def made(name: str, on: Any) -> tuple[PersistentVolumeClaim, PersistentVolume]:
    return claim(name, volume=f"pv-{name}"), volume(f"pv-{name}", on=on, claim=f"default/{name}")


def test_a_volume_on_the_full_node_holds_the_pod_there() -> None:
    found = stuck(pod_with("db", "data", "logs"), made("data", "node-1"))
    assert found == StuckPod(("node-1",), (("data", "pv-data"),))


def test_a_volume_that_is_made_and_not_bound_yet_holds_as_well() -> None:
    unbound = claim("data")
    assert stuck(pod_with("db", "data", "logs"), (unbound, volume("pvc-1", on="node-1"))) is not None


def test_a_pod_that_can_go_elsewhere_is_not_stuck() -> None:
    pod = pod_with("db", "data", "logs")
    assert stuck(pod_with("db", "logs")) is None
    assert stuck(pod, (claim("data"), None)) is None
    assert stuck(pod, made("data", ["node-1", "node-2"])) is None
    assert stuck(pod, (claim("data", volume="pv"), volume("pv", claim="default/data"))) is None  # reachable anywhere


def test_it_is_stuck_once_every_node_it_could_use_was_full() -> None:
    pod = pod_with("db", "data", "logs")
    found = stuck(pod, made("data", ["node-1", "node-2"]), full=("node-1", "node-2"))
    assert found == StuckPod(("node-1", "node-2"), (("data", "pv-data"),))


def test_volumes_in_two_places_leave_no_node_at_all() -> None:
    found = stuck(pod_with("db", "data", "logs", "wal"), made("data", "node-1"), made("wal", "node-2"))
    assert found == StuckPod((), (("data", "pv-data"), ("wal", "pv-wal")))


def test_a_pod_that_runs_ended_goes_or_does_not_use_the_claim_is_left_alone() -> None:
    data = made("data", "node-1")
    assert stuck(pod_with("db", "data"), data) is None
    assert stuck(pod_with("db", "data", "logs", on="node-1"), data) is None
    assert stuck(pod_with("db", "data", "logs", status={"phase": "Failed"}), data) is None
    going = {"deletionTimestamp": "2026-11-15T00:00:00Z"}
    assert stuck(pod_with("db", "data", "logs", metadata=going), data) is None


def test_the_advice_names_the_refused_claim_the_one_that_holds_and_what_can_be_done() -> None:
    said = stuck_message(
        LOGS, StuckPod(("node-1",), (("data", "pv-data"),)), "rpc error: code = ResourceExhausted desc = full"
    )
    assert said == (
        "the volume of claim logs (20Gi) found no room on node node-1 (rpc error: code = ResourceExhausted desc = full)"
        ", and the pod can go nowhere else: claim data (volume pv-data) is reachable from there only. Free storage of "
        "class fast on node node-1; or delete logs, which is still empty, and ask for less; or delete claim data, "
        "whose data is lost then, and the pod, so that all its volumes are made together on another node"
    )


def test_volumes_that_no_node_reaches_get_another_advice() -> None:
    said = stuck_message(LOGS, StuckPod((), (("data", "pv-data"), ("wal", "pv-wal"))), "full")
    assert said == (
        "the volume of claim logs (20Gi) cannot be made where the pod's other volumes are: claim data (volume pv-data) "
        "and claim wal (volume pv-wal) are reachable from no node of the cluster (full). Bring back the node of claim "
        "data and claim wal, or delete claim data and claim wal, whose data is lost then, and the pod, so that all its "
        "volumes are made together on another node"
    )


def test_the_advice_fits_an_event_however_much_the_driver_says() -> None:
    nodes = tuple(f"node-{number}" for number in range(50))
    said = stuck_message(LOGS, StuckPod(nodes, (("data", "pvc-6d9b6d2e-4f0a-4c3e-9a1e-0a6b1f3f2c11"),)), "x" * 5000)
    assert len(said.encode()) <= 1024
    assert "nodes node-0, node-1, node-2 and 47 more (" in said
