"""Counts of the pods that are there: exact after every event, and nothing left when the last pod is gone."""

from __future__ import annotations

import gc
import random
import weakref
from collections import Counter

import numpy as np
import pytest

from support.held_memory import entries_held
from tonnage.objects.requirements import Requirement
from tonnage.objects.selectors import LabelSelector
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.pod_matching import (
    NOBODY,
    MatcherIndex,
    Namespaces,
    PodMatcher,
    Requirements,
    requirements_of,
)
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.spread import residents
from tonnage.scheduling.spread.residents import CarriedTerms, Residents, RowCounts
from tonnage.testing.builders import cluster_of, info, node, pod

WEB = PodMatcher(frozenset(("default",)), requirements_of(LabelSelector.parse("app=web")))
ANYBODY = PodMatcher(frozenset(), Requirements(), Requirements())


def as_dict(counts: RowCounts) -> dict[int, int]:
    return dict(zip(counts.rows.tolist(), counts.counts.tolist(), strict=True))


def on_nodes(cluster: Cluster, counts: RowCounts) -> dict[str, int]:
    return {cluster.name(row): count for row, count in as_dict(counts).items()}


# -- RowCounts --------------------------------------------------------------------------------------------------------


def test_row_counts_equal_a_counter_through_thousands_of_changes() -> None:
    rng, counted, expected = random.Random(7), RowCounts(), Counter[int]()
    for _ in range(3000):
        row = rng.randrange(40)
        change = rng.choice((1, -1)) if expected[row] else 1
        counted.add(row, change)
        expected[row] += change
        assert as_dict(counted) == {row: count for row, count in expected.items() if count}


def test_a_sum_of_parts_can_be_counted_on() -> None:
    first, second = RowCounts(), RowCounts()
    first.add(3, 1)
    first.add(9, 2)
    second.add(9, 1)
    together = RowCounts.sum_of([first, second])
    together.add(3, -1)
    together.add(200, 1)
    # 3: 1 - 1.  9: 2 + 1.  The parts stay what they are.
    assert as_dict(together) == {9: 3, 200: 1}
    assert as_dict(first) == {3: 1, 9: 2}


def test_many_rows_are_summed_up_alike() -> None:
    parts = [RowCounts(), RowCounts()]
    for row in range(100):
        parts[0].add(row, 1)
        parts[row % 2].add(row, 2)
    together = RowCounts.sum_of(parts)
    together.add(99, -3)
    # Even rows: 1 + 2 in one part.  Odd rows: 1 in one and 2 in the other.  Row 99 is left out again.
    assert as_dict(together) == dict.fromkeys(range(99), 3)


def test_an_empty_sum_can_grow() -> None:
    nothing = RowCounts.sum_of([])
    for row in range(10):
        nothing.add(row, 1)
    assert as_dict(nothing) == dict.fromkeys(range(10), 1)


def test_counts_are_summed_up_by_label_value() -> None:
    counted = RowCounts()
    for row, count in ((0, 1), (1, 2), (3, 4)):
        counted.add(row, count)
    ids = np.array([1, 2, 2, 1], dtype=np.int32)
    # Value 1: rows 0 and 3.  Value 2: row 1.  Without row 3, value 1 has 1.
    assert counted.by_value(ids, 4).tolist() == [0, 5, 2, 0]
    assert counted.by_value(ids, 4, counted.rows != 3).tolist() == [0, 1, 2, 0]


# -- matchers ---------------------------------------------------------------------------------------------------------


def test_a_matcher_settles_on_the_namespaces_it_selects() -> None:
    team = Requirement(key="team", operator="In", values=("x",))
    matcher = PodMatcher(frozenset(("listed",)), WEB.requirements, Requirements((team,)))
    known = Namespaces()
    known.update({"red": {"team": "x"}, "blue": {"team": "y"}})
    settled = matcher.settled(known)
    assert settled == PodMatcher(frozenset(("listed", "red")), WEB.requirements)


