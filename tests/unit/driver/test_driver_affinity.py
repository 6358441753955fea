"""Which node affinity a volume should have: the table of KEP-5925's contract, row by row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.driver.rebuilding import AffinityChange, change_for, confined_to, pod_elsewhere
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node, PersistentVolume, is_out_of_use
from tonnage.objects.core_v1.persistent_volume import VOLUME_HOME
from tonnage.testing.builders import Doc, node, pod
from tonnage.testing.storage_builders import pod_with, volume

KEY = "topology.tonnage.dev/node"
HOME = node("node-1", labels={KEY: "node-1"})
CORDONED = node("node-1", labels={KEY: "node-1"}, unschedulable=True)
OUT_OF_SERVICE = node(
    "node-1", labels={KEY: "node-1"}, taints=["node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"]
)


def at(affinity: Doc | None, home: str | None = None) -> PersistentVolume:
    said = {"annotations": {VOLUME_HOME: home}} if home else {}
    return volume("pv", metadata=said, spec={} if affinity is None else {"nodeAffinity": affinity})


ON_1, ON_2, FREE = at(confined_to("node-1")), at(confined_to("node-2")), at(None, "node-1")
SET = AffinityChange(
    confined_to("node-1"), None, "AffinitySet", 'The volume is on node "node-1", and pods that use it go there'
)


def unset(why: str) -> AffinityChange:
    return AffinityChange(None, "node-1", "AffinityUnset", f"{why}; the volume may be rebuilt elsewhere")


@pytest.mark.parametrize("found", [ON_1, ON_2], ids=["as it was", "stale"])
def test_a_home_that_is_out_of_use_holds_no_volume(found: PersistentVolume) -> None:
    assert change_for(found, "node-1", CORDONED) == unset('Node "node-1" is unschedulable')
    assert change_for(found, "node-1", None) == unset('Node "node-1" is gone')
    assert change_for(found, "node-1", OUT_OF_SERVICE) == unset('Node "node-1" is out of service')


def test_a_volume_that_may_go_anywhere_is_left_so_while_its_home_takes_no_pods() -> None:
    assert change_for(FREE, "node-1", CORDONED) is None
    assert change_for(FREE, "node-1", None) is None
    assert change_for(FREE, "node-1", OUT_OF_SERVICE) is None


@pytest.mark.parametrize("said", [None, "node-2"], ids=["untold", "it moved while it was free"])
def test_a_volume_that_may_go_anywhere_says_where_it_is(said: str | None) -> None:
    change = change_for(at(None, said), "node-1", CORDONED)
    assert change == unset('Node "node-1" is unschedulable')
    assert change.patch == {"metadata": {"annotations": {VOLUME_HOME: "node-1"}}, "spec": {"nodeAffinity": None}}
    assert SET.patch["metadata"] == {"annotations": {VOLUME_HOME: None}}


def test_a_home_that_takes_pods_again_has_its_volume_back() -> None:
    assert change_for(FREE, "node-1", HOME) == SET


def test_a_volume_that_was_rebuilt_is_confined_to_its_new_home() -> None:
    assert change_for(ON_2, "node-1", HOME) == SET
    assert change_for(ON_1, "node-1", HOME) is None


def test_a_pod_that_was_placed_elsewhere_keeps_the_volume_free_for_it() -> None:
    assert change_for(FREE, "node-1", HOME, "db-0") is None
    assert change_for(ON_1, "node-1", HOME, "db-0") == unset(
        'Pod "db-0" was placed elsewhere while node "node-1" was out of use'
    )


def test_a_node_that_has_not_registered_yet_counts_as_labelled() -> None:
    assert change_for(ON_1, "node-1", node("node-1")) is None


@pytest.mark.parametrize(
    "affinity",
    [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1", "node-7"]},
        {"key": "zone", "operator": "DoesNotExist"},
    ],
    ids=["by hostname", "by a label it has not"],
)
def test_an_affinity_in_other_words_that_takes_the_home_in_is_left_alone(affinity: Doc) -> None:
    written = {"required": {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}}
    assert change_for(at(written), "node-1", HOME) is None


AFFINITIES = st.sampled_from([None, *(confined_to(f"node-{number}") for number in (1, 2, 3))])


@given(affinity=AFFINITIES, home=st.sampled_from(["node-1", "node-2"]), cordoned=st.booleans(), gone=st.booleans())
def test_what_was_written_needs_no_further_change(affinity: Doc | None, home: str, cordoned: bool, gone: bool) -> None:
    found: Node | None = None if gone else node(home, unschedulable=cordoned)
    change = change_for(at(affinity), home, found)
    if change is not None:
        assert change_for(at(change.affinity, change.home), home, found) is None
    # In the end it is confined to its home exactly if the home takes pods.
    final = affinity if change is None else change.affinity
    assert final == (None if is_out_of_use(found) else confined_to(home))


def test_a_pod_is_elsewhere_if_it_uses_the_claim_is_placed_and_is_not_over() -> None:
    elsewhere = pod_with("db-0", "data", on="node-2")
    assert pod_elsewhere([elsewhere], "data", "node-1") == "db-0"
    assert pod_elsewhere([elsewhere], "data", "node-2") == ""
    assert pod_elsewhere([elsewhere], "other", "node-1") == ""
    assert pod_elsewhere([pod_with("db-0", "data")], "data", "node-1") == ""
    assert pod_elsewhere([pod_with("db-0", "data", on="node-2", status={"phase": "Failed"})], "data", "node-1") == ""


@pytest.mark.parametrize("order", [1, -1], ids=["the one at home first", "the other first"])
def test_a_pod_at_home_keeps_its_volume_though_another_was_sent_elsewhere(order: int) -> None:
    """The home went, a pod that shares the claim was sent elsewhere, and the home is back with its pod."""
    at_home, elsewhere = pod_with("db-0", "data", on="node-1"), pod_with("db-1", "data", on="node-2")
    assert pod_elsewhere([at_home, elsewhere][::order], "data", "node-1") == ""
    # The volume follows when the one at home goes, or has ended.
    going = pod_with("db-0", "data", on="node-1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert pod_elsewhere([going, elsewhere][::order], "data", "node-1") == "db-1"
    ended = pod_with("db-0", "data", on="node-1", status={"phase": "Failed"})
    assert pod_elsewhere([ended, elsewhere][::order], "data", "node-1") == "db-1"
    assert pod_elsewhere([pod_with("db-0", "other", on="node-1"), elsewhere][::order], "data", "node-1") == "db-1"


def test_a_volume_does_not_follow_a_pod_to_a_node_without_room_for_it() -> None:
    sent = [pod_with("db-0", "data", on="node-2"), pod_with("db-1", "data", on="node-3")]
    assert pod_elsewhere(sent, "data", "node-1", {"node-2"}) == "db-1"
    assert pod_elsewhere(sent, "data", "node-1", {"node-2", "node-3"}) == ""


def test_a_claim_that_was_made_for_its_pod_is_known_by_its_name() -> None:
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    owner = pod("job", on="node-2", spec={"volumes": [scratch]})
    assert pod_elsewhere([owner], "job-scratch", "node-1") == "job"


def test_an_affinity_reads_as_a_provisioner_writes_it_from_the_topology() -> None:
    read = convert(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {"nodeAffinity": confined_to("node-1")}})
    assert read.spec.node_affinity.required is not None
    assert read.spec.node_affinity.required.matches("anything", {KEY: "node-1"})
    assert not read.spec.node_affinity.required.matches("node-1", {KEY: "node-2"})
