"""Pods nominated to rows are counted in by sums where nobody minds them otherwise: the answers are those of one by one.

The twin puts the pods there and asks every filter of the default profile anew, row by row.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.decision import scheduling_cycle
from tonnage.scheduling.decision.nominated_room import judge_by_sums
from tonnage.scheduling.decision.scheduling_cycle import Decision
from tonnage.scheduling.engine.profiles import assemble
from tonnage.testing.builders import cluster_of, node
from tonnage.testing.storage_builders import capacity, claim, csi_node, driver, pod_with, storage_class

GPU = "example.com/gpu"
NODES = [f"n{number}" for number in range(6)]


def pod(rng: random.Random, name: str, **options: Any) -> PodInfo:
    """A pod that asks for a few things, each of them seldom, so that most pods are minded by nobody."""
    app = rng.choice(("web", "db"))
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    spec: dict[str, Any] = {}
    if rng.random() < 0.15:
        term = {**selector, "topologyKey": "kubernetes.io/hostname"}
        kind = rng.choice(("podAntiAffinity", "podAffinity"))
        spec["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if rng.random() < 0.1:
        rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **selector}
        spec["topologySpreadConstraints"] = [rule]
    return PodInfo(
        pod_with(
            name,
            *rng.sample(("data-0", "data-1", "data-2", "one-pod"), rng.choice((0, 0, 0, 0, 1, 2))),
            cpu=f"{rng.choice((0, 500, 1000, 5000))}m",
            memory="1Gi",
            labels={"app": app},
            priority=rng.choice((0, 10)),
            host_ports=[8080] if rng.random() < 0.2 else [],
            node_selector={"zone": "z1"} if rng.random() < 0.2 else None,
            spec=spec,
            **({GPU: "1"} if rng.random() < 0.2 else {}),
            **options,
        )
    )


def world(rng: random.Random) -> tuple[Cluster, list[tuple[str, PodInfo]]]:
    objects: list[Any] = [storage_class("fast"), driver()]
    objects += [claim(f"data-{number}", "10Gi") for number in range(3)]
    objects += [claim("one-pod", "10Gi", modes=("ReadWriteOncePod",))]
    for name in NODES:
        labels = {"kubernetes.io/hostname": name, "zone": rng.choice(("z1", "z2"))}
        extended: dict[str, Any] = {GPU: "2"} if rng.random() < 0.5 else {}
        objects.append(node(name, cpu=rng.choice(("1", "2", "4")), memory="8Gi", pods=4, labels=labels, **extended))
        objects.append(csi_node(name, {"csi.example": rng.choice((1, 2))}))
        objects.append(capacity("fast", name, rng.choice(("5Gi", "25Gi", "100Gi"))))
    cluster = cluster_of(*objects)
    for number in range(rng.randrange(8)):
        cluster.put_pod(pod(rng, f"old-{number}"), rng.choice(NODES))
    nominated = [(rng.choice(NODES), pod(rng, f"expected-{number}")) for number in range(rng.randrange(9))]
    if nominated and rng.random() < 0.3:  # one that is counted somewhere already
        cluster.put_pod(nominated[0][1], rng.choice(NODES))
    return cluster, nominated


def told(decision: Decision) -> Any:
    found = decision.diagnosis
    if found is None or found.refusal is not None:
        return decision.node, decision.feasible, found and found.refusal
    cluster = decision.cycle.cluster
    return (
        decision.node,
        decision.feasible,
        [(found.rejected_by(row), set(found.reasons_of(row)), row in found.held_by) for row in range(cluster.size)],
        [bool(found.final[row]) for row in range(cluster.size) if found.rejected_by(row)],
        {row: [each.key for each in pods] for row, pods in found.held_by.items()},
    )


def decided(seed: int, *, by_sums: bool) -> list[Any]:
    rng = random.Random(seed)
    cluster, nominated = world(rng)
    decider = assemble(default_configuration().profiles[0], random.Random(1)).decider
    asking = [pod(rng, f"new-{number}") for number in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        if not by_sums:
            patch.setattr(scheduling_cycle, "judge_by_sums", lambda filters, fit, cycle, diagnosis, held: held)
        return [told(decider.decide(cluster, each, nominated, diagnose=True)) for each in asking]


@settings(max_examples=tries(150), deadline=None)
@given(st.integers(0, 1 << 32))
def test_by_sums_rows_get_the_answer_that_they_get_one_by_one(seed: int) -> None:
    assert decided(seed, by_sums=True) == decided(seed, by_sums=False)


def test_most_rows_are_decided_by_sums() -> None:
    """Else the property above would say nothing."""
    held_rows = left_rows = 0

    def counting(filters: Any, fit: Any, cycle: Any, diagnosis: Any, held: Any) -> Any:
        nonlocal held_rows, left_rows
        left = judge_by_sums(filters, fit, cycle, diagnosis, held)
        held_rows, left_rows = held_rows + len(held), left_rows + len(left)
        return left

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduling_cycle, "judge_by_sums", counting)
        for seed in range(40):
            decided(seed, by_sums=True)
    assert held_rows > 100
    assert 0.1 < left_rows / held_rows < 0.7
