"""Which of the volumes that exist a pod's claims take, node by node: free_volumes, volume_reach and static_volumes."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from tonnage.objects.core_v1 import Node, ObjectReference, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Interner, Rows
from tonnage.scheduling.volumes.static_volumes import FreeVolumes, StaticVolumes
from tonnage.scheduling.volumes.volume_reach import Reaches
from tonnage.testing.builders import Doc, cluster_of, node
from tonnage.testing.storage_builders import claim, volume

ZONE = "topology.kubernetes.io/zone"
NAME = "metadata.name"

Taken = dict[str, list[str]]
"""By node what each claim takes, smallest claim first; "-" for nothing."""


def cluster_with(*objects: Object) -> Cluster:
    cluster = cluster_of(*(each for each in objects if isinstance(each, Node)))
    for each in objects:
        if isinstance(each, PersistentVolume):
            cluster.storage.put(each)
    return cluster


def taken(cluster: Cluster, *claims: PersistentVolumeClaim, rows: Rows | None = None) -> Taken:
    """What these claims take on the nodes of these rows."""
    asked = cluster.all_rows if rows is None else rows
    match = cluster.index(StaticVolumes).match(claims, asked)
    names = [cluster.name(row) for row in np.arange(cluster.size)[asked].tolist()]
    return {
        name: [match.volumes[number].name if number >= 0 else "-" for number in match.chosen[:, place].tolist()]
        for place, name in enumerate(names)
        if name
    }


def in_zone(*zones: str) -> Doc:
    return {"key": ZONE, "operator": "In", "values": list(zones)}


def affine(*terms: Doc) -> Doc:
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}}


def owned(each: PersistentVolume, owner: PersistentVolumeClaim) -> PersistentVolume:
    """A volume as a decision takes it to be bound."""
    ref = ObjectReference(namespace=owner.namespace, name=owner.name, uid=owner.uid)
    return msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, claim_ref=ref))


# -- which volume -----------------------------------------------------------------------------------------------------


def test_a_claim_takes_the_smallest_volume_that_is_large_enough() -> None:
    cluster = cluster_with(node("a"), volume("large", "8Gi"), volume("small", "1Gi"), volume("middle", "4Gi"))
    assert taken(cluster, claim("data", "2Gi")) == {"a": ["middle"]}


def test_a_volume_of_exactly_the_size_fits() -> None:
    cluster = cluster_with(node("a"), volume("exact", "2048Mi"))
    assert taken(cluster, claim("data", "2Gi")) == {"a": ["exact"]}


def test_sizes_are_compared_exactly_and_not_as_whole_bytes() -> None:
    # 1Gi = 1073741824 bytes. Half a byte less rounds up to the same number of bytes, and is too small all the same.
    cluster = cluster_with(node("a"), volume("hair", "1073741823500m"), volume("exact", "1Gi"))
    assert taken(cluster, claim("data", "1Gi")) == {"a": ["exact"]}
    assert taken(cluster, claim("data", "1073741823500m")) == {"a": ["hair"]}


def test_of_equal_sizes_the_first_by_name_is_taken() -> None:
    cluster = cluster_with(node("a"), volume("y", "1Gi"), volume("z", "1Gi"), volume("x", "1024Mi"))
    assert taken(cluster, claim("data", "1Gi")) == {"a": ["x"]}


def test_a_claim_that_asks_for_no_size_is_content_with_any_volume() -> None:
    cluster = cluster_with(node("a"), volume("small", "1Gi"))
    assert taken(cluster, claim("data", None)) == {"a": ["small"]}


@pytest.mark.parametrize(
    ("offered", "wanted"),
    [
        ({"class_name": "other"}, {}),
        ({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "other"}}}, {}),
        ({"phase": "Pending"}, {}),
        ({"phase": "Released"}, {}),
        ({"phase": "Failed"}, {}),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, {}),
        ({"claim": "default/another"}, {}),
        ({"modes": ["ReadOnlyMany"]}, {}),
        ({"modes": ["ReadWriteOnce"]}, {"modes": ["ReadWriteOnce", "ReadOnlyMany"]}),
        ({"spec": {"volumeMode": "Block"}}, {}),
        ({}, {"spec": {"volumeMode": "Block"}}),
        ({"spec": {"volumeAttributesClassName": "gold"}}, {}),
        ({}, {"spec": {"volumeAttributesClassName": "gold"}}),
        ({"labels": {"tier": "b"}}, {"spec": {"selector": {"matchLabels": {"tier": "a"}}}}),
        ({"labels": {"tier": "a"}}, {"spec": {"selector": {"matchExpressions": [{"key": "tier", "operator": "?"}]}}}),
    ],
)
def test_a_volume_that_does_not_suit_is_left_alone(offered: Doc, wanted: Doc) -> None:
    cluster = cluster_with(node("a"), volume("pv", "1Gi", **offered))
    assert taken(cluster, claim("data", "1Gi", **wanted)) == {"a": ["-"]}


@pytest.mark.parametrize(
    ("offered", "wanted"),
    [
        ({"class_name": "", "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}}}, {}),
        ({"modes": ["ReadOnlyMany", "ReadWriteOnce"]}, {"modes": ["ReadWriteOnce"]}),
        ({}, {"modes": []}),
        ({"spec": {"volumeMode": "Block"}}, {"spec": {"volumeMode": "Block"}}),
        ({"spec": {"volumeAttributesClassName": "gold"}}, {"spec": {"volumeAttributesClassName": "gold"}}),
        ({"labels": {"tier": "a"}}, {"spec": {"selector": {"matchLabels": {"tier": "a"}}}}),
        ({"labels": {"tier": "a"}}, {"spec": {"selector": {}}}),
    ],
)
def test_a_volume_that_suits_is_taken(offered: Doc, wanted: Doc) -> None:
    cluster = cluster_with(node("a"), volume("pv", "1Gi", **offered))
    assert taken(cluster, claim("data", "1Gi", **wanted)) == {"a": ["pv"]}


# -- where ------------------------------------------------------------------------------------------------------------


def test_each_node_takes_the_smallest_of_the_volumes_it_can_reach() -> None:
    cluster = cluster_with(
        *(node(name, labels={ZONE: zone}) for name, zone in [("a", "z1"), ("b", "z1"), ("c", "z2")]),
        volume("anywhere", "4Gi"),
        volume("zonal", "3Gi", affinity=in_zone("z1")),
        volume("local", "2Gi", on="b"),
    )
    assert taken(cluster, claim("data", "1Gi")) == {"a": ["zonal"], "b": ["local"], "c": ["anywhere"]}


def test_local_volumes_serve_their_own_nodes_only() -> None:
    cluster = cluster_with(node("a"), node("b"), node("c"), volume("pv-a", on="a"), volume("pv-c", on="c"))
    assert taken(cluster, claim("data")) == {"a": ["pv-a"], "b": ["-"], "c": ["pv-c"]}


@pytest.mark.parametrize(
    ("terms", "reached"),
    [
        ([], []),  # an affinity without terms reaches nobody
        ([{}], []),
        ([{"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}], ["a", "b"]),
        ([{"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["z1"]}]}], ["b", "c"]),
        ([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": []}]}], []),
        ([{"matchExpressions": [in_zone("z1")]}, {"matchExpressions": [in_zone("z2")]}], ["a", "b"]),
        # Names of nodes are passed over: a term that asks for nothing else holds everywhere.
        ([{"matchFields": [{"key": NAME, "operator": "In", "values": ["a"]}]}], ["a", "b", "c"]),
        (
            [{"matchFields": [{"key": NAME, "operator": "In", "values": ["a"]}], "matchExpressions": [in_zone("z2")]}],
            ["b"],
        ),
        ([{"matchFields": [{"key": NAME, "operator": "NotIn", "values": ["a"]}]}], ["a", "b", "c"]),
    ],
)
def test_node_affinity_is_judged_by_labels(terms: list[Doc], reached: list[str]) -> None:
    nodes = [node("a", labels={ZONE: "z1"}), node("b", labels={ZONE: "z2"}), node("c")]
    here = {name: ["pv" if name in reached else "-"] for name in "abc"}
    pv = volume("pv", spec=affine(*terms))
    assert taken(cluster_with(*nodes, pv), claim("data")) == here

    late = cluster_with(pv, *(volume(f"other-{number}", "9Gi", on=f"n{number}") for number in range(4)))
    assert taken(late, claim("data")) == {}
    for each in nodes:
        late.put_node(each)
        assert taken(late, claim("data"))[each.name] == here[each.name]


def test_some_rows_are_answered_in_the_order_they_are_asked() -> None:
    cluster = cluster_with(*map(node, "abcd"), *(volume(f"pv-{name}", on=name) for name in "abd"))
    asked = np.array([3, 2, 0], dtype=np.intp)
    match = cluster.index(StaticVolumes).match([claim("data")], asked)
    assert [match.volumes[each].name for each in match.chosen[0, [0, 2]].tolist()] == ["pv-d", "pv-a"]
    assert match.chosen[0, 1] == -1
    assert taken(cluster, claim("data"), rows=slice(1, 2)) == {"b": ["pv-b"]}
    assert taken(cluster, claim("data"), rows=slice(2, 4)) == {"c": ["-"], "d": ["pv-d"]}


# -- several claims ---------------------------------------------------------------------------------------------------


def test_claims_are_matched_smallest_first_and_equal_ones_in_their_order() -> None:
    cluster = cluster_with(node("a"))
    claims = [claim("big", "3Gi"), claim("first", "1Gi"), claim("none", None), claim("second", "1024Mi")]
    match = cluster.index(StaticVolumes).match(claims, cluster.all_rows)
    assert [each.name for each in match.claims] == ["none", "first", "second", "big"]
    assert match.chosen.tolist() == [[-1], [-1], [-1], [-1]]


def test_what_one_claim_takes_the_next_cannot_have_on_that_node() -> None:
    cluster = cluster_with(
        node("a"), node("b"), volume("all-1", "1Gi"), volume("all-2", "2Gi"), volume("a-1", "1Gi", on="a")
    )
    # a: a-1, then all-1, both of 1Gi, by name.   b: all-1, then all-2.
    assert taken(cluster, claim("x", "1Gi"), claim("y", "1Gi")) == {"a": ["a-1", "all-1"], "b": ["all-1", "all-2"]}


def test_nobody_looks_further_when_the_smallest_volume_was_the_only_one_for_a_later_claim() -> None:
    # The 1Gi claim takes the 2Gi volume, the smallest; it might have had the 3Gi one, which is no use to `block`.
    cluster = cluster_with(
        node("a"),
        volume("both", "2Gi", modes=["ReadWriteOnce", "ReadOnlyMany"]),
        volume("plain", "3Gi"),
    )
    picky = claim("picky", "2Gi", modes=["ReadOnlyMany"])
    assert taken(cluster, picky, claim("easy", "1Gi")) == {"a": ["both", "-"]}


def test_a_claim_without_a_volume_does_not_keep_the_others_from_theirs() -> None:
    cluster = cluster_with(node("a"), volume("pv", "4Gi"))
    other = claim("nothing", "1Gi", class_name="other")
    assert taken(cluster, other, claim("data", "4Gi")) == {"a": ["-", "pv"]}


def test_claims_of_several_classes_each_look_at_their_own() -> None:
    cluster = cluster_with(
        node("a"), node("b"), volume("f1"), volume("f2", "2Gi"), volume("s1", class_name="slow", on="b")
    )
    claims = [claim("x"), claim("y", class_name="slow"), claim("z")]
    assert taken(cluster, *claims) == {"a": ["f1", "-", "f2"], "b": ["f1", "s1", "f2"]}


def test_a_claim_mounted_twice_asks_for_two_volumes() -> None:
    cluster = cluster_with(node("a"), volume("one"), volume("two"))
    twice = claim("data")
    assert taken(cluster, twice, twice, twice) == {"a": ["one", "two", "-"]}


# -- volumes kept for a claim -----------------------------------------------------------------------------------------


def kept(name: str = "kept", size: str = "9Gi", **options: Any) -> PersistentVolume:
    return volume(name, size, **{"claim": "default/data", **options})


def test_a_volume_kept_for_the_claim_goes_before_smaller_free_ones() -> None:
    cluster = cluster_with(node("a"), volume("free", "1Gi"), kept())
    assert taken(cluster, claim("data", "1Gi")) == {"a": ["kept"]}


@pytest.mark.parametrize(
    "options",
    [
        {"phase": "Available"},
        {"phase": "Released"},
        {"claim_uid": ""},
        {"modes": ["ReadOnlyMany"]},
        {"labels": {"tier": "b"}},
    ],
)
def test_selector_access_modes_and_phase_of_a_kept_volume_are_not_asked(options: Doc) -> None:
    cluster = cluster_with(node("a"), volume("free", "1Gi", labels={"tier": "a"}), kept(**options))
    wanted = claim("data", "1Gi", spec={"selector": {"matchLabels": {"tier": "a"}}})
    assert taken(cluster, wanted) == {"a": ["kept"]}


@pytest.mark.parametrize(
    "options",
    [
        {"size": "1023Mi"},
        {"size": "1073741823500m"},  # half a byte less than 1Gi
        {"spec": {"volumeMode": "Block"}},
        {"spec": {"volumeAttributesClassName": "gold"}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"class_name": "other"},
        {"claim_uid": "an-earlier-life"},
        {"claim": "elsewhere/data"},
    ],
)
def test_a_kept_volume_that_would_not_do_is_passed_over_for_a_free_one(options: Doc) -> None:
    cluster = cluster_with(node("a"), volume("free", "1Gi"), kept(**options))
    assert taken(cluster, claim("data", "1Gi")) == {"a": ["free"]}


def test_a_kept_volume_keeps_the_claim_from_free_ones_on_nodes_that_cannot_reach_it() -> None:
    cluster = cluster_with(node("a"), node("b"), volume("free", "9Gi"), kept(on="b"))
    assert taken(cluster, claim("data", "1Gi"), claim("other", "2Gi")) == {"a": ["-", "free"], "b": ["kept", "free"]}


def test_of_several_kept_volumes_one_that_can_be_reached_is_taken() -> None:
    cluster = cluster_with(node("a"), node("b"), kept("far", "1Gi", on="b"), kept("near", "2Gi"))
    assert taken(cluster, claim("data", "1Gi")) == {"a": ["near"], "b": ["far"]}


def test_a_claim_mounted_twice_takes_a_free_volume_beside_the_kept_one() -> None:
    cluster = cluster_with(node("a"), node("b"), volume("free", "1Gi"), kept(on="a"))
    twice = claim("data")
    # b cannot reach the kept one, which nobody has taken there: nothing for either.
    assert taken(cluster, twice, twice) == {"a": ["kept", "free"], "b": ["-", "-"]}


# -- changes ----------------------------------------------------------------------------------------------------------


def test_nothing_can_match_where_there_are_no_candidates_of_the_class_or_for_the_claim() -> None:
    cluster = cluster_with(node("a"), volume("taken", claim="default/other"), volume("slow", class_name="slow"))
    static = cluster.index(StaticVolumes)
    assert not static.may_match([claim("data"), claim("more")])
    assert not static.may_match([])
    assert static.may_match([claim("data"), claim("slow", class_name="slow")])
    assert static.may_match([claim("other")])
    cluster.storage.remove(volume("slow", class_name="slow"))
    assert not static.may_match([claim("slow", class_name="slow")])


def test_an_assumed_volume_is_gone_for_others_until_it_is_restored() -> None:
    first, second = claim("first"), claim("second")
    free = volume("pv")
    cluster = cluster_with(node("a"), free)
    assert taken(cluster, second) == {"a": ["pv"]}
    cluster.storage.volumes.assume(owned(free, first))
    assert taken(cluster, second) == {"a": ["-"]}
    assert taken(cluster, first) == {"a": ["pv"]}
    cluster.storage.volumes.restore("pv")
    assert taken(cluster, second) == {"a": ["pv"]}


def test_a_match_keeps_its_volumes_while_they_are_being_assumed() -> None:
    cluster = cluster_with(node("a"), *(volume(f"pv-{number}", f"{number}Gi") for number in (1, 2, 3)))
    claims = [claim(name) for name in ("x", "y", "z")]
    match = cluster.index(StaticVolumes).match(claims, cluster.all_rows)
    for each, number in zip(match.claims, match.chosen[:, 0].tolist(), strict=True):
        cluster.storage.volumes.assume(owned(match.volumes[number], each))
        assert taken(cluster, each)["a"] == [match.volumes[number].name]
    assert [match.volumes[number].name for number in match.chosen[:, 0].tolist()] == ["pv-1", "pv-2", "pv-3"]
    assert taken(cluster, claim("late")) == {"a": ["-"]}


def test_nodes_that_come_change_and_go_move_what_local_volumes_reach() -> None:
    cluster = cluster_with(node("a"), volume("for-a", on="a"), volume("for-b", on="b"), volume("x", "9Gi", on="c"))
    assert taken(cluster, claim("data")) == {"a": ["for-a"]}
    cluster.put_node(node("b"))
    assert taken(cluster, claim("data")) == {"a": ["for-a"], "b": ["for-b"]}
    cluster.remove_node("a")
    cluster.put_node(node("c"))  # in the row that a had
    assert taken(cluster, claim("data")) == {"c": ["x"], "b": ["for-b"]}
    cluster.put_node(node("c", labels={"kubernetes.io/hostname": "a"}))
    assert taken(cluster, claim("data")) == {"c": ["for-a"], "b": ["for-b"]}


def test_a_reach_that_nobody_has_any_more_gives_its_number_to_another() -> None:
    cluster = cluster_with(node("a"), node("b"), volume("pv", on="a"))
    assert taken(cluster, claim("data")) == {"a": ["pv"], "b": ["-"]}
    cluster.storage.put(volume("pv", on="b"))
    assert taken(cluster, claim("data")) == {"a": ["-"], "b": ["pv"]}
    cluster.storage.put(volume("pv"))
    assert taken(cluster, claim("data")) == {"a": ["pv"], "b": ["pv"]}
    cluster.storage.put(volume("pv", on="a"))
    assert taken(cluster, claim("data")) == {"a": ["pv"], "b": ["-"]}


def test_many_nodes_that_change_at_once_are_judged_anew() -> None:
    cluster = cluster_with(node("a"), node("b"), volume("pv", affinity=in_zone("z1")))
    assert taken(cluster, claim("data")) == {"a": ["-"], "b": ["-"]}
    for name in "abc":
        cluster.put_node(node(name, labels={ZONE: "z1"}))
    assert taken(cluster, claim("data")) == {"a": ["pv"], "b": ["pv"], "c": ["pv"]}
    for name in "ab":
        cluster.put_node(node(name, labels={ZONE: "z2"}))
    assert taken(cluster, claim("data")) == {"a": ["-"], "b": ["-"], "c": ["pv"]}


@pytest.mark.parametrize("at_once", [1, 30])
def test_volumes_that_come_and_go_for_years_leave_no_reaches_behind(at_once: int) -> None:
    reaches = Reaches(cluster_with(node("a")))
    free = FreeVolumes(reaches, Interner())
    for year in range(20):
        made = [volume(f"pv-{year}-{number}", on=f"node-{year}-{number}") for number in range(at_once)]
        for each in made:
            free.put(each)
        for each in made:
            free.remove(each.name)
    # One more than are there at a time, for EVERYWHERE.
    assert len(reaches) == at_once + 1


def test_a_hundred_volumes_at_once_are_sorted_like_one_after_the_other() -> None:
    cluster = cluster_with(node("a"))
    assert taken(cluster, claim("data")) == {"a": ["-"]}
    for number in range(100):
        cluster.storage.put(volume(f"pv-{number:02}", f"{100 - number}Gi", on="a"))
    # Sizes 100Gi down to 1Gi: pv-90 has 10Gi.
    assert taken(cluster, claim("data", "10Gi")) == {"a": ["pv-90"]}
    for number in range(90, 100):
        cluster.storage.remove(volume(f"pv-{number}"))
    assert taken(cluster, claim("data", "1Gi"), claim("more", "12Gi")) == {"a": ["pv-89", "pv-88"]}
