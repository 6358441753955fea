"""Amounts of resources; the messages are those of a real server asked with pods."""

from __future__ import annotations

import pytest

from tonnage.documents.validation.resources import (
    is_extended,
    is_integer,
    is_native,
    is_overcommit_allowed,
    validate_resource_requirements,
)
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


def told(errors: Errors) -> list[str]:
    return [str(error) for error in errors]


def judged(requirements: Doc, *claim_names: str) -> list[str]:
    return told(validate_resource_requirements(requirements, "r", claim_names=frozenset(claim_names)))


def test_names_fall_into_families() -> None:
    assert is_native("cpu")
    assert is_native("kubernetes.io/thing")
    assert is_extended("example.com/gpu")
    assert not is_extended("requests.example.com/gpu")
    assert is_integer("pods")
    assert is_integer("example.com/gpu")
    assert not is_integer("cpu")
    assert is_overcommit_allowed("cpu")
    assert not is_overcommit_allowed("hugepages-2Mi")


def test_a_plain_container_is_legal() -> None:
    assert judged({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1", "example.com/gpu": "2"}}) == []


def test_a_request_is_within_its_limit() -> None:
    assert judged({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}) == [
        'r.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'
    ]


def test_an_extended_resource_is_requested_as_it_is_limited() -> None:
    assert judged({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}}) == [
        'r.requests: Invalid value: "1": must be equal to example.com/gpu limit of 2'
    ]
    assert judged({"requests": {"example.com/gpu": "1"}}) == [
        "r.limits: Required value: Limit must be set for non overcommitable resources"
    ]


def test_an_extended_resource_is_whole() -> None:
    assert judged({"limits": {"example.com/gpu": "1.5"}}) == [
        'r.limits[example.com/gpu]: Invalid value: "1500m": must be an integer'
    ]


def test_huge_pages_are_whole_and_not_alone() -> None:
    assert judged({"limits": {"hugepages-2Mi": "4Mi"}}) == ["r: Forbidden: HugePages require cpu or memory"]
    # 3Mi is one and a half pages of 2Mi.
    assert judged({"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}) == [
        'r.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi'
    ]
    assert judged({"limits": {"hugepages-x": "1", "cpu": "1"}}) == [
        'r.limits[hugepages-x]: Invalid value: "1": 1 is not positive integer multiple of hugepages-x'
    ]


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        ("gpu", ["must be a standard resource type or fully qualified", "must be a standard resource for containers"]),
        ("storage", ["must be a standard resource for containers"]),
        ("requests.example.com/gpu", ["doesn't follow extended resource name standard"]),
    ],
)
def test_a_container_asks_for_what_containers_may(name: str, sentences: list[str]) -> None:
    assert judged({"limits": {name: "1"}}) == [
        f'r.limits[{name}]: Invalid value: "{name}": {sentence}' for sentence in sentences
    ]


def test_an_amount_is_not_negative() -> None:
    assert judged({"limits": {"cpu": "-1"}}) == [
        'r.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0'
    ]


def test_claims_are_the_pods_and_named_once() -> None:
    empty = "must be one of the names in pod.spec.resourceClaims which is empty"
    assert judged({"claims": [{"name": "a"}, {"name": "a"}, {"name": ""}]}) == [
        f'r.claims[0]: Not found: "a": {empty}',
        'r.claims[1]: Duplicate value: "a"',
        f'r.claims[1]: Not found: "a": {empty}',
        "r.claims[2]: Required value",
    ]
    assert judged({"claims": [{"name": "a", "request": "x"}, {"name": "a", "request": "y"}]}, "a") == []
    # The whole claim overlaps with the request of it that came first.
    assert judged({"claims": [{"name": "a", "request": "x"}, {"name": "a"}]}, "a") == [
        'r.claims[1]: Duplicate value: "a"'
    ]
    assert judged({"claims": [{"name": "c"}]}, "b", "a") == [
        'r.claims[0]: Not found: "c": must be one of the names in pod.spec.resourceClaims: a, b'
    ]
