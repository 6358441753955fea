"""DefaultPreemption takes the node and the victims that kube-scheduler 1.36.4 took, and says what it said.

The YAML file holds clusters and what a real scheduler made of them, each with the sum done by hand; here the same goes
through the default profile.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.virtual_clock import VirtualClock
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import DRIVER, claim, csi_node, driver, pod_with, storage_class, volume

Doc = dict[str, Any]
MEASURED = yaml.load((Path(__file__).parent / "preemption_1_36.yaml").read_text(), yaml.CSafeLoader)
ONE_POD, MISSING = "only", "nowhere"


def pod_in(doc: Doc, **fixed: Any) -> Pod:
    spec: Doc = {}
    if "apart" in doc:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": doc["apart"]}}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if doc.get("never"):
        spec["preemptionPolicy"] = "Never"
    status: Doc = {}
    if "start" in doc:
        status["startTime"] = f"2026-01-01T00:{doc['start']:02}:00Z"
    if doc.get("terminating") == "preempted":
        status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    if "nominated" in doc:
        status["nominatedNodeName"] = doc["nominated"]
    return pod_with(
        doc.get("name", "asking"),
        *doc.get("claims", ()),
        **{
            "cpu": str(doc["cpu"]) if "cpu" in doc else None,
            "priority": doc.get("priority", 0),
            "labels": {"app": doc["app"]} if "app" in doc else {},
            "host_ports": [doc["port"]] if "port" in doc else [],
            "on": doc.get("at", ""),
            "spec": spec,
            "status": status,
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"} if doc.get("terminating") else {},
            **fixed,
        },
    )


def asking_in(case: Doc) -> Pod:
    return pod_in(case["pod"], priority=100)


def objects_in(case: Doc) -> Iterator[Object]:
    """All but the pod to place."""
    yield storage_class()
    yield driver()
    for name, doc in case["nodes"].items():
        options = {"cpu": str(doc.get("cpu", 4)), "pods": doc.get("pods", 110)}
        yield node(name, unschedulable=doc.get("unschedulable", False), **options)
        yield csi_node(name, {DRIVER: doc.get("volumes")})
    wanted = {each for doc in (case["pod"], *case["pods"]) for each in doc.get("claims", ())}
    for each in sorted(wanted - {MISSING}):
        modes = ["ReadWriteOncePod" if each == ONE_POD else "ReadWriteOnce"]
        yield claim(each, volume=f"pv-{each}", modes=modes)
        yield volume(f"pv-{each}", claim=f"default/{each}", modes=modes)
    for number, doc in enumerate(case.get("budgets", ())):
        yield convert(PodDisruptionBudget, budget_doc(f"budget-{number}", doc))
    for doc in case["pods"]:
        yield pod_in(doc)
    for doc in case.get("expected", ()):
        yield pod_in(doc, on="", status={"nominatedNodeName": doc["at"]})


def budget_doc(name: str, doc: Doc) -> Doc:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": doc["app"]}} if "app" in doc else {}},
        "status": {
            "disruptionsAllowed": doc["allowed"],
            "disruptedPods": dict.fromkeys(doc.get("disrupted", ()), "2026-01-01T00:00:00Z"),
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        },
    }


@pytest.mark.parametrize("case", MEASURED["cases"], ids=lambda case: case["case"])
def test_as_measured(case: Doc) -> None:
    engine = Engine(default_configuration().profiles, clock=VirtualClock(), rng=random.Random(1))
    engine.load(objects_in(case))
    (profile,) = engine.profiles.values()
    asking = PodInfo(asking_in(case))
    decision = profile.decider.decide(engine.cluster, asking, engine.queue.nominator.ahead_of(asking))
    assert decision.diagnosis is not None
    (plugin,) = profile.post_filter
    result = plugin.post_filter(decision.cycle, decision.diagnosis)
    if "message" in case:
        assert result.status.message == f"preemption: {case['message']}"
    else:
        assert result.status.message == ""
        victims = sorted(each.pod.name for each in result.victims)
        assert (result.nominated_node, victims) == (case["node"], case["victims"])
