"""An engine and a driver on virtual time: pods are tried as the live loop tries them, and attempts are counted.

    play = CapacityPlay(nodes=30, free_gi=100, reservation="Object")
    play.add_pods(400, size_gi=20)
    play.run(60)                       seconds: one tick each
    play.attempts, play.placed

The driver makes the volume of a placed pod in the next second and publishes the node's figure in the one after, which
is what external-provisioner does at best. With `play.driver_is_slow` nothing is made or published until it is False.
"""

from __future__ import annotations

import random
from itertools import count

from support.configurations import storage_configuration
from support.informed_engine import InformedEngine
from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume


class CapacityPlay(InformedEngine):
    """One engine, and what happens around it."""

    def __init__(self, *, nodes: int, free_gi: int, seed: int = 1, **settings: str) -> None:
        super().__init__()
        self.clock = VirtualClock()
        profiles = parse(storage_configuration(**settings), source="a play").profiles
        self.engine = Engine(profiles, clock=self.clock, rng=random.Random(seed))
        self.free_gi = {f"n{number:02}": free_gi for number in range(nodes)}
        self.sizes: dict[str, int] = {}
        self.waiting: dict[str, Pod] = {}
        self.placed: dict[str, str] = {}
        self.attempts = 0
        self._to_make: dict[str, str] = {}
        self._to_publish: set[str] = set()
        self._numbers = count()
        self.driver_is_slow = False
        self._keeps_promises = settings.get("reservation") == "Ledger"
        self.put(storage_class(), driver(), *(node(name, pods=10000) for name in self.free_gi))
        for name in self.free_gi:
            self.publish(name)
        self.engine.open()

    def publish(self, name: str) -> None:
        self.put(capacity("fast", name, f"{self.free_gi[name]}Gi"))

    def add_pods(self, number: int, *, size_gi: int) -> None:
        for _ in range(number):
            name = f"pod-{next(self._numbers):04}"
            self.sizes[name] = size_gi
            self.put(claim(f"{name}-0", f"{size_gi}Gi"))
            self.waiting[name] = pod_with(name, f"{name}-0")
            self.put(self.waiting[name])

    def delete_pod(self, name: str) -> None:
        """A waiting or running pod goes, its volume with it; its node's figure follows."""
        self.waiting.pop(name, None)
        where = self.placed.pop(name, "")
        self.remove(Pod, f"default/{name}")
        self.remove(PersistentVolumeClaim, f"default/{name}-0")
        if where and self._to_make.pop(name, None) is None:
            self.free_gi[where] += self.sizes[name]
            self._to_publish.add(where)

    # -- time ---------------------------------------------------------------------------------------------------------

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.try_all()
            self.clock.advance(1.0)
            self.engine.tick(self.clock.monotonic())
            if not self.driver_is_slow:
                self.drive()
        self.try_all()

    def try_all(self) -> None:
        """Pop until nobody is left, as the live loop does."""
        while (queued := self.engine.pop()) is not None:
            self.attempts += 1
            attempt = self.engine.attempt(queued)
            if attempt.placement is None:
                assert attempt.decision is not None and attempt.decision.diagnosis is not None
                self.engine.requeue(queued, queued.pod, plugins=attempt.decision.diagnosis.rejecting_plugins())
                continue
            name, where = queued.pod.name, attempt.placement.node
            self.engine.done(queued.pod)
            self.put(claim(f"{name}-0", f"{self.sizes[name]}Gi", selected_node=where))
            self.placed[name] = self._to_make[name] = where
            del self.waiting[name]

    def drive(self) -> None:
        """Publish what was made a second ago, then make what was asked for."""
        for name in sorted(self._to_publish):
            self.publish(name)
            self.try_all()  # nodes do not publish at the same instant
        self._to_publish.clear()
        for name, where in list(self._to_make.items()):
            size, made = f"{self.sizes[name]}Gi", f"pv-{name}"
            if self.sizes[name] > self.free_gi[where]:
                assert not self._keeps_promises, f"{where} was promised too much"
                continue  # the driver refuses, and the provisioner asks again
            self.free_gi[where] -= self.sizes[name]
            del self._to_make[name]
            self.put(volume(made, size, on=where, claim=f"default/{name}-0"))
            self.put(claim(f"{name}-0", size, volume=made, selected_node=where))
            before = self.objects[Pod, f"default/{name}"]
            assert isinstance(before, Pod)
            self.put(pod_with(name, f"{name}-0", on=where))
            self._to_publish.add(where)

    def fitting(self) -> list[str]:
        """Waiting pods that would find a node if they were tried now."""
        return [name for name, pod in self.waiting.items() if self.engine.explain(pod).schedulable]
