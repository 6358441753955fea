"""Which node affinity a volume should have: the table of KEP-5925's contract, row by row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.driver.rebuilding import AffinityChange, VolumeUser, change_for, confined_to
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node, PersistentVolume, is_out_of_use
from tonnage.objects.core_v1.persistent_volume import VOLUME_HOME
from tonnage.testing.builders import Doc, node
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


ELSEWHERE = VolumeUser(pod_with("db-0", "data", on="node-2"))
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def test_a_pod_that_was_placed_elsewhere_keeps_the_volume_free_for_it() -> None:
    assert change_for(FREE, "node-1", HOME, [ELSEWHERE]) is None
    assert change_for(FREE, "node-1", HOME, [VolumeUser(pod_with("db-0", "data"))]) == SET


def test_a_pod_that_names_another_node_does_not_free_a_volume_that_is_confined_to_its_home() -> None:
    assert change_for(ON_1, "node-1", HOME, [ELSEWHERE]) is None


@pytest.mark.parametrize("order", [1, -1], ids=["the one at home first", "the other first"])
def test_a_pod_at_home_keeps_its_volume_though_another_was_sent_elsewhere(order: int) -> None:
    """The home went, a pod that shares the claim was sent elsewhere, and the home is back with its pod."""
    at_home = VolumeUser(pod_with("db-1", "data", on="node-1"))
    assert change_for(FREE, "node-1", HOME, [at_home, ELSEWHERE][::order]) == SET
    # The volume follows when the one at home goes.
    going = VolumeUser(pod_with("db-1", "data", on="node-1", metadata=GOING))
    assert change_for(FREE, "node-1", HOME, [going, ELSEWHERE][::order]) is None


def refused(**metadata: str) -> VolumeUser:
    return VolumeUser(pod_with("db-0", "data", on="node-2", metadata=metadata), is_refused=True)


@pytest.mark.parametrize("home", [HOME, CORDONED, OUT_OF_SERVICE, None], ids=["takes pods", "cordoned", "dead", "gone"])
def test_a_volume_is_confined_to_its_home_while_a_pod_waits_where_there_is_no_room(home: Node | None) -> None:
    """So that the pod's kubelet fails it; its successor, which is not refused yet, is placed anew."""
    assert change_for(FREE, "node-1", home, [refused()]) == SET
    assert change_for(ON_1, "node-1", home, [refused()]) is None
    freed = change_for(ON_1, "node-1", home, [VolumeUser(pod_with("db-0", "data"))])
    assert (freed is None) == (home is HOME)


def test_a_refused_pod_that_goes_keeps_nothing() -> None:
    assert change_for(FREE, "node-1", CORDONED, [refused(**GOING)]) is None
    assert change_for(FREE, "node-1", HOME, [refused(**GOING)]) == SET


def test_volumes_of_a_pod_that_are_on_two_nodes_are_confined_to_neither() -> None:
    """One was rebuilt, the other refused, and the pod was replaced: some node may have room for both."""
    apart = VolumeUser(pod_with("db-0", "data", "log"), frozenset({"node-1", "node-2"}))
    freed = unset('Pod "db-0" also uses a volume on node "node-2"')
    assert change_for(ON_1, "node-1", HOME, [apart]) == freed
    assert change_for(FREE, "node-1", HOME, [apart]) is None
    # While a pod has the volume at home, it stays there.
    at_home = VolumeUser(pod_with("db-1", "data", on="node-1"))
    assert change_for(FREE, "node-1", HOME, [apart, at_home]) == SET
    # Once they are together, they are confined again.
    together = VolumeUser(pod_with("db-0", "data", "log"), frozenset({"node-1"}))
    assert change_for(FREE, "node-1", HOME, [together]) == SET


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


def test_an_affinity_reads_as_a_provisioner_writes_it_from_the_topology() -> None:
    read = convert(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {"nodeAffinity": confined_to("node-1")}})
    assert read.spec.node_affinity.required is not None
    assert read.spec.node_affinity.required.matches("anything", {KEY: "node-1"})
    assert not read.spec.node_affinity.required.matches("node-1", {KEY: "node-2"})
