"""What a deletion that says nothing of dependents does with them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from support.virtual_clock import VirtualClock
from tonnage.documents.creation import strategies
from tonnage.documents.deletion import judge_deletion
from tonnage.gates import Gates

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def finalizers(group: str, plural: str, propagation: str = "", **metadata: Any) -> list[str]:
    """The finalizers that hold the object after a deletion; none when it is gone."""
    strategy = strategies(Gates(), VirtualClock())[group, plural]
    doc = {"metadata": {"name": "x", "namespace": "default", **metadata}, "spec": {}}
    judged = judge_deletion(strategy, doc, asked_s=None, propagation=propagation, now=NOW)
    return [] if judged.marked is None else judged.marked["metadata"].get("finalizers", [])


def test_a_replication_controller_leaves_its_pods_unless_it_is_told_otherwise() -> None:
    assert finalizers("", "replicationcontrollers") == ["orphan"]
    assert finalizers("", "replicationcontrollers", "Background") == []
    assert finalizers("", "replicationcontrollers", "Foreground") == ["foregroundDeletion"]
    assert finalizers("", "replicationcontrollers", finalizers=["foregroundDeletion"]) == ["foregroundDeletion"]


@pytest.mark.parametrize("plural", ["replicasets", "deployments", "daemonsets", "statefulsets"])
def test_the_others_take_theirs_with_them(plural: str) -> None:
    assert finalizers("apps", plural) == []
