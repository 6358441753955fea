"""A scheduling engine on a small cluster with storage: what tests of VolumeBinding start from.

    rig = VolumeRig(node("a"), capacity("fast", "a", "100Gi"), reservation="Ledger")
    rig.place(rig.pod("web", "20Gi"))      decide, reserve, assume: "a", or the message of a refusal

The class "fast" and its driver, which publishes capacity, are there unless objects of their names are handed in.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest

from support.informed_engine import InformedEngine
from support.virtual_clock import VirtualClock
from tonnage.documents.patches.json_patch import merge_patch
from tonnage.gates import Gates
from tonnage.objects import codec
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.decision.scheduling_cycle import Decision
from tonnage.scheduling.engine.attempt import Placement
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.framework import Code, Status
from tonnage.scheduling.plugins.volume_binding import Notes, VolumeBinding
from tonnage.testing.storage_builders import claim, driver, pod_with, storage_class

T = TypeVar("T", bound=Object)

GI = 1 << 30
FULL = "node(s) did not have enough free storage"
UNBINDABLE = "node(s) didn't find available persistent volumes to bind"
ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
THE_LETTER = {"reservation": "Object", "legacyPools": "Strict", "poolFit": "Possible"}
BOTH = [pytest.param({}, id="our defaults"), pytest.param(THE_LETTER, id="the KEP's letter")]
"""For a fixture that sets `VolumeRig.settings`."""
ALL_OFF = {"CSIStorageCapacityV2": False, "StorageCapacityScoring": False}


def refused(counts: Mapping[str, int], nodes: int) -> str:
    """The message of a pod that fits nowhere, with how many of the nodes each reason holds against."""
    return f"0/{nodes} nodes are available: {', '.join(sorted(f'{n} {reason}' for reason, n in counts.items()))}."


class VolumeRig(InformedEngine):
    """A cluster, a profile, and the pods that were decided. What a test does not set is as `settings` say: by default
    ours; tests of what the KEP lists run with its letter as well (`BOTH`)."""

    settings: Mapping[str, Any] = {}

    def __init__(self, *objects: Object, gates: Mapping[str, bool] | None = None, **settings: Any) -> None:
        super().__init__()
        self.placed: dict[str, Placement] = {}
        self.use(gates=gates, **settings)
        self.put(storage_class(), driver(), *objects)

    @property
    def cluster(self) -> Cluster:
        return self.engine.cluster

    def use(
        self,
        *,
        gates: Mapping[str, bool] | None = None,
        shape: str = "",
        plugins: str = "",
        rng: random.Random | None = None,
        **storage_capacity: Any,
    ) -> None:
        """Go on with a new engine that knows the same objects. Settings are spelt as in files."""
        ours = {
            "apiVersion": "tonnage.dev/v1alpha1",
            "kind": "StorageCapacityArgs",
            **self.settings,
            **storage_capacity,
        }
        entries = [f"{{name: StorageCapacity, args: {_flow(ours)}}}"]
        if shape:
            entries.append(f"{{name: VolumeBinding, args: {{shape: {shape}}}}}")
        profile = f"{{pluginConfig: [{', '.join(entries)}]{f', plugins: {plugins}' if plugins else ''}}}"
        text = f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- {profile}\n"
        configuration = parse(text, source="a test", gates=Gates().with_(**(gates or {})))
        self.engine = Engine(configuration.profiles, clock=VirtualClock(), rng=rng or random.Random(1))
        self.engine.load(self.objects.values())
        (self.profile,) = self.engine.profiles.values()
        (self.plugin,) = [each for each in self.profile.pipeline.filter if isinstance(each, VolumeBinding)]

    def pod(self, name: str, *sizes: str | None, class_name: str = "fast", **options: Any) -> Pod:
        """A pod with a claim of its own for each of these sizes: web-0, web-1, …"""
        for number, size in enumerate(sizes):
            self.put(claim(f"{name}-{number}", size, class_name=class_name))
        return pod_with(name, *(f"{name}-{number}" for number in range(len(sizes))), **options)

    # -- deciding -----------------------------------------------------------------------------------------------------

    def decide(self, pod: Pod) -> Decision:
        return self.profile.decider.decide(self.cluster, PodInfo(pod), diagnose=True)

    def message(self, pod: Pod) -> str:
        """Why it fits nowhere; empty when it does."""
        decision = self.decide(pod)
        if decision.fits:
            return ""
        assert decision.diagnosis is not None
        return decision.diagnosis.message()

    def nodes(self, pod: Pod) -> list[str]:
        """The nodes it fits on."""
        decision = self.decide(pod)
        return [self.cluster.name(row) for row in decision.cycle.feasible.tolist()] if decision.fits else []

    def reasons(self, pod: Pod) -> dict[str, tuple[str, ...]]:
        """By node, why not."""
        diagnosis = self.decide(pod).diagnosis
        assert diagnosis is not None
        return {name: reasons for name, row in self.cluster.row_of.items() if (reasons := diagnosis.reasons_of(row))}

    def scores(self, pod: Pod) -> dict[str, int]:
        """By node that fits, VolumeBinding's score; nothing when it has none to give."""
        cycle = self.decide(pod).cycle
        for name, _, scores in self.profile.decider.scores(cycle):
            if name == VolumeBinding.name:
                rows = cycle.feasible.tolist()
                return {self.cluster.name(row): score for row, score in zip(rows, scores.tolist(), strict=True)}
        return {}

    # -- going there --------------------------------------------------------------------------------------------------

    def place(self, pod: Pod) -> str:
        """Decide and reserve, and take the pod to be where it goes; the node, or the message of a refusal."""
        attempt = self.engine.place(PodInfo(pod))
        if attempt.placement is None:
            assert attempt.decision is not None and attempt.decision.diagnosis is not None, attempt.status
            return attempt.decision.diagnosis.message()
        self.placed[pod.name] = attempt.placement
        return attempt.placement.node

    def fail(self, pod: Pod) -> None:
        """Its binding failed: what was reserved is given back."""
        self.engine.withdraw(self.placed.pop(pod.name))

    def notes(self, pod: Pod) -> Notes:
        """What VolumeBinding remembers of a pod that was placed."""
        notes: Notes = self.placed[pod.name].cycle.state[VolumeBinding.name]
        return notes

    def planned(self, pod: Pod, node_name: str) -> dict[str, str]:
        """What a node would do, by claim: `bound pv`, `static pv`, `made of object`, `rebuilt of object`."""
        notes: Notes = self.decide(pod).cycle.state[VolumeBinding.name]
        plan = notes.fit.plan(notes.demand, self.cluster.row_of[node_name])
        found = {claim.name: f"bound {volume.name}" for claim, volume in notes.demand.bound if volume is not None}
        found |= {each.claim.name: f"static {each.volume.name}" for each in plan.static}
        for each in plan.provisions:
            of = f" of {each.capacity.name}" if each.capacity is not None else ""
            found[each.claim.name] = f"{'rebuilt' if each.is_rebuild else 'made'}{of}"
        return found

    def selected_node(self, claim_name: str) -> str:
        """Of a claim as decisions see it."""
        found = self.cluster.storage.claims.get(f"default/{claim_name}")
        return found.selected_node if found is not None else ""


def _flow(doc: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in doc.items()) + "}"


class Server:
    """An API server that takes patches and shows them at once."""

    def __init__(self, rig: VolumeRig) -> None:
        self._storage = rig.cluster.storage
        self.patches: list[tuple[str, Mapping[str, Any]]] = []
        self.events: list[tuple[str, str, str]] = []

    async def bind(self, pod: PodInfo, node_name: str) -> None: ...

    async def patch(self, current: T, patch: Mapping[str, Any]) -> T:
        self.patches.append((current.key, patch))
        doc = merge_patch(codec.to_doc(current), patch)
        doc["metadata"]["resourceVersion"] = str(1_000_000 + len(self.patches))
        changed = codec.convert(type(current), doc)
        self._storage.put(changed)
        return changed

    async def settled(self, check: Callable[[], Status | None], timeout_s: float) -> Status:
        return check() or Status(Code.ERROR, ("context deadline exceeded",))

    def is_gone(self, pod: PodInfo) -> bool:
        return False

    def event(self, regarding: Object, reason: str, action: str, note: str) -> None:
        self.events.append((regarding.key, reason, note))
