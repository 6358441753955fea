"""A scheduling loop on virtual time and an API server that lives in memory.

Everything is the program's own but the wire: engine, waits, slots, preemptions, loop, and the default plugins. `Rig` is
the server: what is put there or patched reaches the engine at once, as an informer's word would a moment later.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import msgspec
from prometheus_client import CollectorRegistry

from support.virtual_clock import VirtualClock
from tonnage.clock import rfc3339
from tonnage.documents.patches.json_patch import merge_patch
from tonnage.errors import Conflict, NotFound, TonnageError
from tonnage.gates import Gates
from tonnage.objects import codec
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.scheduler.bindings_under_way import BindingSlots, PreBindWaits, WaitingPod, end_wait
from tonnage.scheduler.context import SchedulerContext
from tonnage.scheduler.debug_pages import DebugPages
from tonnage.scheduler.loop import SchedulingLoop
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.pod_traces import PodTraces
from tonnage.scheduler.program import log_considered
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.configuration.profile_plugins import KnownPlugin
from tonnage.scheduling.engine.attempt import EngineHooks, EngineSettings
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.framework import Plugin
from tonnage.scheduling.queue.waiting_pods import uid_of
from tonnage.testing.storage_builders import volume

T = TypeVar("T", bound=Object)

_CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {{multiPoint: {{enabled: [{plugins}]}}{points}}}
    pluginConfig:
      - {{name: VolumeBinding, args: {{bindTimeoutSeconds: {timeout_s}}}}}
      - {{name: StorageCapacity, args: {{reservation: {reservation}}}}}
"""


