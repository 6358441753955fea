"""A node for which the columns have to grow is judged and scored as one that was there from the beginning."""

from __future__ import annotations

import random

import pytest

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.decision.scheduling_cycle import Decider, Pipeline
from tonnage.scheduling.plugins.node_resources import NodeResourcesFit
from tonnage.testing.builders import info, node

COLUMNS = 64
"""So many nodes a cluster has room for at first."""


@pytest.mark.parametrize("late", ["64", "200m"])
def test_it_is_scored_where_all_others_are_nearly_full(late: str):
    """Their totals are near 0, which is what new rows of a column hold unless somebody says otherwise."""
    cluster, fit = Cluster(), NodeResourcesFit()
    pipeline = Pipeline(filter=(fit,), score=((fit, 1),))
    decider = Decider(pipeline, random.Random(1))
    for number in range(COLUMNS):
        cluster.put_node(node(f"n{number}", cpu="1", memory="200Mi"))
        cluster.put_pod(info(f"resident-{number}", cpu="800m", memory="180Mi"), f"n{number}")
    for number in range(3 * COLUMNS):
        if number == 2 * COLUMNS - 20:
            cluster.put_node(node("late", cpu=late, memory="200Mi"))
        asked = info(f"p{number}", cpu="50m", memory="1Mi")
        lots = decider._rng.getstate()
        found = decider.decide(cluster, asked).node
        anew = Decider(pipeline, random.Random())
        anew._rng.setstate(lots)
        assert found == anew.decide(cluster, asked).node
        if found:
            cluster.put_pod(asked, found)
    assert cluster.residents[cluster.row_of["late"]]


def test_it_is_among_those_that_are_drawn_from_where_nothing_is_scored():
    cluster, fit = Cluster(), NodeResourcesFit()
    decider = Decider(Pipeline(filter=(fit,)), random.Random(1))
    for number in range(COLUMNS):
        cluster.put_node(node(f"n{number}"))
    decider.decide(cluster, info("first"))
    cluster.put_node(node("late"))
    found = {decider.decide(cluster, info(f"p{number}")).node for number in range(600)}
    assert found == {"late", *(f"n{number}" for number in range(COLUMNS))}
