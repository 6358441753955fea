"""Bindings on virtual time: the PreBind and Bind plugins' own coroutines, driven step by step without an event loop.

A plugin asks its `Api` to write or to wait. What it writes is applied to the objects at once; while it waits, the
binding stands still and is asked again when a claim of its pod changes, or when its time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from tonnage.documents.patches.json_patch import merge_patch
from tonnage.errors import TonnageError
from tonnage.objects import codec
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.attempt import Placement
from tonnage.scheduling.engine.reserve_and_permit import note_failure, plugin_status
from tonnage.scheduling.framework import Api, Code, Status
from tonnage.scheduling.queue.queued_pod import QueuedPod

T = TypeVar("T", bound=Object)
DEADLINE_EXCEEDED = Status(Code.ERROR, ("context deadline exceeded",))


@dataclass(frozen=True, slots=True)
class BindingWait:
    """What a binding stands still for."""

    check: Callable[[], Status | None]
    timeout_s: float

    def __await__(self) -> Generator[BindingWait, Status, Status]:
        return (yield self)


@dataclass(slots=True)
class WorldApi:
    """What bindings may do in a simulated cluster."""

    put: Callable[[Object], Object]
    bound: Callable[[PodInfo, str], None]
    gone: Callable[[PodInfo], bool]

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        self.bound(pod, node_name)

    async def patch(self, current: T, patch: Mapping[str, Any]) -> T:
        return self.put(patched(current, patch))  # type: ignore[return-value]  # what is put is what comes back

    async def settled(self, check: Callable[[], Status | None], timeout_s: float) -> Status:
        found = check()
        return found if found is not None else await BindingWait(check, timeout_s)

    def is_gone(self, pod: PodInfo) -> bool:
        return self.gone(pod)

    def event(self, regarding: Object, reason: str, action: str, note: str) -> None:
        """Events are for people who look at a cluster; nobody looks at this one."""


def patched(current: T, patch: Mapping[str, Any]) -> T:
    """An object with a patch merged into it: its next version, which the objects number."""
    if set(patch) == {"metadata"} and set(patch["metadata"]) == {"annotations"}:  # nearly all of them, and quick
        annotations = {**current.metadata.annotations, **patch["metadata"]["annotations"]}
        kept = {key: value for key, value in annotations.items() if value is not None}
        metadata = msgspec.structs.replace(current.metadata, annotations=kept, resource_version="")
        return msgspec.structs.replace(current, metadata=metadata)
    doc = merge_patch(codec.to_doc(current), dict(patch))
    doc.get("metadata", {}).pop("resourceVersion", None)
    return codec.convert(type(current), doc)


class SimulatedBinding:
    """One pod on its way to its node. `step` moves it on; `wait` is what it stands still for, None when it is over."""

    def __init__(self, queued: QueuedPod, placement: Placement, api: Api) -> None:
        self.queued = queued
        self.placement = placement
        self.status = Status()
        self.wait: BindingWait | None = None
        self.number = 0
        """Counts its waits, so that an alarm for an older one is known to be stale."""
        self._work: Coroutine[Any, Any, Status] = _bound(placement, api)

    @property
    def is_over(self) -> bool:
        return self.wait is None

    def start(self) -> None:
        self._send(None)

    def look(self) -> bool:
        """Ask what it waits for; True when there is an answer, and it moved on."""
        if self.wait is None:
            return False
        found = self.wait.check()
        if found is None:
            return False
        self._send(found)
        return True

    def give_up(self) -> None:
        self._send(DEADLINE_EXCEEDED)

    def _send(self, answer: Status | None) -> None:
        try:
            self.wait = self._work.send(answer)
            self.number += 1
        except StopIteration as end:
            self.wait, self.status = None, end.value


async def _bound(placement: Placement, api: Api) -> Status:
    """The binding cycle as the live scheduler has it: PreBind plugins that have something to do, then Bind."""
    cycle, node = placement.cycle, placement.node
    due = []
    for plugin in placement.profile.pre_bind:
        flight = plugin.pre_bind_pre_flight(cycle, node)
        if not flight.is_success:
            return Status(Code.ERROR, (f'running PreBindPreFlight "{plugin.name}": {flight.message}',), plugin.name)
        if flight.code is not Code.SKIP:
            due.append(plugin)
    for plugin in due:
        status = await _answer(plugin.pre_bind(cycle, node, api))
        if not status.is_success:
            note_failure(plugin, "PreBind")
            return plugin_status("PreBind", plugin.name, status)
    for binder in placement.profile.bind:
        status = await _answer(binder.bind(cycle, node, api))
        if status.code is not Code.SKIP:
            for after in placement.profile.post_bind if status.is_success else ():
                after.post_bind(cycle, node)
            return plugin_status("Bind", binder.name, status)
    return Status(Code.ERROR, ("no Bind plugin took the pod; enable DefaultBinder in the profile",))


async def _answer(work: Any) -> Status:
    try:
        answer: Status = await work
    except TonnageError as exc:
        return Status(Code.ERROR, (exc.message,))
    return answer
