"""How large each ReplicaSet of a Deployment should be. Cases are upstream's, named as there."""

from __future__ import annotations

import pytest

from support.workload_builders import deployment, replica_set, template
from tonnage.behaviour.workloads.rollout import (
    fenceposts,
    is_scaling,
    max_unavailable,
    new_size,
    replicas_annotations,
    same_template,
    scaled,
    shrink_old,
    split,
)

NEW_AGE_S, OLD_AGE_S, OLDER_AGE_S = 0.0, 3600.0, 7200.0


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        ("0%", "0%", 0, (0, 1)),
        ("39%", "39%", 10, (4, 3)),  # 3.9 rounded up, 3.9 rounded down
        (0, "39%", 10, (0, 3)),
        ("39%", 0, 10, (4, 0)),
        (0, 0, 10, (0, 1)),
        (0, "1%", 2, (0, 1)),  # 0.02 rounded down is 0, and both zero would be a standstill
    ],
)
def test_resolve_fenceposts(surge: int | str, unavailable: int | str, replicas: int, expected: tuple[int, int]) -> None:
    assert fenceposts(surge, unavailable, replicas) == expected


@pytest.mark.parametrize("limits", [("oops", "39%"), ("55%", "urg")])
def test_a_limit_that_is_no_percentage_is_refused(limits: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="string is not a percentage"):
        fenceposts(*limits, 10)


def test_no_more_can_be_unavailable_than_there_are() -> None:
    assert max_unavailable(deployment(replicas=2, unavailable=10)) == 2
    assert max_unavailable(deployment(replicas=0, unavailable=10)) == 0
    assert max_unavailable(deployment(replicas=5, recreate=True)) == 0


@pytest.mark.parametrize(
    ("replicas", "surge", "old", "new", "expected"),
    [
        (10, 0, 10, 0, 0),  # Should not scale up.
        (10, 2, 10, 0, 2),
        (10, 2, 5, 0, 7),
        (10, 2, 10, 2, 2),
        (10, 2, 2, 11, 10),  # Should scale down.
    ],
)
def test_reconcile_new_replica_set(replicas: int, surge: int, old: int, new: int, expected: int) -> None:
    wanted = deployment(replicas=replicas, surge=surge, unavailable=0)
    assert new_size(wanted, replica_set("foo-new", new), [replica_set("foo-old", old)]) == expected


def test_the_new_set_does_not_grow_into_pods_that_are_still_there() -> None:
    wanted = deployment(replicas=3, surge=1, unavailable=0)
    shrunk = replica_set("old", 2, status={"replicas": 3})
    # 3 + 1 allowed; the old set asks for 2 and has 3, the new one has 1: 4 - 3 - 1 = 0 more.
    assert new_size(wanted, replica_set("new", 1), [shrunk]) == 1
    assert new_size(wanted, replica_set("new", 1), [replica_set("old", 2)]) == 2


def test_nothing_grows_while_a_set_has_not_seen_its_own_size() -> None:
    wanted = deployment(replicas=3, surge=1)
    assert new_size(wanted, None, [replica_set("old", 1, status={"observedGeneration": 0})]) == 0
    assert new_size(wanted, None, []) == 3


@pytest.mark.parametrize(
    ("unavailable", "old", "new", "ready_old", "ready_new", "expected"),
    [
        (0, 10, 0, 10, 0, 9),  # no surge and nothing unavailable is a standstill: one may go
        (2, 10, 0, 10, 0, 8),
        (2, 10, 0, 8, 0, 8),  # expect unhealthy replicas from old replica sets been cleaned up
        (2, 10, 0, 9, 0, 8),  # 1 unhealthy replica cleaned up, and 1 ready pod scaled down
        (2, 8, 2, 8, 0, None),  # the unavailable pods from the newRS would not make us scale down old RSs further
    ],
)
def test_reconcile_old_replica_sets(
    unavailable: int, old: int, new: int, ready_old: int, ready_new: int, expected: int | None
) -> None:
    wanted = deployment(replicas=10, surge=0, unavailable=unavailable)
    sizes = shrink_old(
        wanted, replica_set("foo-new", new, available=ready_new), [replica_set("foo-old", old, available=ready_old)]
    )
    assert sizes == ({} if expected is None else {"foo-old": expected})


def test_a_status_older_than_the_size_does_not_let_pods_go_twice() -> None:
    wanted = deployment(replicas=10, surge=3, unavailable=0)
    new = replica_set("new", 3)
    # Fresh: 10 + 3 available, 10 needed: 3 may go. Then 7 are asked for, and the status still says 10 are available:
    # 7 + 3 - 10 = 0 may go.
    assert shrink_old(wanted, new, [replica_set("old", 10)]) == {"old": 7}
    assert shrink_old(wanted, new, [replica_set("old", 7, available=10)]) == {}


def test_the_oldest_sets_shrink_first() -> None:
    wanted = deployment(replicas=4, surge=2, unavailable=0)
    olds = [replica_set("v2", 2, age_s=OLD_AGE_S), replica_set("v1", 2, age_s=OLDER_AGE_S)]
    # 2 + 2 + 2 available, 4 needed: 2 may go, and v1 is the older.
    assert shrink_old(wanted, replica_set("v3", 2), olds) == {"v1": 0}


