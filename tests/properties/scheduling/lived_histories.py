"""Histories of an engine: everything that happens in a cluster, and a scheduler that works meanwhile.

`History` drives an engine as the live scheduler's loop does, beside a cluster that changes (`busy_clusters.py`): pods
are tried, preempt others, are bound; bindings fail, or are accepted and lost; time passes, and the scheduler is started
anew. Everything follows from the seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from busy_clusters import BusyCluster
from msgspec.structs import replace
from odd_configurations import odd_profiles

from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSINode
from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.scheduling.engine.attempt import Attempt, AttemptStage, Placement
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.plugins.volume_binding import VolumeBinding, assumed_in
from tonnage.scheduling.queue.nominator import nominated_to
from tonnage.scheduling.queue.queues import QueueName
from tonnage.scheduling.queue.waiting_pods import QueuedPod
from tonnage.testing.storage_builders import DRIVER, csi_node

OFTEN: Final = """
    pods_come pods_come pod_goes capacity_changes bindings_go_on bindings_go_on volumes_are_made
    is_nominated_by_another driver_works
"""
SELDOM: Final = """
    pod_is_remade pod_ends resident_comes gate_opens gated_pod_comes is_bound_by_another is_labelled
    node_changes node_goes node_is_cordoned limits_change capacity_is_told_again capacity_goes class_changes
    driver_changes claim_goes claim_comes claim_is_sent_by_another claim_is_refused refusal_goes binder_works
    static_volume volume_goes attachment_changes time_passes time_passes restart
