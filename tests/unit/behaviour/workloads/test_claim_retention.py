"""Who owns the claims of a StatefulSet, by its retention policy. Cases follow TestIsClaimOwnerUpToDate."""

from __future__ import annotations

import pytest

from support.workload_builders import member, owned_by, stateful_set
from tonnage.behaviour.workloads.stateful_set_plan import (
    has_unexpected_controller,
    is_stale,
    owners_at_creation,
    owners_to_set,
)
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.meta import OwnerReference
from tonnage.testing.builders import Doc

RETAIN, DELETE = "Retain", "Delete"
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "uid-other"}


def claim(*owners: Doc) -> PersistentVolumeClaim:
    metadata = {"name": "data-db-0", "namespace": "default", "ownerReferences": list(owners)}
    return convert(PersistentVolumeClaim, {"kind": "PersistentVolumeClaim", "metadata": metadata})


def kinds(owners: tuple[OwnerReference, ...] | None) -> list[str] | None:
    return None if owners is None else [owner.kind for owner in owners]


@pytest.mark.parametrize(
    ("retention", "wanted", "scaled_away"),
    [
        ((RETAIN, RETAIN), [], []),
        ((RETAIN, DELETE), ["StatefulSet"], ["StatefulSet"]),
        ((DELETE, RETAIN), [], ["Pod"]),
        ((DELETE, DELETE), ["StatefulSet"], ["Pod"]),
    ],
)
def test_owners_follow_from_the_policy_and_from_whether_the_pod_is_wanted(
    retention: tuple[str, str], wanted: list[str], scaled_away: list[str]
) -> None:
    for replicas, expected in ((1, wanted), (0, scaled_away)):
        owner = stateful_set("db", replicas, claims=["data"], retention=retention)
        pod = member(owner, 0)
        refs = {"StatefulSet": owned_by(owner), "Pod": owned_by(pod)}
        right = claim(*(refs[kind] for kind in expected))
        assert owners_to_set(right, owner, pod) is None
        for have in ([], ["StatefulSet"], ["Pod"], ["StatefulSet", "Pod"]):
            if have != expected:
                wrong = claim(OTHER, *(refs[kind] for kind in have))
                assert kinds(owners_to_set(wrong, owner, pod)) == ["ConfigMap", *expected]


def test_an_owner_that_is_no_controller_is_made_one() -> None:
    owner = stateful_set("db", 1, retention=(RETAIN, DELETE))
    half = {**owned_by(owner), "controller": False}
    owners = owners_to_set(claim(half), owner, member(owner, 0))
    assert owners is not None
    assert [each.controller for each in owners] == [True]


def test_a_claim_of_an_earlier_life_is_left_alone() -> None:
    owner = stateful_set("db", 1, retention=(DELETE, DELETE))
    before = {**owned_by(owner), "uid": "uid-before"}
    assert owners_to_set(claim(before), owner, member(owner, 0)) is None


def test_a_claim_that_another_controller_manages_is_left_to_it() -> None:
    owner = stateful_set("db", 1, retention=(RETAIN, DELETE))
    pod = member(owner, 0)
    managed = {**OTHER, "controller": True}
    assert has_unexpected_controller(claim(managed), owner, pod)
    assert owners_to_set(claim(managed), owner, pod) is None
    both = claim(managed, {**owned_by(owner), "controller": False})
    assert kinds(owners_to_set(both, owner, pod)) == ["ConfigMap"]
    assert not has_unexpected_controller(claim(managed), stateful_set("db", 1), pod)


def test_a_claim_that_goes_with_a_pod_that_is_gone_holds_its_successor_back() -> None:
    owner = stateful_set("db", 1, retention=(DELETE, RETAIN))
    leaving = claim(owned_by(member(owner, 0)))
    assert is_stale(leaving, owner, "db-0")
    assert not is_stale(leaving, owner, "db-1")
    assert not is_stale(leaving, stateful_set("db", 1), "db-0")


def test_a_new_claim_belongs_to_the_set_when_it_is_to_go_with_it() -> None:
    assert owners_at_creation(stateful_set("db", 1)) == ()
    assert [each.kind for each in owners_at_creation(stateful_set("db", retention=(DELETE, DELETE)))] == ["StatefulSet"]