def test_an_index_offers_only_those_that_ask_for_a_label_of_the_pod() -> None:
    index: MatcherIndex[str] = MatcherIndex()
    either = PodMatcher(frozenset(("default",)), requirements_of(LabelSelector.parse("app in (web,db)")))
    without = PodMatcher(frozenset(("default",)), requirements_of(LabelSelector.parse("!canary")))
    elsewhere = PodMatcher(frozenset(("red",)), WEB.requirements)
    filed = {"web": WEB, "either": either, "without": without, "elsewhere": elsewhere, "anybody": ANYBODY}
    for name, matcher in filed.items():
        index.add(matcher, name)
    assert sorted(index.candidates("default", {"app": "web", "tier": "x"})) == ["anybody", "either", "web", "without"]
    assert sorted(index.candidates("default", {"app": "cache"})) == ["anybody", "without"]
    assert sorted(index.candidates("red", {"app": "web"})) == ["anybody", "elsewhere"]
    for name, matcher in filed.items():
        index.remove(matcher, name)
    assert list(index.candidates("default", {"app": "web"})) == []


# -- Residents --------------------------------------------------------------------------------------------------------


def test_pods_that_were_there_before_anybody_asked_are_counted() -> None:
    cluster = cluster_of(
        node("a"), node("b"), pod("p", on="a", labels={"app": "web"}), pod("q", on="b", labels={"app": "db"})
    )
    assert on_nodes(cluster, cluster.index(Residents).counted((WEB,), terminating=True)) == {"a": 1}


def test_a_count_follows_every_event() -> None:
    cluster = cluster_of(node("a"), node("b"))

    def web() -> dict[str, int]:
        return on_nodes(cluster, cluster.index(Residents).counted((WEB,), terminating=True))

    assert web() == {}
    place(cluster, pod("p", on="a", labels={"app": "web"}))
    place(cluster, pod("q", on="b", labels={"app": "web", "tier": "x"}))
    assert web() == {"a": 1, "b": 1}
    place(cluster, pod("p", on="a", labels={"app": "db"}))  # relabelled
    assert web() == {"b": 1}
    cluster.remove_node("b")  # its pod is an orphan now, and invisible
    assert web() == {}
    cluster.put_node(node("c"))  # takes the row of b, not its pods
    assert web() == {}
    cluster.put_node(node("b"))
    assert web() == {"b": 1}
    place(cluster, pod("q", on="b", labels={"app": "web"}, status={"phase": "Succeeded"}))
    assert web() == {}


def test_a_pod_put_there_for_a_question_leaves_no_trace() -> None:
    cluster = cluster_of(node("a"), pod("p", on="a", labels={"app": "web"}))
    counted = cluster.index(Residents).counted((WEB,), terminating=False)
    guest = info("guest", labels={"app": "web"})
    cluster.put_pod(guest, "a")
    assert on_nodes(cluster, counted) == {"a": 2}
    cluster.remove_pod(guest.uid)
    assert on_nodes(cluster, counted) == {"a": 1}


def test_terminating_pods_count_only_when_asked_for() -> None:
    leaving = pod("p", on="a", labels={"app": "web"}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    cluster = cluster_of(node("a"), leaving)
    counts = cluster.index(Residents)
    assert on_nodes(cluster, counts.counted((WEB,), terminating=False)) == {}
    assert on_nodes(cluster, counts.counted((WEB,), terminating=True)) == {"a": 1}


def test_several_matchers_count_the_pods_that_all_of_them_mean() -> None:
    front = PodMatcher(frozenset(("default",)), requirements_of(LabelSelector.parse("tier=front")))
    cluster = cluster_of(
        node("a"),
        node("b"),
        pod("p", on="a", labels={"app": "web"}),
        pod("q", on="b", labels={"app": "web", "tier": "front"}),
    )
    assert on_nodes(cluster, cluster.index(Residents).counted((WEB, front), terminating=True)) == {"b": 1}
    assert on_nodes(cluster, cluster.index(Residents).counted((NOBODY, WEB), terminating=True)) == {}


def test_the_least_recently_asked_selector_is_forgotten_and_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residents, "MAX_TALLIES", 2)
    cluster = cluster_of(node("a"), pod("p", on="a", labels={"app": "web"}))
    counts = cluster.index(Residents)
    first = counts.counted((WEB,), terminating=True)
    counts.counted((ANYBODY,), terminating=True)
    assert counts.counted((WEB,), terminating=True) is first
    counts.counted((ANYBODY,), terminating=False)
    counts.counted((WEB,), terminating=False)  # of three others, `first` was asked for the longest ago
    place(cluster, pod("q", on="a", labels={"app": "web"}))
    assert as_dict(first) == {0: 1}  # nobody keeps it any more
    assert as_dict(counts.counted((WEB,), terminating=True)) == {0: 2}