class SchedulerRig:
    """`refuse` are failures that the next patches and bindings meet; `refuse_status` and `refuse_delete` those of
    writes to a pod's status and of deletions. `calls` are all writes, in order, and `at_call` is what happens when one
    comes in. `hold` lets bindings hang until it is set. With `is_graceful`, deleted pods that have a node go on
    terminating until `delete` is called. So many bindings as `lies` are answered well and do not happen. While
    `is_blind` those that do happen are not told to the engine: `unseen` has the pods as the server does. `points` is
    what the profile says of single extension points.
    """

    def __init__(
        self,
        *objects: Object,
        reservation: str = "Object",
        timeout_s: int = 600,
        slots: int = 256,
        settings: EngineSettings | None = None,
        plugins: Iterable[type[Plugin]] = (),
        points: str = "",
        is_shown: bool = True,
        is_graceful: bool = False,
        traces_of: Callable[[VirtualClock], PodTraces] | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.traces = traces_of(self.clock) if traces_of is not None else PodTraces(None, self.clock)
        self.calls: list[tuple[str, str]] = []
        self.at_call: dict[tuple[str, str], Callable[[], object]] = {}
        self.refuse_status: list[TonnageError] = []
        self.refuse_delete: list[TonnageError] = []
        self.is_graceful = is_graceful
        self.objects: dict[tuple[type[Object], str], Object] = {}
        self.writes: list[tuple[str, Mapping[str, Any]]] = []
        self.bound: dict[str, str] = {}
        self.conditions: list[tuple[str, str, str]] = []
        self.events: list[tuple[str, str, str]] = []
        self.refuse: list[TonnageError] = []
        self.hold: asyncio.Event | None = None
        self.lies = 0
        self.is_blind = False
        self.unseen: dict[str, Pod] = {}
        self.refuse_read: list[TonnageError] = []
        self._version = 1_000_000  # newer than anything the builders made
        configuration = parse(
            _CONFIGURATION.format(
                timeout_s=timeout_s,
                reservation=reservation,
                points=f", {points}" if points else "",
                plugins=", ".join(f"{{name: {each.name}}}" for each in plugins),
            ),
            source="test",
            known_plugins=map(KnownPlugin.of, plugins),
            gates=Gates().with_(NominatedNodeNameForExpectation=is_shown),
        )
        (self.resolved,) = configuration.profiles
        self.measures = CollectorRegistry()
        metrics = SchedulerMetrics(self.measures, self.clock)
        self.waits = PreBindWaits(self.clock)
        self.waiting: dict[str, WaitingPod] = {}
        self.engine = Engine(
            configuration.profiles,
            clock=self.clock,
            rng=random.Random(1),
            settings=settings,
            hooks=EngineHooks(
                on_change=self._changed,
                on_pod_gone=self._pod_gone,
                plugin_times=metrics.plugin_times,
                on_decision=log_considered,
            ),
        )
        self.engine.open()
        self.cluster, self.queue, self.assumed = self.engine.cluster, self.engine.queue, self.engine.assumed
        (self.profile,) = self.engine.profiles.values()
        self.slots = BindingSlots(slots)
        self.pages = DebugPages(self.engine)
        metrics.watch(self.pages.reservation_families)
        metrics.watch(self.pages.nomination_families)
        metrics.count_plugins(self.engine.profiles.values())
        server: Any = _Server(self)
        recorder: Any = self
        self.loop = SchedulingLoop(
            SchedulerContext(
                engine=self.engine,
                client=server,
                events=recorder,
                metrics=metrics,
                newest=self.pod,
                waits=self.waits,
                shows_nominations=is_shown,
                slots=self.slots,
                waiting_pods=self.waiting,
                traces=self.traces,
            )
        )
        self.add(*objects)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        self.waits.changed(old, new)
        if isinstance(old, Pod):
            end_wait(self.waiting, uid_of(old))

    def _pod_gone(self, uid: str) -> None:
        end_wait(self.waiting, uid)
        self.traces.pod_gone(uid)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """The loop runs; at the end it is told to stop, and does."""
        task = asyncio.create_task(self.loop.run())
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def settle(self, seconds: float = 0.0) -> None:
        await self.clock.run_for(seconds)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.measures.get_sample_value(name, labels)

    def called(self, verb: str, key: str) -> None:
        self.calls.append((verb, key))
        self.at_call.pop((verb, key), lambda: None)()

    # -- as a server --------------------------------------------------------------------------------------------------

    def add(self, *objects: Object) -> None:
        for each in objects:
            self.objects[type(each), each.key] = each
            self.engine.add(each)

    def delete(self, cls: type[Object], key: str) -> None:
        self.engine.delete(self.objects.pop((cls, key)))

    def change(self, cls: type[T], key: str, patch: Mapping[str, Any]) -> T:
        old: Any = self.objects[cls, key]
        self._version += 1
        doc = merge_patch(codec.to_doc(old), patch)
        doc["metadata"]["resourceVersion"] = str(self._version)
        new = codec.convert(cls, doc)
        self.objects[cls, key] = new
        self.engine.update(old, new)
        return new

    def pod(self, key: str) -> Pod | None:
        found = self.objects.get((Pod, key))
        return found if isinstance(found, Pod) else None

    def claim(self, name: str) -> PersistentVolumeClaim:
        found = self.objects[PersistentVolumeClaim, f"default/{name}"]
        assert isinstance(found, PersistentVolumeClaim)
        return found

    def provision(self, name: str) -> None:
        """Do what provisioner and binder do for a claim that has its node."""
        claim = self.claim(name)
        assert claim.selected_node
        self.add(volume(f"pv-{name}", on=claim.selected_node, claim=claim.key))
        self.bind_claim(name, f"pv-{name}")

    def bind_claim(self, name: str, volume_name: str) -> None:
        done = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        patch = {"metadata": done, "spec": {"volumeName": volume_name}, "status": {"phase": "Bound"}}
        self.change(PersistentVolumeClaim, f"default/{name}", patch)

    def volume(self, name: str) -> PersistentVolume:
        found = self.objects[PersistentVolume, name]
        assert isinstance(found, PersistentVolume)
        return found

    # -- as a recorder ------------------------------------------------------------------------------------------------

    def event(self, regarding: Any, type: Any, reason: str, action: str, note: str, related: Any = None) -> None:
        self.events.append((type, reason, note))


class _Server:
    """The calls of a client that the scheduler makes."""

    def __init__(self, rig: SchedulerRig) -> None:
        self._rig = rig

    async def patch(
        self, cls: type[T], key: str, patch: Any, *, patch_type: str = "merge", subresource: str = ""
    ) -> T | Pod:
        if subresource:
            assert (cls, patch_type, subresource) == (Pod, "strategic", "status")
            return await self._patch_status(key, patch)
        rig = self._rig
        rig.called("patch", key)
        await asyncio.sleep(0)
        if rig.refuse:
            raise rig.refuse.pop(0)
        stored = rig.objects.get((cls, key))
        if stored is None:
            raise NotFound(f'"{key}" not found')
        if stored.metadata.resource_version != patch["metadata"].pop("resourceVersion"):
            raise Conflict(f'"{key}" has been modified')
        rig.writes.append((key, {name: value for name, value in patch.items() if value}))
        return rig.change(cls, key, patch)

    async def _patch_status(self, key: str, patch: Any) -> Pod:
        rig = self._rig
        rig.called("patch status", key)
        await asyncio.sleep(0)
        if rig.refuse_status:
            raise rig.refuse_status.pop(0)
        known = rig.pod(key)
        if known is None:
            raise NotFound(f'pods "{key}" not found')
        assert known.metadata.uid == patch["metadata"]["uid"]
        status = dict(patch["status"])
        for said in status.get("conditions", ()):
            if said["type"] == "PodScheduled":
                rig.conditions.append((key, said["reason"], said["message"]))
        if "conditions" in status:  # a list that is merged by type
            new = {said["type"]: said for said in status["conditions"]}
            kept = [codec.to_doc(each) for each in known.status.conditions]
            merged = {each["type"]: each | new.pop(each["type"], {}) for each in kept}
            status["conditions"] = [*merged.values(), *new.values()]
        return rig.change(Pod, key, {"status": status})

    async def delete(self, kind: type[Pod], key: str, *, uid: str = "") -> None:
        rig = self._rig
        rig.called("delete", key)
        await asyncio.sleep(0)
        if rig.refuse_delete:
            raise rig.refuse_delete.pop(0)
        known = rig.pod(key)
        if known is None:
            raise NotFound(f'pods "{key}" not found')
        if known.metadata.uid != uid:
            raise Conflict(f"the UID in the precondition ({uid}) does not match the UID in record")
        if rig.is_graceful and known.spec.node_name:
            rig.change(Pod, key, {"metadata": {"deletionTimestamp": rfc3339(rig.clock.now())}})
        else:
            rig.delete(Pod, key)

    async def find(self, cls: type[Pod], key: str) -> Pod | None:
        rig = self._rig
        rig.called("get", key)
        await asyncio.sleep(0)
        if rig.refuse_read:
            raise rig.refuse_read.pop(0)
        return rig.unseen.get(key) or rig.pod(key)

    async def bind(self, key: str, node: str, *, uid: str) -> None:
        rig = self._rig
        rig.called("bind", key)
        if rig.lies:
            rig.lies -= 1
            return
        if rig.hold is not None:
            await rig.hold.wait()
        if rig.refuse:
            raise rig.refuse.pop(0)
        assert key not in rig.bound, "placed twice"
        known = rig.pod(key)
        if known is None:
            raise NotFound(f'pods "{key}" not found')
        rig.bound[key] = node
        if rig.unseen.get(key, known).spec.node_name:
            raise Conflict(f'pod {key} is already assigned to node "{rig.unseen[key].spec.node_name}"')
        new = msgspec.structs.replace(
            known,
            spec=msgspec.structs.replace(known.spec, node_name=node),
            status=msgspec.structs.replace(known.status, nominated_node_name=""),
        )
        if rig.is_blind:
            rig.unseen[key] = new
            return
        rig.objects[Pod, key] = new
        rig.engine.update(known, new)
