"""The columns that preemption adds up are the pods of each row in order of importance, whatever came and went."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import CPU, MEMORY, PODS, PodInfo
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.preemption.ranked_residents import NO_POD, RankedResidents, started_at
from tonnage.scheduling.preemption.victims import importance
from tonnage.testing.builders import info, node

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
GPU = "example.com/gpu"
NODES = ("a", "b", "c")

put = st.tuples(
    st.just("put"),
    st.integers(0, 12),
    st.sampled_from(NODES),
    st.integers(-1, 1),  # priority
    st.integers(-1, 2),  # start, none at all for -1
    st.integers(1, 3),  # what it asks for
)
gone = st.tuples(st.just("gone"), st.integers(0, 12))
lost = st.tuples(st.just("lost"), st.sampled_from(NODES))
back = st.tuples(st.just("back"), st.sampled_from(NODES))
asked = st.tuples(st.just("asked"))


def pod(number: int, priority: int, start: int, amount: int) -> PodInfo:
    at = (FIRST + timedelta(seconds=start)).isoformat().replace("+00:00", "Z")
    return info(
        f"p{number}",
        cpu=f"{amount}",
        memory=f"{amount}Gi",
        priority=priority,
        labels={"amount": str(amount)},
        status={"startTime": at} if start >= 0 else {},
        **{GPU: str(amount)},
    )


def told(ranked: RankedResidents, row: int) -> list[tuple[object, ...]]:
    numbers = ranked.ranked(np.array([row]))[:, 0].tolist()
    assert all(numbers), "without gaps"
    return [
        (
            pod.uid,
            ranked.priorities[number],
            ranked.starts[number],
            *(ranked.amounts(name)[number] for name in (PODS, CPU, MEMORY, GPU)),
        )
        for number in numbers
        if (pod := ranked.pods[number]) is not None
    ]


def expected(cluster: Cluster, row: int) -> list[tuple[object, ...]]:
    there = sorted(cluster.residents[row].values(), key=importance)
    return [
        (each.uid, each.priority, started_at(each), 1, *(each.requests.get(name, 0) for name in (CPU, MEMORY, GPU)))
        for each in there
    ]


@settings(max_examples=tries(120), deadline=None)
@given(st.lists(st.one_of(put, put, put, gone, lost, back, asked), max_size=40))
def test_ranked_residents_are_the_pods_by_importance(steps):
    cluster = Cluster()
    for name in NODES:
        cluster.put_node(node(name))
    cluster.put_pod(pod(0, 0, 0, 1), "a")  # before anybody observes
    ranked = add_indexes(cluster).index(RankedResidents)
    for step in (*steps, ("asked",)):
        match step:
            case ("put", number, where, priority, start, amount):
                cluster.put_pod(pod(number, priority, start, amount), where)
            case ("gone", number):
                cluster.remove_pod(pod(number, 0, 0, 1).uid)
            case ("lost", name):
                cluster.remove_node(name)
            case ("back", name):
                cluster.put_node(node(name))
            case _:
                for row in range(cluster.size):
                    assert told(ranked, row) == expected(cluster, row)
        if step[0] == "asked" or step[-1] == 1:  # in whatever order it is asked
            assert ranked.lowest == min((each.priority for each in cluster.pods()), default=NO_POD)


def test_pods_of_one_kind_have_one_number():
    cluster = Cluster()
    cluster.put_node(node("a"))
    for number in range(100):  # more than the columns begin with
        cluster.put_pod(pod(number, 0, 0, 1 + number % 2), "a")
    ranked = add_indexes(cluster).index(RankedResidents)
    numbers = ranked.ranked(np.array([0]))[:, 0].tolist()
    ranked_pods = [(ranked.kinds.item(number), each) for number in numbers if (each := ranked.pods[number]) is not None]
    assert len(ranked_pods) == 100
    assert len({(kind, each.labels["amount"]) for kind, each in ranked_pods}) == 2
    assert len(ranked.known_kinds) == 2
