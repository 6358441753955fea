"""PodDisruptionBudgets as preemption sees them: whom they mean, and who finds nothing left of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tonnage.objects.codec import convert
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.preemption.ranked_residents import DisruptionBudgets, RankedResidents
from tonnage.scheduling.preemption.victims import violating
from tonnage.testing.builders import cluster_of, info, node, pod

WEB = {"matchLabels": {"app": "web"}}


def budget(
    name: str,
    selector: dict[str, Any] | None,
    allowed: int = 0,
    *,
    namespace: str = "default",
    gone: tuple[str, ...] = (),
) -> PodDisruptionBudget:
    return convert(
        PodDisruptionBudget,
        {
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {} if selector is None else {"selector": selector},
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": dict.fromkeys(gone, "2026-01-01T00:00:00Z"),
            },
        },
    )


def budgets(*known: PodDisruptionBudget) -> DisruptionBudgets:
    made = DisruptionBudgets(Cluster())
    for each in known:
        made.put(each)
    return made


def webs(count: int) -> list[PodInfo]:
    return [info(f"web-{number}", labels={"app": "web"}) for number in range(count)]


def test_the_pods_that_come_after_as_many_as_a_budget_allows_violate_it():
    # 2 allowed: 2 - 1, 2 - 2, and then -1.
    assert budgets(budget("b", WEB, allowed=2)).violated_by(webs(3)) == [False, False, True]


def test_a_pod_counts_in_every_budget_that_means_it():
    tight, wide = (
        budget("tight", WEB, 1),
        budget("wide", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, 2),
    )
    others = [info("db", labels={"app": "db"}), *webs(2)]
    # db: wide 1. web-0: tight 0, wide 0. web-1: tight -1, wide -1.
    assert budgets(tight, wide).violated_by(others) == [False, False, True]


def test_a_pod_that_is_counted_as_disrupted_already_uses_nothing_up():
    known = budgets(budget("b", WEB, allowed=1, gone=("web-0",)))
    assert known.violated_by(webs(3)) == [False, False, True]


@pytest.mark.parametrize(
    "selector",
    [None, {}, {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}],
    ids=["absent", "empty", "senseless"],
)
def test_such_a_selector_means_nobody(selector: dict[str, Any] | None):
    assert budgets(budget("b", selector)).violated_by(webs(1)) == [False]


def test_pods_of_other_namespaces_and_without_labels_are_nobodys_affair():
    known = budgets(budget("b", {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}))
    assert known.violated_by([info("bare"), info("else", namespace="other", labels={"tier": "1"})]) == [False, False]
    assert known.violated_by([info("meant", labels={"tier": "1"})]) == [True]


def test_a_budget_that_changes_or_goes_is_read_anew():
    known = budgets(budget("b", WEB))
    known.put(budget("b", WEB, allowed=1))
    assert known.violated_by(webs(1)) == [False]
    known.put(budget("b", {"matchLabels": {"app": "db"}}))
    assert known.violated_by([*webs(1), info("db", labels={"app": "db"})]) == [False, True]
    known.remove(budget("b", None))
    known.remove(budget("b", None))
    assert known.violated_by([info("db", labels={"app": "db"})]) == [False]
    assert len(known) == 0


def test_rows_use_budgets_up_each_for_itself():
    cluster = cluster_of(
        node("a"),
        node("b"),
        *(pod(f"a{number}", on="a", labels={"app": "web"}, priority=3 - number) for number in range(3)),
        *(pod(f"b{number}", on="b", labels={"app": "web"}) for number in range(2)),
        pod("other", on="b", labels={"app": "db"}, priority=9),
    )
    cluster.index(DisruptionBudgets).put(budget("b", WEB, allowed=1, gone=("b0",)))
    ranked = cluster.index(RankedResidents)
    pods = ranked.ranked(np.array([0, 1]))
    going = ranked.priorities[pods] < 10
    # a: a0 uses the one up, a1 and a2 violate. b: other is not meant, b0 was counted before, b1 uses the one up.
    assert violating(cluster, pods, going).T.tolist() == [
        [False, True, True],
        [False, False, False],
    ]


def test_kinds_of_pods_that_are_gone_are_forgotten():
    cluster = cluster_of(node("a"))
    cluster.index(DisruptionBudgets).put(budget("b", {"matchLabels": {"n": "9"}}))
    ranked = cluster.index(RankedResidents)
    for number in range(10):
        cluster.put_pod(info("p", labels={"n": str(number)}), "a")
        pods = ranked.ranked(np.array([0]))
        assert violating(cluster, pods, ranked.priorities[pods] < 1).tolist() == [[number == 9]]
        assert len(ranked.known_kinds) == 1
