"""What a plugin surely refuses in plain numbers is just what its filter refuses."""

from __future__ import annotations

import random

import pytest

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.framework import Cycle, FilterPlugin, Judgement, PreFilterPlugin
from tonnage.scheduling.plugins.node_affinity import NodeAffinity
from tonnage.scheduling.plugins.node_resources_fit import NodeResourcesFit
from tonnage.testing.builders import cluster_of, info, node, pod


def some_cluster(rng: random.Random) -> Cluster:
    nodes = [
        node(f"n{i}", cpu=rng.choice(("1", "2", "4")), pods=rng.choice((1, 3)), labels={"disk": rng.choice("ab")})
        for i in range(6)
    ]
    there = [pod(f"there-{i}", cpu=rng.choice(("500m", "1")), on=f"n{rng.randrange(6)}") for i in range(6)]
    return cluster_of(*nodes, *there)


def some_pod(rng: random.Random) -> PodInfo:
    terms = [
        {"matchExpressions": [{"key": "disk", "operator": rng.choice(("In", "NotIn")), "values": ["a"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{rng.randrange(6)}"]}]},
        {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["no number"]}]},
    ]
    chosen = rng.sample(terms, rng.randint(1, 2))
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": chosen}}
    spec = {"affinity": {"nodeAffinity": required}} if rng.random() < 0.6 else {}
    selector = {"disk": rng.choice("abc")} if rng.random() < 0.4 else {}
    return info("new", cpu=rng.choice(("100m", "1", "3")), node_selector=selector, spec=spec)


@pytest.mark.parametrize("plugin", [NodeResourcesFit(), NodeAffinity()], ids=lambda plugin: plugin.name)
@pytest.mark.parametrize("seed", range(40))
def test_surely_refused_is_refused(plugin: FilterPlugin, seed: int) -> None:
    rng = random.Random(seed)
    cluster, asking = some_cluster(rng), some_pod(rng)
    for row in range(cluster.size):
        cycle = Cycle(asking, cluster)
        if isinstance(plugin, PreFilterPlugin):
            plugin.pre_filter(cycle)
        judged = plugin.filter(cycle, slice(row, row + 1))
        refused = isinstance(judged, Judgement) and bool(judged.bits.any())
        assert plugin.surely_refuses(asking, cluster, row) is refused
