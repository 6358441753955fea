"""The queue under pressure: how many attempts waiting pods take, and what pods that cannot fit cost the others.

    python perf/queue_pressure.py [--only waiting|hopeless|events] [--hopeless 2000] [--kinds 2000]

An engine on virtual time, fed as the live scheduler feeds it: pods are popped until nobody is left, one that fits
nowhere is offered to preemption, put back and told so (its condition comes back as an update), one that is placed gets
its claim selected, made and bound by a driver that publishes the node's new figure a second later. No server takes
part, so that what is measured is deciding and the queue.

    waiting    400 pods on 30 nodes that hold 150 at a time; each ends five seconds after it was placed. An attempt is
               of use if it places the pod, or is the pod's first: somebody has to say why it waits
    hopeless   2,000 pods that fit nowhere, and 200 that fit, that come, end and make room, as they do without the 2,000
    events     changes that help nobody, told while 2,000 pods wait: attempts they cause, and what one of them costs

"alike" pods ask for the same as one another; of "different" ones there are as many kinds as `--kinds` says, and an
event looks at those it may be enough for. Times are CPU time; of the 200, alone and beside the others in turn, three
times over, the middle ratio is told. Budgets (DESIGN section 8): 2 attempts a useful one, and 2 times the CPU
beside 2,000 hopeless pods, be they alike or all different.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from budgets import figure

from tonnage.clock import VirtualClock
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Condition
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import (
    DRIVER,
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.configurations import storage_configuration
from support.informed_engine import InformedEngine

NODES = 30
LASTS_S = 5
TURNS = 3
turns = count()
Pods = list[tuple[Pod, list[PersistentVolumeClaim]]]


class Stage(InformedEngine):
    """One engine, and what the rest of a cluster does around it."""

    def __init__(
        self, reservation: str, *, nodes: int = NODES, free_gi: int = 1000, slots: int = 1000, cpu: str = "64"
    ) -> None:
        super().__init__()
        self.clock = VirtualClock()
        profiles = parse(storage_configuration(reservation=reservation), source="a measurement").profiles
        self.engine = Engine(profiles, clock=self.clock, rng=random.Random(1))
        self.free_gi = {f"n{number:02}": free_gi for number in range(nodes)}
        self.tries: Counter[str] = Counter()
        self.placed: dict[str, str] = {}
        self.ended = 0
        self._ends_at: deque[tuple[float, str]] = deque()
        self._made: dict[str, int] = {}
        self._to_publish: set[str] = set()
        self.put(storage_class(), driver())
        for name in self.free_gi:
            self.put(
                node(name, cpu=cpu, pods=10_000, labels={"topology.kubernetes.io/zone": f"z{int(name[1:]) % 3}"}),
                csi_node(name, {DRIVER: slots}),
            )
            self.publish(name)
        self.engine.open()

    @property
    def attempts(self) -> int:
        return self.tries.total()

    @property
    def useful(self) -> int:
        """Attempts that placed a pod, and the first ones of pods that they did not place."""
        in_vain_at_first = [key for key, tries in self.tries.items() if tries > 1 or key not in self.placed]
        return len(self.placed) + len(in_vain_at_first)

    def publish(self, name: str) -> None:
        self.put(capacity("fast", name, f"{self.free_gi[name]}Gi"))

    def add(self, pods: Pods) -> None:
        for each, claims in pods:
            self.put(*claims, each)

    # -- time ---------------------------------------------------------------------------------------------------------

    def run(self, seconds: int, each_second: Callable[[int], None] = lambda second: None) -> None:
        for second in range(seconds):
            each_second(second)
            self.try_all()
            self.clock.advance(1.0)
            self.engine.tick(self.clock.monotonic())
            self.drive()
        self.try_all()

    def try_all(self) -> None:
        while (queued := self.engine.pop()) is not None:
            self.tries[queued.info.key] += 1
            attempt = self.engine.attempt(queued)
            if attempt.placement is not None:
                self.engine.done(queued.pod)
                self._bind(queued.pod, attempt.placement.node)
                self.engine.binding_finished(attempt.placement)
                continue
            assert attempt.decision is not None and attempt.decision.diagnosis is not None
            diagnosis = attempt.decision.diagnosis
            self.engine.post_filter(attempt)
            self.engine.requeue(queued, queued.pod, plugins=diagnosis.rejecting_plugins())
            if not queued.pod.status.conditions:
                told = Condition(type="PodScheduled", status="False", reason="Unschedulable")
                self.put(_with_status(queued.pod, conditions=(told,)))

    def _bind(self, found: Pod, where: str) -> None:
        """What the provisioner and the binding do, without the time it takes them."""
        for key in found.claim_names():
            before = self.objects[PersistentVolumeClaim, f"{found.namespace}/{key}"]
            gi = before.spec.resources.requests["storage"].value() >> 30
            self.free_gi[where] -= gi
            self._made[before.key] = gi
            self._to_publish.add(where)
            self.put(claim(before.name, f"{gi}Gi", selected_node=where))
            self.put(volume(f"pv-{before.name}", f"{gi}Gi", on=where, claim=before.key))
            self.put(claim(before.name, f"{gi}Gi", volume=f"pv-{before.name}", selected_node=where))
        self.placed[found.key] = where
        self._ends_at.append((self.clock.monotonic() + LASTS_S, found.key))
        self.put(msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, node_name=where)))

    def drive(self) -> None:
        """Nodes publish one after the other, and pods whose time is over end; their claims go with them."""
        for name in sorted(self._to_publish):
            self.publish(name)
            self.try_all()
        self._to_publish.clear()
        while self._ends_at and self._ends_at[0][0] <= self.clock.monotonic():
            key = self._ends_at.popleft()[1]
            before = self.objects[Pod, key]
            self.put(_with_status(before, phase="Succeeded"))
            self.ended += 1
            self.try_all()
            for name in before.claim_names():
                claim_key = f"{before.namespace}/{name}"
                self.remove(PersistentVolumeClaim, claim_key)
                self.remove(type(volume("any")), f"pv-{name}")
                self.free_gi[before.spec.node_name] += self._made.pop(claim_key)
                self._to_publish.add(before.spec.node_name)


def _with_status(before: Pod, **status: Any) -> Pod:
    return msgspec.structs.replace(before, status=msgspec.structs.replace(before.status, **status))


# -- 400 pods on 30 nodes ---------------------------------------------------------------------------------------------


def with_claims(number: int, gi: int, *, alike: bool) -> Pods:
    found: Pods = []
    for i in range(number):
        name, size = f"pod-{i:04}", gi if alike else gi - i % 7
        found.append((pod_with(name, f"{name}-0", cpu="10m"), [claim(f"{name}-0", f"{size}Gi")]))
    return found


def with_cpu(number: int, cpu_m: int, *, alike: bool) -> Pods:
    return [(pod(f"pod-{i:04}", cpu=f"{cpu_m if alike else cpu_m - i % 97}m"), []) for i in range(number)]


WAITING: dict[str, tuple[Callable[[], Stage], Callable[[bool], Pods]]] = {
    # 30 nodes x 100 Gi / 20 Gi, 30 x 5 slots, 30 x 5 CPU: 150 at a time.
    "capacity, Object": (lambda: Stage("Object", free_gi=100), lambda alike: with_claims(400, 20, alike=alike)),
    "capacity, Ledger": (lambda: Stage("Ledger", free_gi=100), lambda alike: with_claims(400, 20, alike=alike)),
    "attach slots": (lambda: Stage("Ledger", slots=5), lambda alike: with_claims(400, 20, alike=alike)),
    "CPU": (lambda: Stage("Ledger", cpu="5"), lambda alike: with_cpu(400, 1000, alike=alike)),
}


def waiting() -> None:
    head = f"{'400 pods on 30 nodes':34} {'ended':>6} {'seconds':>8} {'attempts':>9} {'of use':>7} {'ratio':>6}"
    print(f"{head} {'CPU ms':>8}")
    worst, where = 0.0, ""
    for name, (stage_of, pods_of) in WAITING.items():
        for alike in (True, False):
            stage, pods = stage_of(), pods_of(alike)
            began = time.process_time()
            stage.add(pods)
            seconds = 0
            while stage.ended < len(pods) and seconds < 400:
                stage.run(1)
                seconds += 1
            took_ms = (time.process_time() - began) * 1000
            ratio, told = stage.attempts / stage.useful, f"{name}, {'alike' if alike else 'different'}"
            print(
                f"{told:34} {stage.ended:6,} {seconds:8,} {stage.attempts:9,} {stage.useful:7,} "
                f"{ratio:6.2f} {took_ms:8,.0f}"
            )
            if ratio > worst:
                worst, where = ratio, told
    figure("queue-attempts", worst, where)


# -- 2,000 that cannot fit --------------------------------------------------------------------------------------------


def _affinity(app: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "topology.kubernetes.io/zone"}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _one(kind: str, i: int, *, kinds: int) -> tuple[Pod, list[PersistentVolumeClaim]]:
    name, more = f"hopeless-{i:04}", i % kinds
    match kind:
        case "CPU":
            return pod(name, cpu=f"{60_000 + more}m"), []
        case "capacity of a class":
            return pod_with(name, f"{name}-0"), [claim(f"{name}-0", f"{5000 + more}Gi")]
        case "attach slots":  # of a driver whose nodes have none
            claims = [claim(f"{name}-{j}", "1Gi", class_name="slow") for j in range(1 + more % 7)]
            return pod_with(name, *(each.name for each in claims), cpu=f"{10 + more}m"), claims
        case "a missing claim":
            return pod_with(name, f"{name}-0", cpu=f"{10 + more}m"), []
        case "a missing class":
            gone = claim(f"{name}-0", "1Gi", class_name=f"gone-{more}")
            return pod_with(name, f"{name}-0"), [gone]
        case "affinity":
            return pod(name, spec=_affinity(f"nobody-{more}")), []
        case _:  # labels that few nodes have, and those are full
            return pod(name, cpu=f"{20_000 + more}m", node_selector={"disk": "ssd"}), []


KINDS = (
    "CPU",
    "full nodes of a label",
    "capacity of a class",
    "attach slots",
    "a missing claim",
    "a missing class",
    "affinity",
)


def crowded(pods: Pods) -> Stage:
    """Nodes that are half full, two with a label and full, and pods that were tried and fit nowhere."""
    stage = Stage("Ledger")
    stage.put(storage_class("slow", provisioner="csi.slow"), driver("csi.slow", capacity=False))
    for name in (*stage.free_gi, "f0", "f1"):
        is_full = name not in stage.free_gi
        if is_full:
            stage.put(node(name, labels={"disk": "ssd"}, cpu="64"))
        stage.put(csi_node(name, {DRIVER: 1000, "csi.slow": 0}))
        stage.put(pod(f"there-{name}", cpu="60" if is_full else "30", on=name))
    stage.add(pods)
    stage.run(12)  # until their backoffs are over
    assert not stage.placed, "they were to be hopeless"
    return stage


def churn(stage: Stage, turn: int = 0) -> float:
    """200 pods that fit, 20 a second, half of them with a claim; CPU seconds until the last one has ended."""

    def come(second: int) -> None:
        if second < 10:
            for i in range(20):
                name = f"fits-{turn}-{second}-{i:02}"
                if i % 2:
                    stage.add([(pod(name, cpu="100m", labels={"app": "fits"}), [])])
                else:
                    stage.add([(pod_with(name, f"{name}-0", cpu="100m"), [claim(f"{name}-0", "10Gi")])])

    gc.collect()
    before, began = stage.ended, time.process_time()
    stage.run(10 + LASTS_S + 2, come)
    took_s = time.process_time() - began
    assert stage.ended - before == 200, f"{stage.ended - before} of 200 ended"
    return took_s


def _paces(alone: Stage, stage: Stage) -> list[tuple[float, float, float]]:
    """CPU seconds of 200 pods alone and beside others, and how many times the one is the other, some times over."""
    found = []
    for _ in range(TURNS):
        turn = next(turns)
        alone_s, took_s = churn(alone, turn), churn(stage, turn)
        found.append((alone_s, took_s, took_s / alone_s))
    return found


def hopeless(number: int, kinds: int) -> None:
    title = f"200 that fit beside {number:,}"
    print(f"\n{title:34} {'first':>8} {'attempts':>9} {'CPU ms':>8} {'alone':>8} {'ratio':>6}")
    print(f"{'':34} {'µs each':>8} {'in vain':>9}")
    worst, where, alone = 0.0, "", crowded([])
    for alike in (True, False):
        for kind in KINDS:
            began = time.process_time()
            stage = crowded([_one(kind, i, kinds=1 if alike else kinds) for i in range(number)])
            first_us = (time.process_time() - began) / number * 1e6
            before = stage.attempts
            # One beside the other each time: a machine that has others to serve changes its pace by the second.
            alone_s, took_s, ratio = sorted(_paces(alone, stage), key=lambda pace: pace[2])[TURNS // 2]
            in_vain = stage.attempts - before - 200 * TURNS
            told = f"{kind}, {'alike' if alike else 'different'}"
            print(f"{told:34} {first_us:8,.0f} {in_vain:9,} {took_s * 1000:8,.0f} {alone_s * 1000:8,.0f} {ratio:6.2f}")
            if ratio > worst:
                worst, where = ratio, told
    figure("queue-slowdown", worst, where)


# -- events that help nobody ------------------------------------------------------------------------------------------


def irrelevant(stage: Stage) -> Iterator[tuple[str, Callable[[int], None]]]:
    """A name, and what happens the i-th time."""

    def node_at(i: int) -> Node:
        found = stage.objects[Node, f"n{i % NODES:02}"]
        assert isinstance(found, Node)
        return found

    def heartbeat(i: int) -> None:
        before = node_at(i)
        metadata = msgspec.structs.replace(before.metadata, resource_version=str(i))
        stage.put(msgspec.structs.replace(before, metadata=metadata))

    def annotated(i: int) -> None:
        before = node_at(i)
        metadata = msgspec.structs.replace(before.metadata, annotations={"seen": str(i)})
        stage.put(msgspec.structs.replace(before, metadata=metadata))

    def labelled(i: int) -> None:
        before = node_at(i)
        labels = {**before.metadata.labels, "turn": str(i)}
        metadata = msgspec.structs.replace(before.metadata, labels=labels)
        stage.put(msgspec.structs.replace(before, metadata=metadata))

    def pod_labelled(i: int) -> None:
        before = stage.objects[Pod, f"default/there-n{i % NODES:02}"]
        metadata = msgspec.structs.replace(before.metadata, labels={"turn": str(i)})
        stage.put(msgspec.structs.replace(before, metadata=metadata))

    def pod_running(i: int) -> None:
        before = stage.objects[Pod, f"default/there-n{i % NODES:02}"]
        stage.put(_with_status(before, phase="Running", pod_ip=f"10.0.0.{i % 250}"))

    def small_pod_ends(i: int) -> None:
        stage.put(pod(f"small-{i}", cpu="10m", on=f"n{i % NODES:02}"))
        stage.remove(Pod, f"default/small-{i}")

    yield "node heartbeat", heartbeat
    yield "node annotated", annotated
    yield "node labelled", labelled
    yield "pod's status", pod_running
    yield "pod labelled", pod_labelled
    yield "small pod ends", small_pod_ends
    yield "claim of others", lambda i: stage.put(claim("other", "1Gi", metadata={"labels": {"turn": str(i)}}))
    yield "volume of others", lambda i: stage.put(volume("other", claim="default/other", labels={"turn": f"{i}"}))
    yield "capacity, other class", lambda i: stage.put(capacity("other", f"n{i % NODES:02}", f"{100 + i}Gi"))
    yield "capacity shrinks", lambda i: stage.put(capacity("fast", f"n{i % NODES:02}", f"{900 - i}Gi"))
    yield (
        "CSINode, same limits",
        lambda i: stage.put(csi_node(f"n{i % NODES:02}", {DRIVER: 1000, "csi.slow": 0}, labels={"turn": str(i)})),
    )
    yield "attached", lambda i: stage.put(attachment(f"a-{i}", "other", f"n{i % NODES:02}"))


def events(number: int, kinds: int, times: int = 60) -> None:
    print(f"\n{f'events while {number:,} wait':26} {'alike':>20} {'different':>20}")
    print(f"{'':26} {'attempts':>9} {'µs each':>10} {'attempts':>9} {'µs each':>10}")
    table: dict[str, list[str]] = {}
    for alike in (True, False):
        stage = crowded([_one(KINDS[i % len(KINDS)], i, kinds=1 if alike else kinds) for i in range(number)])
        for name, happen in irrelevant(stage):
            happen(-1)
            stage.run(15)
            gc.collect()
            before, began = stage.attempts, time.process_time()
            for i in range(times):
                happen(i)
                stage.try_all()
            took_us = (time.process_time() - began) / times * 1e6
            table.setdefault(name, []).append(f"{stage.attempts - before:9,} {took_us:10,.0f}")
    for name, cells in table.items():
        print(f"{name:26} {' '.join(cells)}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", choices=("waiting", "hopeless", "events"))
    options.add_argument("--hopeless", type=int, default=2000, help="pods that fit nowhere")
    options.add_argument("--kinds", type=int, default=2000, help="kinds of them, where they are different")
    given = options.parse_args()
    if given.only in (None, "waiting"):
        waiting()
    if given.only in (None, "hopeless"):
        hopeless(given.hopeless, given.kinds)
    if given.only in (None, "events"):
        events(given.hopeless, given.kinds)


if __name__ == "__main__":
    main()
