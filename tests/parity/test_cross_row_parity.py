"""PodTopologySpread and InterPodAffinity, judged and scored as kube-scheduler 1.36.4 did.

The YAML file holds clusters and what a real scheduler made of them, each with the sum done by hand; here the same goes
through a decision with these two plugins. One behaviour is ours on purpose and stands at the end, in words.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node
from tonnage.objects.selectors import LabelSelector
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.scheduling.configuration.plugin_args import InterPodAffinityArgs, PodTopologySpreadArgs
from tonnage.scheduling.decision.scheduling_cycle import Decider, Pipeline
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from tonnage.scheduling.plugins.pod_and_node import NodeAffinity
from tonnage.scheduling.plugins.pod_topology_spread import PodTopologySpread
from tonnage.testing.builders import cluster_of, info, node, pod

Doc = dict[str, Any]
MEASURED = yaml.load((Path(__file__).parent / "cross_row_1_36.yaml").read_text(), yaml.CSafeLoader)
REASONS = {
    "crowded": ("node(s) didn't match pod topology spread constraints", False),
    "unlabelled": ("node(s) didn't match pod topology spread constraints (missing required label)", True),
    "lonely": ("node(s) didn't match pod affinity rules", True),
    "repelled": ("node(s) didn't match pod anti-affinity rules", False),
    "repelling": ("node(s) didn't satisfy existing pods anti-affinity rules", False),
}
"""Reason and whether it is final, by the word the file uses."""


def cluster_in(case: Doc) -> Cluster:
    cluster = add_indexes(Cluster())
    cluster.namespaces.update({"default": {}, **case.get("namespaces", {})})
    for name, labels in case["nodes"].items():
        doc: Doc = {"kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}}
        cluster.put_node(convert(Node, {**doc, "spec": {"taints": case.get("taints", {}).get(name, [])}}))
    for number, there in enumerate(case["pods"]):
        place(cluster, pod(f"there-{number}", **pod_options(there)))
    for name, selector in case.get("services", {}).items():
        cluster.workloads.put("Service", f"default/{name}", selector)
    for name, selector in case.get("owners", {}).items():
        kind, _, owner = name.partition("/")
        cluster.workloads.put(kind, f"default/{owner}", convert(LabelSelector, selector))
    return cluster


def pod_options(doc: Doc) -> Doc:
    options: Doc = {key: value for key, value in doc.items() if key in ("labels", "namespace", "spec")}
    options["on"] = doc.get("at", "")
    if doc.get("terminating"):
        options["metadata"] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    if "owner" in doc:
        kind, _, name = doc["owner"].partition("/")
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}
        options["metadata"] = {"ownerReferences": [owner]}
    return options


def plugins_of(profile: str) -> tuple[PodTopologySpread, InterPodAffinity]:
    args = MEASURED["profiles"][profile]
    spread = convert(PodTopologySpreadArgs, args["PodTopologySpread"]) if "PodTopologySpread" in args else None
    affinity = convert(InterPodAffinityArgs, args["InterPodAffinity"]) if "InterPodAffinity" in args else None
    return PodTopologySpread(spread), InterPodAffinity(affinity)


@pytest.mark.parametrize("case", MEASURED["cases"], ids=lambda case: case["case"])
def test_as_measured(case: Doc) -> None:
    cluster = cluster_in(case)
    spread, affinity = plugins_of(case.get("profile", "default"))
    first = NodeAffinity()
    pipeline = Pipeline(
        pre_filter=(first, spread, affinity),
        filter=(first, spread, affinity),
        pre_score=(spread, affinity),
        score=((spread, 1), (affinity, 1)),
    )
    decider = Decider(pipeline, random.Random(1))
    decision = decider.decide(cluster, info("asking", **pod_options(case["pod"])), diagnose=True)
    diagnosis = decision.diagnosis
    assert diagnosis is not None
    asked = {name: cluster.row_of[name] for name in (case["only"] if "only" in case else case["nodes"])}
    refused = {
        name: (*diagnosis.reasons_of(row), bool(diagnosis.final[row]))
        for name, row in asked.items()
        if diagnosis.rejected_by(row)
    }
    assert refused == {name: REASONS[word] for name, word in case.get("refused", {}).items()}
    assert decision.feasible == len(asked) - len(refused)
    if "scores" in case:
        names = [cluster.name(row) for row in decision.cycle.feasible.tolist()]
        scores = decider.scores(decision.cycle)
        assert {plugin: dict(zip(names, told.tolist(), strict=True)) for plugin, _, told in scores} == case["scores"]


def test_a_selector_of_namespaces_that_only_excludes_means_what_it_says() -> None:
    """Ours on purpose. Upstream asks such a selector of an incoming pod again, without labels, and so it matches every
    namespace (mergeAffinityTermNamespacesIfNotEmpty changes a copy). Measured there: a, b and c are all refused.
    """
    cluster = cluster_of(
        node("a", labels={"zone": "z1"}),
        node("b", labels={"zone": "z2"}),
        node("c", labels={"zone": "z3"}),
        pod("mine", labels={"app": "web"}, on="a"),
        pod("red", labels={"app": "web"}, on="b", namespace="red"),
        pod("blue", labels={"app": "web"}, on="c", namespace="blue"),
    )
    cluster.namespaces.update({"default": {}, "red": {"team": "x"}, "blue": {"team": "y"}})
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]},
    }
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    plugin = InterPodAffinity()
    decider = Decider(Pipeline(pre_filter=(plugin,), filter=(plugin,)), random.Random(1))
    decision = decider.decide(cluster, info("asking", spec={"affinity": required}), diagnose=True)
    # Not of team x: default and blue.
    assert decision.node == "b"
    assert decision.diagnosis is not None
    assert decision.diagnosis.counts() == {"node(s) didn't match pod anti-affinity rules": 2}
