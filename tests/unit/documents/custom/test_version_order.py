"""The order of versions, and what clients of a deprecated one are told."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.custom.definition_rules import deprecation_warning, version_preference


def test_versions_are_in_upstreams_order() -> None:
    versions = ["foo10", "v1alpha2", "v11beta2", "v2", "v10beta3", "v1", "v12alpha1", "v3beta1", "foo1", "v10", "v01"]
    assert sorted(versions, key=version_preference) == [
        "v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v1alpha2", "foo1", "foo10", "v01",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ([], "example.com/v1beta1 Box is deprecated"),
        ([{"name": "v1alpha1", "served": True}], "example.com/v1beta1 Box is deprecated"),
        ([{"name": "v1", "served": False}], "example.com/v1beta1 Box is deprecated"),
        ([{"name": "v1", "served": True, "deprecated": True}], "example.com/v1beta1 Box is deprecated"),
        (
            [{"name": "v1", "served": True}, {"name": "v2", "served": True}],
            "example.com/v1beta1 Box is deprecated; use example.com/v2 Box",
        ),
    ],
)
def test_a_better_version_is_named_where_there_is_one(others: list[dict[str, Any]], told: str) -> None:
    old = {"name": "v1beta1", "served": True, "deprecated": True}
    spec = {"group": "example.com", "names": {"kind": "Box"}, "versions": [old, *others]}
    assert deprecation_warning(spec, old) == told


def test_the_definitions_own_words_come_first() -> None:
    old = {"name": "v1beta1", "served": True, "deprecated": True, "deprecationWarning": "ask us"}
    assert deprecation_warning({"group": "g", "names": {"kind": "Box"}, "versions": [old]}, old) == "ask us"
    assert deprecation_warning({}, {"name": "v1"}) is None
