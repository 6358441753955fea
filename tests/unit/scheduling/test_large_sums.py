"""Sums near the end of 64 bits stop there: a node that is more than full is not taken for an empty one."""

from __future__ import annotations

import numpy as np
import pytest

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import MOST
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from tonnage.testing.builders import node, pod
from tonnage.testing.plugin_calls import filter_results, node_scores

HALF = 1 << 62


def asking(name: str, memory: int) -> Pod:
    return pod(name, cpu="1m", memory=str(memory))


def cluster_with(*pods: Pod, nodes: int = 1, memory: str = str(MOST)) -> Cluster:
    """The pods are on n0, whoever put them there."""
    cluster = Cluster()
    for place in range(nodes):
        cluster.put_node(node(f"n{place}", memory=memory))
    for each in pods:
        cluster.put_pod(PodInfo(each), "n0")
    return cluster


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_third_pod_of_half_of_64_bits_does_not_fit(nodes: int) -> None:
    # 2^62 + 2^62 is one more than 64 bits hold; it used to wrap around, and the node looked empty.
    cluster = cluster_with(asking("a", HALF), asking("b", HALF), nodes=nodes)
    found = filter_results(NodeResourcesFit(), cluster, asking("c", HALF))
    assert found["n0"] == ("Insufficient memory",)


def test_a_sum_that_stopped_is_counted_anew_when_a_pod_goes() -> None:
    pods = [asking(name, MOST) for name in "abc"]
    cluster = cluster_with(*pods)
    memory = cluster.resource_id("memory")
    assert cluster.requested[memory, 0] == cluster.scored_usage[1, 0] == MOST
    for each in pods[:2]:
        cluster.remove_pod(PodInfo(each).uid)
        assert cluster.requested[memory, 0] == cluster.scored_usage[1, 0] == MOST
    cluster.remove_pod(PodInfo(pods[2]).uid)
    assert cluster.requested[memory, 0] == cluster.scored_usage[1, 0] == 0


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated"])
def test_scores_of_many_rows_are_those_of_one_row(strategy: str) -> None:
    in_use = asking("a", HALF)
    newcomer = asking("b", HALF - 5)
    plugin = NodeResourcesFit(strategy=strategy)
    many = node_scores(plugin, cluster_with(in_use, nodes=3), newcomer)
    # memory: 100 * (2^62 + 2^62 - 5) // (2^63 - 1) = 99 used, 0 free; cpu: 2m of 4000m = 0 used, 99 free.
    assert many["n0"] == {"LeastAllocated": 49, "MostAllocated": 49}[strategy]
    assert many["n1"] == many["n2"]
    if strategy == "LeastAllocated":
        assert node_scores(plugin, cluster_with(in_use), newcomer)["n0"] == many["n0"]


def test_balance_with_a_sum_beyond_64_bits_is_that_of_a_full_node() -> None:
    cluster = cluster_with(asking("a", MOST), nodes=2)
    found = node_scores(NodeResourcesBalancedAllocation(), cluster, asking("b", MOST))
    alone = node_scores(NodeResourcesBalancedAllocation(), cluster_with(asking("a", MOST)), asking("b", MOST))
    assert found["n0"] == alone["n0"]


def test_ordinary_amounts_never_take_the_slow_way() -> None:
    cluster = cluster_with(asking("a", 1 << 40), memory="4Ti")
    assert not cluster.counts_large
    assert cluster.requested.dtype == np.int64
