"""A scheduler dies in the middle of a binding, and another goes on: on the same node, with the same volume."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from nomination_stage import CLAIMS, PODS, SELECTED_NODE, NominationStage

from support.eventually import eventually

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[NominationStage]:
    stage = NominationStage(tmp_path)
    for name in ("a", "b", "c", "d"):
        stage.node(name, "100Gi")
    stage.claim("data")
    yield stage
    stage.server.stop()


def history(stage: NominationStage, since: str) -> tuple[list[tuple[str, str]], list[str]]:
    """(expected, placed) of the pod and the selected node of its claim, write by write."""
    pods = stage.writes(PODS, "web", since)
    claims = stage.writes(CLAIMS, "data", since)
    return (
        [(each["status"].get("nominatedNodeName", ""), each["spec"].get("nodeName", "")) for each in pods],
        [each["metadata"].get("annotations", {}).get(SELECTED_NODE, "") for each in claims],
    )


def test_a_scheduler_killed_while_a_volume_is_made_is_taken_over_from_on_the_same_node(stage):
    since = stage.now()
    stage.pod("web", "data")
    with stage.placing() as process:
        chosen = eventually(lambda: stage.selected("data"))
        assert stage.nominated_to("web") == chosen
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
    with stage.placing(name="next"):
        # The provisioner knows nothing of it, and has made the volume by now.
        stage.provision("data")
        eventually(lambda: stage.node_of("web") == chosen)
    # Made, shown, bound; and the claim was sent to its node once, then bound.
    assert history(stage, since) == ([("", ""), (chosen, ""), ("", chosen)], [chosen, chosen])
    volumes = stage.server.get("/api/v1/persistentvolumes").body["items"]
    assert [each["metadata"]["name"] for each in volumes] == ["pv-data"]


def test_a_standby_takes_over_when_the_lease_has_run_out_and_repeats_nothing(stage):
    since = stage.now()
    with stage.placing(elects=True) as leader:
        first = eventually(lambda: stage.server.get(LEASE).body.get("spec", {}).get("holderIdentity"))
        stage.pod("web", "data")
        chosen = eventually(lambda: stage.selected("data"))
        with stage.placing(elects=True, name="standby"):
            # The standby follows and does nothing.
            log = stage.folder / "standby.log"
            eventually(lambda: "Waiting for the lease" in log.read_text())
            leader.send_signal(signal.SIGKILL)
            leader.wait(timeout=10)
            second = eventually(
                lambda: (found := stage.server.get(LEASE).body["spec"]["holderIdentity"]) != first and found
            )
            assert second and stage.server.get(LEASE).body["spec"]["leaseTransitions"] == 1
            stage.provision("data")
            eventually(lambda: stage.node_of("web") == chosen)
    assert history(stage, since) == ([("", ""), (chosen, ""), ("", chosen)], [chosen, chosen])
    assert [each["reason"] for each in stage.events("web")] in ([], ["Scheduled"])


def test_a_scheduler_that_takes_over_waits_for_the_victims_of_the_last(stage):
    stage.priority("high", 1000)
    names = ("a", "b", "c", "d")
    for name in names:
        stage.working_pod(f"on-{name}", "4", nodeName=name, terminationGracePeriodSeconds=30)

    def going() -> list[str]:
        items = stage.server.get(PODS).body["items"]
        return [each["spec"]["nodeName"] for each in items if "deletionTimestamp" in each["metadata"]]

    with stage.placing() as process:
        stage.working_pod("web", "4", priority="high")
        chosen = eventually(lambda: stage.nominated_to("web"))
        eventually(going)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
    with stage.placing(name="next"):
        eventually(lambda: "not eligible due to a terminating pod" in stage.message("web")[1])
        assert going() == [chosen]
        stage.server.delete(f"{PODS}/on-{chosen}?gracePeriodSeconds=0")
        eventually(lambda: stage.node_of("web") == chosen)
    assert going() == []
