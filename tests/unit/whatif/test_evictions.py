"""Whether a pod may be evicted, with budgets counted anew from what is there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tonnage.objects import codec
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.whatif.simulate.nodes import eviction_refusal

NOW = datetime(2026, 11, 1, tzinfo=UTC)
SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": True}
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def pod(number: int, status: dict[str, Any] | None = None) -> Pod:
    meta = {"name": f"db-{number}", "namespace": "shop", "labels": {"app": "db"}, "ownerReferences": [SET]}
    found = codec.decode_doc({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status or READY})
    assert isinstance(found, Pod)
    return found


def budget(**spec: Any) -> PodDisruptionBudget:
    doc = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "db", "namespace": "shop"}}
    # A status of a dump, long out of date: it is not believed.
    doc |= {"spec": {"selector": {"matchLabels": {"app": "db"}}, **spec}, "status": {"disruptionsAllowed": 7}}
    found = codec.decode_doc(doc)
    assert isinstance(found, PodDisruptionBudget)
    return found


def find(kind: type[Object], key: str) -> Object | None:
    meta = {"name": "db", "namespace": "shop", "uid": "set"}
    doc = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta}
    return codec.decode_doc({**doc, "spec": {"replicas": 3, "selector": {}, "template": {}, "serviceName": ""}})


def refusal(of: Pod, *budgets: PodDisruptionBudget, pods: list[Pod]) -> str:
    return eviction_refusal(of, budgets, lambda: pods, find, NOW)


@pytest.mark.parametrize(
    ("spec", "ready", "refused"),
    [
        ({"maxUnavailable": 1}, 3, ""),
        # 3 are wanted and 1 may be missing, which is missing already.
        ({"maxUnavailable": 1}, 2, "The disruption budget db needs 2 healthy pods and has 2 currently"),
        ({"minAvailable": 3}, 3, "The disruption budget db needs 3 healthy pods and has 3 currently"),
        ({"minAvailable": "50%"}, 3, ""),
        ({"minAvailable": 0}, 1, ""),
    ],
)
def test_a_budget_is_counted_from_the_pods_that_are_ready_now(spec: dict[str, Any], ready: int, refused: str) -> None:
    pods = [pod(number) for number in range(ready)]
    assert refusal(pods[0], budget(**spec), pods=pods) == refused


def test_a_pod_that_has_not_started_may_always_go() -> None:
    waiting = pod(0, {"phase": "Pending"})
    assert refusal(waiting, budget(minAvailable=3), pods=[waiting]) == ""


def test_two_budgets_for_one_pod_let_nobody_go() -> None:
    pods = [pod(0)]
    assert "more than one PodDisruptionBudget" in refusal(pods[0], budget(), budget(), pods=pods)
