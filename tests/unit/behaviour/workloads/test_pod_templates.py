"""Pods from templates, names for templates, and when a pod counts."""

from __future__ import annotations

import random

import pytest

from support.workload_builders import NOW, a_pod, owned_by, replica_set, template
from tonnage.behaviour.workloads.pod_states import generated_name, is_active, is_available, next_check_s, scaled_value
from tonnage.behaviour.workloads.templates import pod_from_template, revision_hash, template_hash


def test_a_pod_has_all_of_its_template_and_its_owner() -> None:
    owner = replica_set("web-1")
    asked = template()
    asked["metadata"] |= {"annotations": {"a": "b"}, "finalizers": ["x.dev/keep"], "name": "ignored"}
    asked["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    pod = pod_from_template(asked, owner)
    assert pod["metadata"] == {
        "generateName": "web-1-",
        "namespace": "default",
        "labels": {"app": "web"},
        "annotations": {"a": "b"},
        "finalizers": ["x.dev/keep"],
        "ownerReferences": [owned_by(owner)],
    }
    assert pod["spec"] == asked["spec"]
    assert pod["spec"] is not asked["spec"]


def test_the_prefix_of_a_name_that_is_too_long_has_no_dash() -> None:
    assert pod_from_template(template(), replica_set("r" * 253))["metadata"]["generateName"] == "r" * 253


def test_generated_names_have_five_letters_and_fit_a_label() -> None:
    assert generated_name("web-", random.Random(1)) == generated_name("web-", random.Random(1))
    name = generated_name("w" * 100, random.Random(1))
    assert len(name) == 63
    assert set(name[58:]) <= set("bcdfghjklmnpqrstvwxz2456789")


def test_a_hash_follows_from_the_template_alone() -> None:
    one = {"b": 1, "a": {"d": [1, 2], "c": "x"}}
    assert template_hash(one) == template_hash({"a": {"c": "x", "d": [1, 2]}, "b": 1})
    assert template_hash(one) != template_hash({**one, "b": 2})
    assert template_hash(one) != template_hash(one, 0) != template_hash(one, 1)


def test_a_revision_s_hash_is_upstream_s_letter_by_letter() -> None:
    # FNV-1 (32 bits) of `{"a":1}0` is 811709919; digit d is letter number (48 + d) mod 27 of the alphabet, so that
    # 0 to 5 read "456789" and 6 to 9 "bcdf".
    assert revision_hash({"a": 1}, 0) == "d55c4ff5f"


@pytest.mark.parametrize(
    ("limit", "total", "up", "down"), [(3, 10, 3, 3), ("25%", 10, 3, 2), ("0%", 10, 0, 0), ("100%", 7, 7, 7)]
)
def test_a_share_is_a_count_or_a_percentage(limit: int | str, total: int, up: int, down: int) -> None:
    assert scaled_value(limit, total, round_up=True) == up
    assert scaled_value(limit, total, round_up=False) == down


def test_a_pod_is_available_when_it_was_ready_for_long_enough() -> None:
    assert is_available(a_pod("a", ready=True, ready_for_s=0), 0, NOW)
    assert is_available(a_pod("a", ready=True, ready_for_s=30), 30, NOW)
    assert not is_available(a_pod("a", ready=True, ready_for_s=29), 30, NOW)
    assert not is_available(a_pod("a"), 0, NOW)


def test_the_next_look_is_due_when_the_first_ready_pod_becomes_available() -> None:
    pods = [a_pod("a", ready=True, ready_for_s=10), a_pod("b", ready=True, ready_for_s=25), a_pod("c")]
    assert next_check_s(pods, 30, NOW) == 5.0
    assert next_check_s(pods, 10, NOW) is None
    assert next_check_s(pods, 0, NOW) is None


def test_a_pod_counts_until_it_ended_or_is_deleted() -> None:
    assert is_active(a_pod("a"))
    assert not is_active(a_pod("a", phase="Failed"))
    assert not is_active(a_pod("a", phase="Succeeded"))
    assert not is_active(a_pod("a", going=True))