"""
EVENTS: Final = (*OFTEN.split() * 3, *SELDOM.split())
"""Methods of `History`."""
_MOST_ATTEMPTS: Final = 400


@dataclass(slots=True)
class Binding:
    """A pod on its way to its node."""

    queued: QueuedPod
    placement: Placement
    is_written: bool = False
    """Its nomination and its claims are in the API."""


class History(BusyCluster):
    """A cluster, the engine that has lived through all of it, and what happened."""

    def __init__(self, seed: int) -> None:
        self.profiles = odd_profiles(random.Random(seed), ("NominatedNodeNameForExpectation",))
        super().__init__(seed, [each.scheduler_name for each in self.profiles])
        self.is_shown = self.profiles[0].gates.NominatedNodeNameForExpectation
        self.bindings: dict[str, Binding] = {}
        self.happened: list[str] = []
        self.met: set[str] = set()
        self.engine = Engine(self.profiles, clock=self.clock, rng=random.Random(1))
        self.furnish()
        self.engine.open()

    def new_engine(self) -> Engine:
        """One that knows what the API says, and nothing else, but who of those that are nominated was so first."""
        made = Engine(self.profiles, clock=self.clock, rng=random.Random(1))
        nominated = [each.info.key for each in self.engine.queue.nominator]
        first = [self.objects[Pod, key] for key in nominated if (Pod, key) in self.objects]
        made.load({id(each): each for each in (*first, *self.objects.values())}.values())
        return made

    def happen(self) -> None:
        self.happened.append(self.rng.choice(EVENTS))
        getattr(self, self.happened[-1])()

    def time_passes(self) -> None:
        self.wait(self.rng.choice((0.5, 3.0, 20.0, 70.0)))

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for placement in self.engine.tick(self.clock.monotonic()):
            known = self.get(Pod, placement.pod.key)
            if self.engine.overdue_binding(placement, known):
                assert placement.queued is not None
                self.met.add("lost binding")
                self.failed(placement.queued, placement.node)

    def restart(self) -> None:
        self.bindings.clear()
        self.engine = self.new_engine()

    def driver_changes(self) -> None:
        """Without the gate, pods with claims wait for the flush when capacity is no longer looked at, as upstream's."""
        if self.profiles[0].gates.CSIStorageCapacityV2:
            super().driver_changes()

    def claim_goes(self) -> None:
        """Whoever is being bound with it hears of it at once."""
        super().claim_goes()
        for uid, binding in list(self.bindings.items()):
            if any(self.get(PersistentVolumeClaim, key) is None for key in binding.placement.pod.claim_keys):
                del self.bindings[uid]
                self.fail(binding)

    # -- the scheduler ------------------------------------------------------------------------------------------------

    def try_all(self) -> None:
        """Try everybody who may be tried now."""
        for _ in range(_MOST_ATTEMPTS):
            queued = self.engine.pop()
            if queued is None:
                return
            if queued.pod.metadata.is_terminating or queued.uid in self.engine.assumed:
                self.engine.done(queued.pod)
                continue
            attempt = self.engine.attempt(queued)
            assert attempt.exception is None
            if attempt.placement is not None:
                self.bindings[queued.uid] = Binding(queued, attempt.placement)
                self.met.add("placed")
            elif attempt.stage is AttemptStage.DECIDE:
                self.not_placed(queued, attempt)
            else:
                self.failed(queued, attempt.decision.node if attempt.decision is not None else "")
        raise AssertionError("somebody is tried for ever")

    def not_placed(self, queued: QueuedPod, attempt: Attempt) -> None:
        assert attempt.decision is not None and attempt.decision.diagnosis is not None
        self.met.add("refused")
        outcome = self.engine.post_filter(attempt)
        plugins = attempt.decision.diagnosis.rejecting_plugins()
        if outcome is None or outcome.plugin is None:
            withdraws = outcome is not None and outcome.result.withdraws_nomination
            self.back(queued, plugins, "" if withdraws and not self.is_shown else None)
            return
        found, plugin = outcome.result, outcome.plugin
        victims = [each for each in found.victims if not each.is_terminating]
        if victims:
            self.engine.preemption_begins(plugin, queued.info)
        if not self.back(queued, plugins, found.nominated_node):
            self.engine.preemption_ends(plugin, queued.info)
            return
        self.met.add("preempts")
        for let_go in self.engine.make_way(found.nominated_node, below=queued.info.priority):
            if (known := self.get(Pod, let_go.key)) is not None and not self.is_shown:
                self.nominate(known, "")
        for each in victims:
            if (binding := self.bindings.pop(each.uid, None)) is not None:
                self.fail(binding)
            elif (known := self.get(Pod, each.key)) is not None and known.uid == each.uid:
                self.drop(known)
        self.engine.preemption_ends(plugin, queued.info, succeeded=self.rng.random() < 0.9)

    def back(self, queued: QueuedPod, plugins: Any = (), nomination: str | None = None) -> bool:
        """Put a pod back that has no node. What is said of its nomination is written."""
        known = self.get(Pod, queued.info.key)
        if not self.engine.requeue(queued, known, plugins=plugins, nomination=nomination):
            return False
        if nomination is not None and nomination != known.status.nominated_node_name:
            self.nominate(known, nomination)
        return True

    def failed(self, queued: QueuedPod, node_name: str) -> None:
        self.engine.failed_on(queued, node_name, "why")
        self.back(queued, (), None if self.is_shown else "")

    def fail(self, binding: Binding) -> None:
        self.engine.withdraw(binding.placement)
        self.failed(binding.queued, binding.placement.node)

    def bindings_go_on(self, *, may_fail: bool = True) -> None:
        """Each binding comes a step further: it is written, its volumes are there, it is bound; or it fails."""
        for uid, binding in list(self.bindings.items()):
            known = self.get(Pod, binding.placement.pod.key)
            is_gone = known is None or known.uid != uid
            if is_gone or known.spec.node_name or (may_fail and self.rng.random() < 0.15):
                del self.bindings[uid]
                self.fail(binding)
            elif not binding.is_written:
                self.write(binding, known)
            elif self.has_volumes(known, binding):
                del self.bindings[uid]
                self.bind(binding, may_be_lost=may_fail)
            elif not self.is_still_sent(binding):
                del self.bindings[uid]
                self.fail(binding)

    def write(self, binding: Binding, known: Pod) -> None:
        """PreBind: the nomination, then what was assumed of volumes and claims."""
        binding.is_written = True
        assumed, where = assumed_in(binding.placement.cycle), binding.placement.node
        if assumed is None or not (assumed.bindings or assumed.claims):
            return
        if self.is_shown:
            self.nominate(known, where)
        self.engine.done(binding.queued.pod)
        for each in [each.volume for each in assumed.bindings]:
            if self.is_newest(PersistentVolume, each):
                self.put(each)
            assumed.mark_written(each)
        for number, asked in enumerate(assumed.claims):
            if asked.key in assumed.unsent or not self.is_newest(PersistentVolumeClaim, asked):
                continue
            if asked is not self.get(PersistentVolumeClaim, asked.key):
                self.put(asked)
            assumed.claims[number] = self.get(PersistentVolumeClaim, asked.key)
            assumed.mark_written(asked)

    def is_newest(self, kind: type[Any], assumed: Object) -> bool:
        """Nobody wrote it since it was assumed: else the server says Conflict."""
        known = self.get(kind, assumed.key)
        return known is not None and known.metadata.resource_version == assumed.metadata.resource_version

    def has_volumes(self, known: Pod, binding: Binding) -> bool:
        found = [self.get(PersistentVolumeClaim, f"default/{name}") for name in known.claim_names()]
        return all(each is not None and each.is_bound for each in found) and self.is_still_sent(binding)

    def is_still_sent(self, binding: Binding) -> bool:
        """Whether what was written for a pod still stands: nobody took selected-node back, or has other plans."""
        assumed = assumed_in(binding.placement.cycle)
        if assumed is None:
            return True
        for asked in assumed.claims:
            known = self.get(PersistentVolumeClaim, asked.key)
            if known is None or known.uid != asked.uid or known.selected_node != binding.placement.node:
                return False
        for each in assumed.bindings:
            kept = self.get(PersistentVolume, each.volume.key)
            if kept is None or kept.spec.claim_ref is None or kept.spec.claim_ref.uid != each.claim.uid:
                return False
        return self.get(Node, binding.placement.node) is not None

    def bind(self, binding: Binding, *, may_be_lost: bool) -> None:
        placement = binding.placement
        known = self.get(Pod, placement.pod.key)
        self.engine.done(binding.queued.pod)
        self.engine.binding_finished(placement)
        if may_be_lost and self.rng.random() < 0.1:
            return  # accepted, and a server that lost it: `wait` hears of it
        self.put(replace(known, spec=replace(known.spec, node_name=placement.node)))
        self.met.add("bound")

    # -- asking -------------------------------------------------------------------------------------------------------

    def waiting(self, engine: Engine) -> list[Pod]:
        """The pods that sleep until something happens, gates aside."""
        asleep = engine.queue.pods_in(QueueName.UNSCHEDULABLE)
        return [each.pod for each in asleep if not each.is_gated]

    def lost(self) -> list[str]:
        """Pods that sleep, and would find a node if they were tried now.

        In mode None the room of a nominated pod's volumes is held until it is sent to its node, and then nobody keeps
        it, until figures show it: who left it asleep is not woken to take it a second time.
        """
        nominator = self.engine.queue.nominator
        asleep = [nominated_to(each, nominator.node_of(each)) for each in self.waiting(self.engine)]
        found = [each for each in asleep if self.engine.explain(each).schedulable]
        return [each.name for each in found if not (each.spec.volumes and self.keeps_nothing_back)]

    @property
    def keeps_nothing_back(self) -> bool:
        """Whether a profile has mode None, and nominations hold capacity."""
        plugins = [each for profile in self.engine.profiles.values() for each in profile.plugins]
        modes = [each.reservation for each in plugins if isinstance(each, VolumeBinding)]
        return self.profiles[0].gates.CSIStorageCapacityV2 and Reservation.NONE in modes

    def come_to_rest(self) -> None:
        """Everything that was begun is finished, and what a clock ends is over, but the five minutes of the flush.

        Every node has its CSINode: limits of one that is gone for a while are remembered, which a fresh engine cannot.
        """
        for each in self.all(Node):
            if self.get(CSINode, each.name) is None:
                self.put(csi_node(each.name, {DRIVER: 2}))
        for _ in range(12):
            for each in self.all(Pod):
                if each.metadata.is_terminating or each.is_terminal:
                    self.drop(each)
            self.volumes_are_made()
            self.binder_works()
            self.bindings_go_on(may_fail=False)
            self.wait(6.0)
            self.try_all()
        for binding in list(self.bindings.values()):
            self.fail(self.bindings.pop(binding.queued.uid))
        self.try_all()
