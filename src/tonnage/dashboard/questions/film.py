"""A cluster's changes as frames that a page plays forwards and backwards, made by the model of the live dashboard.

    film = Film(limit.check)
    film.shoot(replay.objects, replay.engine, now, title="schedule shop/db-0", …)
    film.document()             # {"frames": [{"number", "title", "at", "message": {…}}, …], "cut": ""}

The message of the first frame is a state, that of each further one a difference (`wire.collections`). What the
scheduler has assumed and not written is shown as it sees it: claims with their node, pods on their way, capacity that
is kept back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from tonnage.clock import rfc3339
from tonnage.dashboard.model.cluster_model import ClusterModel
from tonnage.dashboard.wire.collections import Collections
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, PodCondition
from tonnage.objects.meta import Key, Object
from tonnage.scheduler.assumed_state import AssumedState
from tonnage.scheduler.capacity_reservations import CapacityReservations
from tonnage.scheduler.held_nominations import NominationsReport
from tonnage.scheduling.engine.engine import Engine
from tonnage.whatif.scheduler_memory import SchedulerMemory, memory_from

MOST_FRAMES: Final = 2000
MOST_BYTES: Final = 32 * 1024 * 1024
"""Of all messages together: what a page can take without a pause."""

Place = tuple[str, Key]


class Film:
    """Frames of one cluster. `check` is called at every frame, and may raise."""

    def __init__(self, check: Callable[[], object] = lambda: None) -> None:
        self.cut = ""
        """Why there are no more frames than these; empty when these are all."""
        self._check = check
        self._frames: list[dict[str, Any]] = []
        self._collections = Collections()
        self._model = ClusterModel(self._collections)
        self._follower = self._collections.follow()
        self._shown: dict[Place, Object] = {}
        self._refused: dict[str, Pod] = {}
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Nothing more is taken: whoever makes frames may stop."""
        return bool(self.cut)

    def shoot(
        self,
        objects: Iterable[Object],
        engine: Engine,
        now: datetime,
        *,
        title: str,
        lines: Sequence[str] = (),
        waits: Mapping[str, str] | None = None,
        **told: Any,
    ) -> None:
        """One frame more: the cluster as it is now. `waits` is why pods wait, by uid; `told` goes into the frame."""
        self._check()
        if self.is_full:
            return
        self._follow(objects, engine, waits or {})
        self._model.remember(memory_of_engine(engine))
        self._model.settle(now)
        message = self._follower.take()
        self._bytes += len(message)
        if self._bytes > MOST_BYTES:
            self.cut = f"the rest is left out: more than {MOST_BYTES // (1024 * 1024)} MiB of changes"
            return
        self._frames.append(
            {
                "number": len(self._frames),
                "title": title,
                "lines": list(lines),
                "at": rfc3339(now),
                "message": msgspec.Raw(message),
                **told,
            }
        )
        if len(self._frames) >= MOST_FRAMES:
            self.cut = f"the rest is left out: at most {MOST_FRAMES:,} frames are played"

    def document(self) -> dict[str, Any]:
        return {"frames": self._frames, "cut": self.cut}

    def _follow(self, objects: Iterable[Object], engine: Engine, waits: Mapping[str, str]) -> None:
        """Tell the model what is another object than in the frame before."""
        storage, seen = engine.cluster.storage, dict[Place, Object]()
        for each in objects:
            shown: Object = each
            if isinstance(each, PersistentVolumeClaim):
                shown = storage.claims.get(each.key) or each
            elif isinstance(each, PersistentVolume):
                shown = storage.volumes.get(each.name) or each
            elif isinstance(each, Pod) and each.uid in waits and not each.spec.node_name:
                shown = self._waiting(each, waits[each.uid])
            seen[type(each).__name__, each.key] = shown
        for place, gone in self._shown.items():
            if place not in seen:
                self._model.remove(gone)
        for place, each in seen.items():
            if self._shown.get(place) is not each:
                self._model.put(each)
        self._shown = seen

    def _waiting(self, pod: Pod, why: str) -> Pod:
        """A pod with the condition that the scheduler would have written to it; the same object as long as it is so."""
        known = self._refused.get(pod.uid)
        if known is None or known.metadata != pod.metadata or _why(known) != why:
            told = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=why)
            others = [each for each in pod.status.conditions if each.type != "PodScheduled"]
            status = msgspec.structs.replace(pod.status, conditions=(*others, told))
            known = self._refused[pod.uid] = msgspec.structs.replace(pod, status=status)
        return known


def _why(pod: Pod) -> str:
    found = pod.condition("PodScheduled")
    return found.message if found is not None else ""


def memory_of_engine(engine: Engine) -> SchedulerMemory:
    """What a scheduler knows, as its debug pages would tell it."""
    return memory_from(
        "the replay",
        CapacityReservations(engine.held).listed(),
        AssumedState(engine).listed(),
        NominationsReport(engine).listed(),
    )
