"""One pod with thousands of everything: a decision about it takes time in proportion, not with the square.

An object of 1.5 MiB has room for 5,000 spread constraints, 8,000 affinity terms or 4,000 disks. A decision runs on the
scheduler's loop; one that takes longer than the lease's renewDeadline ends the scheduler, for all pods. What is
measured is the processor's time of this thread, for a pod and for one four times as large.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import requests_of
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.preemption.preemption import MAX_TERMS_ASKED, ORDINARY_TERMS
from tonnage.scheduling.spread.residents import MAX_TERMS
from tonnage.testing.builders import node, pod
from tonnage.whatif.replay import Replay

Doc = dict[str, Any]
FEW, MANY = 1_000, 4_000
QUADRATIC = 9.0
"""Four times as much may take four times as long, on a busy machine somewhat more; the square would be sixteen."""
SLACK_S = 1.0
"""Below this nothing is judged: garbage may be collected meanwhile. The squares took 2 to 13 seconds."""


def spread(count: int, unsatisfiable: str) -> Doc:
    each = {"maxSkew": 1, "whenUnsatisfiable": unsatisfiable, "labelSelector": {"matchLabels": {"a": "b"}}}
    return {"spec": {"topologySpreadConstraints": [{**each, "topologyKey": f"key{at}"} for at in range(count)]}}


def init_containers(count: int) -> Doc:
    def one(at: int) -> Doc:
        kind = {"restartPolicy": "Always"} if at % 2 else {}
        return {"name": f"c{at}", "image": "i", "resources": {"requests": {"cpu": "1m", f"x.y/z{at}": "1"}}, **kind}

    return {"spec": {"initContainers": [one(at) for at in range(count)]}}


def volumes(count: int, source: Callable[[int], Doc]) -> Doc:
    return {"spec": {"volumes": [{"name": f"v{at}", **source(at)} for at in range(count)]}}


def term(key: str, at: int) -> Doc:
    selector = {"matchExpressions": [{"key": f"a{at}", "operator": "DoesNotExist"}]}
    return {"topologyKey": key, "labelSelector": selector}


def repelling(count: int, key: str = "kubernetes.io/hostname") -> Doc:
    terms = [term(key, at) for at in range(count)]
    return {"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}}


PODS: dict[str, Callable[[int], Doc]] = {
    "soft spread constraints": lambda count: spread(count * MAX_TERMS // MANY, "ScheduleAnyway"),
    "hard spread constraints": lambda count: spread(count * MAX_TERMS // MANY, "DoNotSchedule"),
    "init containers with a resource each": init_containers,
    "disks": lambda count: volumes(count, lambda at: {"gcePersistentDisk": {"pdName": f"d{at}"}}),
    "images": lambda count: volumes(count, lambda at: {"rbd": {"monitors": ["m", f"m{at}"], "image": f"i{at}"}}),
    "affinity terms": lambda count: repelling(count * MAX_TERMS // MANY, "zone"),
}


def decided_s(asked: Doc) -> float:
    """How long two equal pods take, beside some that are there."""
    there = [pod(f"r{at}", on=f"n{at % 5}", labels={"a": "b"}) for at in range(10)]
    nodes = [node(f"n{at}", labels={"zone": f"z{at % 3}"}) for at in range(5)]
    replay = Replay([*nodes, *there, pod("x", **asked), pod("y", **asked)], default_configuration().profiles)
    started_at = time.thread_time()
    for name in ("x", "y"):
        replay.schedule(f"default/{name}")
    return time.thread_time() - started_at


@pytest.mark.parametrize("name", PODS)
def test_a_decision_takes_time_in_proportion_to_the_pod(name: str) -> None:
    few_s, many_s = decided_s(PODS[name](FEW)), decided_s(PODS[name](MANY))
    assert many_s < max(QUADRATIC * few_s, SLACK_S), (few_s, many_s)


@pytest.mark.parametrize("asked", [spread(5_000, "ScheduleAnyway"), spread(5_000, "DoNotSchedule"), repelling(5_000)])
def test_thousands_of_terms_are_not_judged_and_the_pod_is_told_so(asked: Doc) -> None:
    there = [pod(f"r{at}", on="n", labels={"a": f"b{at}"}) for at in range(100)]
    replay = Replay([node("n"), *there, pod("x", **asked)], default_configuration().profiles)
    started_at = time.thread_time()
    answer = replay.schedule("default/x")
    assert time.thread_time() - started_at < 2.0  # the hard constraints took 57 s
    assert f"of at most {MAX_TERMS} that are judged" in answer.message


def test_init_containers_and_sidecars_ask_for_what_they_asked_for_before() -> None:
    def container(name: str, cpu: str, *, is_sidecar: bool = False) -> Doc:
        kind = {"restartPolicy": "Always"} if is_sidecar else {}
        return {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu, f"x.y/{name}": "1"}}, **kind}

    several = [container("a", "3"), container("b", "2", is_sidecar=True), container("c", "4"), container("d", "1")]
    asked = requests_of(pod("x", cpu="1", spec={"initContainers": several}))
    assert asked["cpu"] == 6_000  # c beside the sidecar b
    assert {name for name in asked if name.startswith("x.y/")} == {"x.y/a", "x.y/b", "x.y/c", "x.y/d"}


@pytest.mark.parametrize("count", [MAX_TERMS, 5_000])
def test_pods_that_wait_with_many_terms_do_not_make_every_event_dear(count: int) -> None:
    """Whenever a pod is bound, those that wait are asked whether that helps them."""
    waiting = [pod(f"w{at}", **asked) for at in range(3) for asked in [repelling(count, "zone")]]
    waiting += [pod(f"s{at}", **spread(count, "DoNotSchedule")) for at in range(3)]
    there = pod("r", on="n")
    replay = Replay([node("n", labels={"zone": "z"}), there, *waiting], default_configuration().profiles)
    for each in waiting:
        assert replay.attempt(each.key).placement is None
    started_at = time.thread_time()
    for at in range(20):
        replay.engine.add(pod(f"b{at}", on="n"))
    assert time.thread_time() - started_at < 1.0  # ten took five seconds, and a busy cluster its scheduler


# -- preemption -------------------------------------------------------------------------------------------------------


def preempted(newcomer: Pod, nodes: int, lesser: int) -> tuple[str, float]:
    """What preemption says of a pod that everybody on the nodes is in the way of, and how long that took."""
    there = [pod(f"r{at}", on=f"n{at % nodes}", labels={"b": f"c{at}"}) for at in range(nodes * lesser)]
    places = [node(f"n{at}", labels={"zone": "z"}) for at in range(nodes)]
    replay = Replay([*places, *there, newcomer], default_configuration().profiles)
    started_at = time.thread_time()
    outcome = replay.engine.post_filter(replay.attempt(newcomer.key))
    assert outcome is not None and not outcome.result.status.is_success
    return " ".join(outcome.result.status.reasons), time.thread_time() - started_at


def test_the_search_for_victims_of_a_pod_with_hundreds_of_terms_is_bounded_and_says_so() -> None:
    told, took_s = preempted(pod("x", priority=9, **repelling(MAX_TERMS, "zone")), nodes=60, lesser=8)
    assert took_s < 5.0
    assert f"were not tried, for the pod has {MAX_TERMS} affinity terms and spread constraints" in told
    assert f"a search asks {MAX_TERMS_ASKED}" in told


def test_ordinary_pods_are_tried_everywhere() -> None:
    told, _ = preempted(pod("x", priority=9, **repelling(ORDINARY_TERMS, "zone")), nodes=3, lesser=2)
    assert "not tried" not in told