def test_random_histories_equal_a_recount() -> None:
    rng = random.Random(11)
    cluster = add_indexes(Cluster())
    for n in range(8):
        cluster.put_node(node(f"n{n}"))
    texts = ("app=web", "app=db", "app in (web,db)", "app notin (web)", "tier", "!tier", "app=web,tier=x", "")
    spaces = (("default",), ("red",), ("default", "red"))
    matchers = [
        PodMatcher(frozenset(space), requirements_of(LabelSelector.parse(text))) for text in texts for space in spaces
    ]
    for _ in range(600):
        name, namespace = f"p{rng.randrange(30)}", rng.choice(("default", "red"))
        if rng.random() < 0.3:
            cluster.remove_pod(f"{namespace}-{name}")
        else:
            labels = {
                key: rng.choice(values)
                for key, values in (("app", ("web", "db")), ("tier", "xy"))
                if rng.random() < 0.7
            }
            place(cluster, pod(name, namespace=namespace, labels=labels, on=f"n{rng.randrange(9)}"))
        matcher = rng.choice(matchers)
        recount = Counter(
            row
            for row, there in enumerate(cluster.residents)
            for each in there.values()
            if matcher.matches(each.namespace, each.labels, {})
        )
        assert as_dict(cluster.index(Residents).counted((matcher,), terminating=True)) == dict(recount)


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    cluster = cluster_of(node("a"))
    counts, terms = cluster.index(Residents), cluster.index(CarriedTerms)
    counts.counted((WEB,), terminating=True)
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term, term]}}}
    held = []
    for _ in range(100):  # the cluster's log of changes is full after some forty
        for number in range(5):
            place(cluster, pod(f"p{number}", on="a", labels={"app": "web", "n": str(number)}, spec=spec))
        counts.counted((WEB,), terminating=True)
        for number in range(5):
            cluster.remove_pod(f"default-p{number}")
        held.append(entries_held(counts, terms))
    assert max(held[80:]) <= max(held[:80]) and terms.is_empty


def test_a_cluster_has_one_observer_of_each_kind_and_takes_it_along() -> None:
    cluster = cluster_of(node("a"))
    assert cluster.index(Residents) is cluster.index(Residents)
    assert cluster.index(CarriedTerms) is cluster.index(CarriedTerms)
    gone = weakref.ref(cluster.index(Residents))
    del cluster
    gc.collect()
    assert gone() is None


def test_terms_written_alike_are_one_with_a_count_by_row() -> None:
    cluster = cluster_of(node("a"), node("b"))
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    for name, at in (("p", "a"), ("q", "a"), ("r", "b")):
        place(cluster, pod(name, on=at, spec=spec))
    place(cluster, pod("s", on="a", namespace="red", spec=spec))  # means pods of another namespace
    (carried,) = cluster.index(CarriedTerms).apart.concerning(PodInfo(pod("x", labels={"app": "web"})), {})
    assert on_nodes(cluster, carried.where) == {"a": 2, "b": 1}
    assert not cluster.index(CarriedTerms).apart.concerning(PodInfo(pod("x", labels={"app": "db"})), {})
