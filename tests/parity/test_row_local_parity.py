"""The plugins that look at one node at a time, judged and scored as kube-scheduler 1.36.4 did.

The YAML file holds clusters and what a real scheduler made of them, each with its sum done by hand; here the same goes
the whole way from a KubeSchedulerConfiguration to a decision. What is ours on purpose stands at the end, in words.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.decision.explain import explanation_of
from tonnage.scheduling.engine.profiles import Assembled, assemble
from tonnage.testing.builders import cluster_of, info, node, pod

Doc = dict[str, Any]
MEASURED = yaml.load((Path(__file__).parent / "row_local_1_36.yaml").read_text(), yaml.CSafeLoader)
OURS = ("TaintToleration", "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality")


def profile_named(name: str) -> Assembled:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": MEASURED["profiles"][name]}],
    }
    configuration = parse(json.dumps(document), source=f"profile {name}")
    return assemble(configuration.profiles[0], random.Random(1))


def container(name: str, doc: Doc) -> Doc:
    asked = {"cpu": doc.get("cpu"), "memory": doc.get("memory"), **doc.get("more", {})}
    requests = {key: value for key, value in asked.items() if value is not None}
    return {"name": name, "image": "app:1", "resources": {"requests": requests}, "ports": doc.get("ports", [])}


def pod_options(doc: Doc) -> Doc:
    listed = doc.get("containers", [doc])
    containers = [container("main" if i == 0 else f"main-{i}", each) for i, each in enumerate(listed)]
    return {
        "on": doc.get("at", ""),
        "spec": {"containers": containers, **doc.get("spec", {})},
        "status": doc.get("status", {}),
    }


def cluster_in(case: Doc) -> Cluster:
    nodes = [node(name, **{"pods": "10", **options}) for name, options in case["nodes"].items()]
    return cluster_of(*nodes, *(pod(f"there-{i}", **pod_options(doc)) for i, doc in enumerate(case["pods"])))


@pytest.mark.parametrize("case", MEASURED["cases"], ids=lambda case: case["case"])
def test_as_measured(case: Doc) -> None:
    cluster = cluster_in(case)
    assembled = profile_named(case.get("profile", "default"))
    asking = info("asking", **pod_options(case["pod"]))
    answer = explanation_of(assembled.decider, assembled.decider.decide(cluster, asking, diagnose=True))
    assert answer.schedulable is ("message" not in case)
    if "message" in case:
        assert answer.message == case["message"]
        return
    feasible = [each for each in answer.nodes if each.feasible]
    if "node" in case:
        assert [each.name for each in feasible] == [case["node"]]
        return
    scores = {
        plugin: {each.name: each.scores[plugin] for each in feasible}
        for plugin in OURS
        if any(each.scores.get(plugin) for each in feasible)
    }
    assert scores == case["scores"]
    totals = {each.name: sum(told[each.name] for told in case["scores"].values()) for each in feasible}
    assert {each.name: each.total for each in feasible} == totals
    assert totals[answer.node] == max(totals.values())


def test_each_node_counts_its_own_size_of_an_image() -> None:
    """Ours on purpose. Upstream keeps one size an image, that of the node it saw it on first (addNodeImageStates in its
    cache); the same image may be larger on another node, when it is for another architecture.
    """
    megabyte = 1024 * 1024
    cluster = cluster_of(
        node("small", images={"app:1": 500 * megabyte}), node("large", images={"app:1": 900 * megabyte}), node("none")
    )
    decider = profile_named("default").decider
    answer = explanation_of(decider, decider.decide(cluster, info("asking", cpu="1"), diagnose=True))
    # On two of three nodes: 500*2/3 = 333 and 900*2/3 = 600; 100*(333 - 23)/977 = 31 and 100*(600 - 23)/977 = 59.
    assert {each.name: each.scores["ImageLocality"] for each in answer.nodes} == {"small": 31, "large": 59, "none": 0}
