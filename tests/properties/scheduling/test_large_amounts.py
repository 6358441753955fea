"""Bytes near the end of 64 bits and beyond: columns say what plain integers say, about room, promises and scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from volume_twins import class_score

from examples_tried import tries
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.plugins.node_resources import NodeResourcesFit
from tonnage.scheduling.volumes.capacity import reading as reading_module
from tonnage.scheduling.volumes.capacity.pools import Room
from tonnage.scheduling.volumes.capacity.reading import CapacityPolicy, Question, Reading
from tonnage.scheduling.volumes.packing.pool_fits import MOST_BYTES, UNBOUNDED, Sizes, descending
from tonnage.scheduling.volumes.packing.pool_grades import Grade, grade_one
from tonnage.scheduling.volumes.volume_scores import added, class_scores
from tonnage.testing.builders import node, pod
from tonnage.testing.plugin_calls import filter_results, node_scores
from tonnage.testing.storage_builders import capacity

modest = settings(max_examples=tries(200), deadline=None)
amounts = (
    st.integers(0, 8).map(lambda each: min(each << 60, MOST_BYTES))
    | st.integers(0, MOST_BYTES)
    | st.sampled_from([0, 1, MOST_BYTES - 1, MOST_BYTES])
)
rooms = st.builds(
    lambda pools, limit, free: Room(descending(pools), limit, free),
    st.lists(amounts, max_size=3) | st.just([UNBOUNDED]),
    amounts | st.just(UNBOUNDED),
    amounts | st.just(UNBOUNDED),
)
groups = st.lists(amounts, min_size=1, max_size=3).map(descending)
promises = st.lists(amounts, max_size=2).map(descending)


@modest
@given(
    st.lists(st.tuples(rooms, promises), min_size=1, max_size=5),
    groups,
    st.sampled_from([Grade.POSSIBLE, Grade.GUARANTEED]),
)
def test_objects_judged_as_columns_are_judged_as_plain_integers(
    said: list[tuple[Room, Sizes]], sizes: Sizes, least: Grade
) -> None:
    objects = [capacity(name=str(number)) for number in range(len(said))]

    def promised(each: CSIStorageCapacity, own: object) -> Sizes:
        return said[int(each.name)][1]

    policy = CapacityPolicy(lambda each: said[int(each.name)][0], lambda each: 0, held=promised, must_be=least)
    reading, alone = Reading(policy, len(objects) + 1), Reading(policy, len(objects) + 1)
    for number, each in enumerate(objects):
        reading.write(number, each)
        alone.write(number, each)
    expected = [grade(room, sizes, others) for room, others in said]
    every = np.arange(len(objects))
    told = [each if each >= least else Grade.NONE for each in expected]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading_module, "_FEW", 0)  # all at once
        fits = reading.says(Question.FITS, sizes, every) > Grade.NONE
        grades = reading.says(Question.GRADE_WITH_ORDER, sizes, every)
    assert fits.tolist() == [each > Grade.NONE for each in told]
    assert grades.tolist() == told
    for number, wanted in enumerate(told):
        assert (alone.says_one(Question.FITS, sizes, number) > Grade.NONE) == (wanted > Grade.NONE)
        assert alone.says_one(Question.GRADE_WITH_ORDER, sizes, number) == wanted


def grade(room: Room, sizes: Sizes, promised: Sizes) -> Grade:
    """By plain integers; `test_packing_properties.py` compares these with every way there is to place the claims."""
    if not room.pools or sizes[0] > room.claim_limit_beside(promised):
        return Grade.NONE
    return grade_one(room.pools, sizes, promised)


@modest
@given(
    st.sampled_from([((0, 100), (100, 0)), ((0, 0), (50, 70), (100, 100))]),
    st.lists(st.tuples(amounts, amounts, amounts, amounts), min_size=1, max_size=4),
)
def test_scores_of_sums_are_those_of_plain_integers(
    shape: tuple[tuple[int, int], ...], rows: list[tuple[int, int, int, int]]
) -> None:
    asked, more, held, besides = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    expected = [class_score(shape, one + two, three + four) for one, two, three, four in rows]
    assert class_scores(shape, added(asked, more), added(held, besides)).tolist() == expected


@modest
@given(
    st.lists(st.tuples(amounts, st.lists(amounts, max_size=4)), min_size=2, max_size=4),
    st.lists(st.integers(0, 3), max_size=3),
    amounts,
)
def test_pods_on_nodes_are_summed_as_plain_integers_are(
    nodes: list[tuple[int, list[int]]], gone: list[int], asked: int
) -> None:
    """Room that is left and scores, with pods that came and went, whoever put them there."""
    cluster = Cluster()
    for place, (offered, _) in enumerate(nodes):
        cluster.put_node(node(f"n{place}", memory=str(offered)))
    left = []
    for place, (_, asking) in enumerate(nodes):
        for number, memory in enumerate(asking):
            cluster.put_pod(PodInfo(pod(f"p{place}-{number}", memory=str(memory))), f"n{place}")
        kept = {number: memory for number, memory in enumerate(asking) if number not in gone}
        for number in set(range(len(asking))) - set(kept):
            cluster.remove_pod(PodInfo(pod(f"p{place}-{number}")).uid)
        left.append(sum(kept.values()))
    newcomer = pod("new", cpu="0", memory=str(asked))
    found = filter_results(NodeResourcesFit(), cluster, newcomer)
    expected = [asked > 0 and offered - total < asked for (offered, _), total in zip(nodes, left, strict=True)]
    assert [bool(found.get(f"n{place}")) for place in range(len(nodes))] == expected
    scores = node_scores(NodeResourcesFit(resources=(("memory", 1),)), cluster, newcomer)
    for place, (offered, _) in enumerate(nodes):
        if f"n{place}" in scores and not expected[place]:
            used = min(left[place], MOST_BYTES) + asked
            assert scores[f"n{place}"] == (100 * max(offered - used, 0) // offered if offered else 0)