@pytest.mark.parametrize(
    ("name", "replicas", "was", "new", "olds", "expected"),
    [
        ("normal scaling event: 10 -> 12", 12, 10, 10, (), {"v9": 12}),
        ("normal scaling event: 10 -> 5", 5, 10, 10, (), {"v9": 5}),
        ("proportional scaling: 5 -> 10", 10, 5, 2, (3,), {"v9": 4, "v2": 6}),
        ("proportional scaling: 5 -> 3", 3, 5, 2, (3,), {"v9": 1, "v2": 2}),
        ("proportional scaling: 9 -> 4", 4, 9, 8, (1,), {"v9": 4, "v2": 0}),
        ("proportional scaling: 7 -> 10", 10, 7, 2, (3, 2), {"v9": 3, "v2": 4, "v1": 3}),
        ("proportional scaling: 13 -> 8", 8, 13, 2, (8, 3), {"v9": 1, "v2": 5, "v1": 2}),
        ("leftover distribution: 3 -> 4", 4, 3, 1, (1, 1), {"v9": 2, "v2": 1, "v1": 1}),
        ("leftover distribution: 3 -> 2", 2, 3, 1, (1, 1), {"v9": 1, "v2": 1, "v1": 0}),
        ("proportional scaling (no new rs): 4 -> 5", 5, 4, None, (2, 2), {"v2": 3, "v1": 2}),
        ("proportional scaling: 6 -> 0", 0, 6, 3, (2, 1), {"v9": 0, "v2": 0, "v1": 0}),
        ("proportional scaling: 0 -> 6", 6, 6, 0, (0, 0), {"v9": 6}),
        ("change both size and template", 14, 10, None, (7, 3), {"v2": 10, "v1": 4}),
    ],
)
def test_scale(
    name: str, replicas: int, was: int, new: int | None, olds: tuple[int, ...], expected: dict[str, int]
) -> None:
    noted = replicas_annotations(deployment(replicas=was, surge=0))
    ages = {"v2": OLD_AGE_S, "v1": OLDER_AGE_S}
    sets = [replica_set(f"v{2 - n}", size, age_s=ages[f"v{2 - n}"], annotations=noted) for n, size in enumerate(olds)]
    newest = None if new is None else replica_set("v9", new, age_s=NEW_AGE_S, annotations=noted)
    assert scaled(deployment(replicas=replicas, surge=0), newest, sets) == expected, name


def test_a_set_that_is_alone_gets_the_whole_size_and_no_surge() -> None:
    assert scaled(deployment(replicas=8, surge=2), replica_set("v2", 4), [replica_set("v1", 0)]) == {"v2": 8}


def test_scale_deployment_with_surge_pods() -> None:
    noted = replicas_annotations(deployment(replicas=10, surge=2))
    new, old = replica_set("v2", 6, annotations=noted), replica_set("v1", 6, age_s=OLD_AGE_S, annotations=noted)
    # 22 allowed, 12 there: each has 6 of 12 and gets 6 of 22's twelfths, 11.
    assert scaled(deployment(replicas=20, surge=2), new, [old]) == {"v2": 11, "v1": 11}


def test_scaling_to_zero_leaves_no_surge_behind() -> None:
    noted = replicas_annotations(deployment(replicas=5, surge=2))
    new, old = replica_set("v2", 3, annotations=noted), replica_set("v1", 2, age_s=OLD_AGE_S, annotations=noted)
    assert scaled(deployment(replicas=0, surge=2), new, [old]) == {"v2": 0, "v1": 0}


def test_scale_change_both_surge_and_size() -> None:
    noted = replicas_annotations(deployment(replicas=10, surge=3))
    new, old = replica_set("v2", 5, annotations=noted), replica_set("v1", 8, age_s=OLD_AGE_S, annotations=noted)
    # 56 allowed, 13 there: 5 * 56 / 13 = 21.5 rounds to 22, and 8 * 56 / 13 = 34.46 to 34.
    assert scaled(deployment(replicas=50, surge=6), new, [old]) == {"v2": 22, "v1": 34}


def test_scale_saturated_but_broken_new_replica_set_does_not_affect_old_pods() -> None:
    wanted = deployment(replicas=2, surge=1, unavailable=1)
    noted = replicas_annotations(wanted)
    broken = replica_set("v2", 2, available=0, annotations=noted)
    old = replica_set("v1", 1, age_s=OLD_AGE_S, annotations=noted)
    assert scaled(wanted, broken, [old]) == {"v2": 2, "v1": 1}
    assert scaled(wanted, replica_set("v2", 2, annotations=noted), [old]) == {"v1": 0}


def test_a_new_size_is_noticed_by_what_sets_with_pods_were_told() -> None:
    told = replicas_annotations(deployment(replicas=3))
    assert not is_scaling(deployment(replicas=3), [replica_set("a", 3, annotations=told)])
    assert is_scaling(deployment(replicas=4), [replica_set("a", 3, annotations=told)])
    assert not is_scaling(deployment(replicas=4), [replica_set("a", 0, annotations=told)])
    assert not is_scaling(deployment(replicas=4), [replica_set("a", 3)])


def test_the_hash_label_does_not_make_another_template() -> None:
    assert same_template(template(), template(labels={"app": "web", "pod-template-hash": "abc"}))
    assert not same_template(template("app:1"), template("app:2"))


def test_of_two_sets_with_the_template_the_older_is_the_new_one() -> None:
    sets = [replica_set("b", image="app:2"), replica_set("c", age_s=10.0), replica_set("a", age_s=20.0)]
    new, olds = split(deployment(), sets)
    assert new is sets[2]
    assert [each.name for each in olds] == ["c", "b"]
