"""A cluster on virtual time: objects, the scheduler's engine, storage, nodes and controllers.

    agenda: what is due ──► objects change ──► engine ──► attempts ──► bindings ──► volumes, nodes ──► pods run
                 ▲                                            │
                 └──────── next instant ◄── nothing left to do now

At each instant everything due happens, then the queue is worked off, until nothing is left; then time advances.

`disk_documents` are its disks as JSON: pools with free bytes, the volumes in them, and the scheduler's promises.
Reports draw capacity maps from them (`html/capacity_map.py`), and scripts may read them (docs/reference/json.md):

    {"objects": [key], "where": text, "classes": [name], "totalBytes": int, "freeBytes": [int],
     "volumes": [{"volume", "claim", "pool": int or null, "bytes", "promised": bool}]}

`freeBytes` is what volumes leave free in each pool; promises will still use some of it. The driver will choose the
pool of a promise: shown is one way in which all promises fit, or null when there is none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from tonnage.behaviour.workloads.pod_states import RejectedPods
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.held_room import HeldCapacity
from tonnage.scheduling.volumes.packing.pool_fits import SearchBudget, place_one
from tonnage.scheduling.volumes.reservations.holds import Hold
from tonnage.whatif.simulate import controllers
from tonnage.whatif.simulate.disks import Disk
from tonnage.whatif.simulate.nodes import Kubelets, NodeEvents
from tonnage.whatif.simulate.scheduler_loop import SchedulerLoop
from tonnage.whatif.simulate.storage_model import StorageModel
from tonnage.whatif.simulate.world_state import Watcher, WorldSettings, WorldState
from tonnage.whatif.sources import ClusterState, engine_over

TICK_S: Final = 1.0
"""How often a scheduler with waiting pods looks at the clock."""
_ASKED_WITHIN_S: Final = 5.0
"""A live scheduler is asked less than this before the objects are listed."""


class World(WorldState):
    """One cluster, moved by its agenda. `is_stopped` is called between any two steps and can end the run early."""

    def __init__(
        self,
        state: ClusterState,
        profiles: Sequence[ResolvedProfile],
        watcher: Watcher,
        *,
        settings: WorldSettings | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        memory = state.memory
        found = memory.written_to(state.objects) if memory is not None else state.objects
        super().__init__(found, settings or WorldSettings(), watcher, state.workloads, state.clock.now())
        self.is_stopped = is_stopped
        seed, any_pod = self.settings.seed, self.settings.takes_any_pod
        self.engine = engine_over(self, profiles, clock=self.clock, seed=seed, takes_any_pod=any_pod)
        self.storage = StorageModel(self, self.engine.cluster, random.Random(f"storage {seed}"))
        self.controllers = controllers.Controllers(self, random.Random(f"successors {seed}"), RejectedPods(self.clock))
        self.nodes = NodeEvents(self, self.controllers, self.storage)
        self.kubelets = Kubelets(self, self.controllers, self.storage)
        self.scheduler = SchedulerLoop(self, self.engine, self.controllers, self.kubelets)
        self.binder = controllers.VolumeBinder(self)
        self._ticked_s = 0.0
        unseen = self.engine.held.holds()
        if memory is not None:
            memory.after_writing().laid_into(self.engine, self)
            known = {key for holds in self.engine.held.holds().values() for hold in holds for key in hold.claims}
            unseen = {
                mode: [hold for hold in holds if not self._is_settled(hold, known)] for mode, holds in unseen.items()
            }
        self._open(unseen)

    def _is_settled(self, hold: Hold, known: Collection[Key]) -> bool:
        """True if the live scheduler has seen the figures include the volumes of these claims: they were there before
        it was asked, and it keeps nothing back for them."""
        volumes = [self.volume_of(key) for key in hold.claims]
        created = [volume.metadata.creation_timestamp if volume is not None else None for volume in volumes]
        now = self.clock.now()
        return not any(key in known for key in hold.claims) and all(
            at is not None and (now - at).total_seconds() >= _ASKED_WITHIN_S for at in created
        )

    def _open(self, unseen: Mapping[Reservation, Sequence[Hold]]) -> None:
        self.storage.open()
        for pod in self.pods():
            self._keep(pod, is_new=True)
        # Use up the volumes of bound claims that capacity is still held for: the figures do not show them yet.
        for hold in chain.from_iterable(unseen.values()):
            for volume in () if hold.is_rebuild else map(self.volume_of, hold.claims):
                if volume is not None and self.storage.home.get(volume.name) is not None:
                    self.storage.take_unseen(volume)
        self.storage.publish_all()
        for volume in self.all(PersistentVolume):
            if volume.spec.claim_ref is None:
                self.binder.volume_changed(volume)
        self.kubelets.open()
        self.nodes.open()
        for claim in self.all(PersistentVolumeClaim):
            self.storage.claim_changed(claim)
            self.binder.claim_changed(claim)
        for pod in self.pods():
            self.controllers.pod_came(pod)

    def _keep(self, pod: Pod, *, is_new: bool) -> None:
        if is_new:
            self.born_s[pod.uid] = self.agenda.now_s
        if pod.spec.node_name:
            self._on_node.put(pod.spec.node_name, pod.key, pod)

    def _came(self, before: Object | None, now: Object) -> None:
        if before is None:
            self.engine.add(now)
        else:
            self.engine.update(before, now)
        if isinstance(now, Pod):
            self._keep(now, is_new=before is None)
            if before is None:
                self.controllers.pod_came(now)
                self.kubelets.adopt(now)
        elif isinstance(now, PersistentVolumeClaim):
            was = before if isinstance(before, PersistentVolumeClaim) else None
            if was is None or was.selected_node != now.selected_node:
                self.storage.claim_changed(now)
            self.binder.claim_changed(now)
            self.scheduler.look(now.key)
        elif isinstance(now, PersistentVolume):
            self.binder.volume_changed(now)
            if now.spec.claim_ref is not None:
                self.scheduler.look(now.spec.claim_ref.key)
        elif isinstance(now, Node):
            self.storage.nodes_changed()
            self.scheduler.look(now.name)
        elif isinstance(now, CSIStorageCapacity):
            self.storage.know(now)
            self.scheduler.look_at_figures(now)

    def _gone(self, found: Object) -> None:
        self.engine.delete(found)
        if isinstance(found, PersistentVolumeClaim):
            self.storage.claim_deleted(found)
            self.scheduler.look(found.key)
        elif isinstance(found, CSIStorageCapacity):
            self.storage.forget(found)
        elif isinstance(found, Node):
            self.storage.nodes_changed()
            self.scheduler.look(found.name)
        elif isinstance(found, Pod):
            self.born_s.pop(found.uid, None)
            self._on_node.take(found.spec.node_name, found.key)
            self.kubelets.pod_gone(found)
            self.scheduler.look_after(found)

    def run_until(self, when_s: float) -> None:
        """Run up to and including an instant."""
        while not self.is_over:
            self._settle()
            following = self._next_s()
            if following is None or following > when_s:
                break
            self._go_to(following)
        if not self.is_over:
            self._go_to(when_s)
            self._settle()

    def run_until_idle(self, at_most_s: float) -> bool:
        """Run until only waiting pods are left, or until an instant. True if nothing else will happen."""
        while not self.is_over:
            self._settle()
            if not self.agenda.awake and self.engine.queue.next_backoff_completion_at() is None:
                return True
            following = self._next_s()
            if following is None or following > at_most_s:
                self._go_to(at_most_s)
                return False
            self._go_to(following)
        return True

    @property
    def is_over(self) -> bool:
        """The run was stopped, or reached its last attempt."""
        last = self.settings.stops_after
        return self.is_stopped() or (last is not None and self.scheduler.attempts > last)

    def _next_s(self) -> float | None:
        """When something happens next; while pods wait or are being bound, the scheduler looks at the clock too."""
        times_s = [] if self.agenda.next_s is None else [self.agenda.next_s]
        if any(self.engine.queue.pending_pods().values()) or len(self.engine.assumed):
            times_s.append(self._ticked_s + TICK_S)
        return min(times_s, default=None)

    def _go_to(self, when_s: float) -> None:
        self.agenda.go_to(when_s)
        if when_s >= self._ticked_s + TICK_S:
            self._ticked_s = when_s
            self.engine.tick(self.clock.monotonic())

    def _settle(self) -> None:
        """Do what is due and place pods, until nothing is left to do now."""
        while not self.is_over:
            if (work := self.agenda.take_due()) is not None:
                work()
            elif (queued := self.engine.pop()) is not None:
                self.scheduler.schedule(queued)
            else:
                return


MOST_DISKS: Final = 500
_SEARCH_STEPS: Final = 10_000


def disk_documents(storage: StorageModel, held: HeldCapacity | None) -> list[dict[str, Any]]:
    """The disks of a storage model, limited to the first ones, with what a scheduler holds of them."""
    promised = _promised(storage, held) if held is not None else {}
    return [_document(storage, disk, promised.get(disk, {})) for disk in list(storage.disks)[:MOST_DISKS]]


def disks_of_objects(objects: Iterable[Object], engine: Engine) -> list[dict[str, Any]]:
    storage = StorageModel(WorldState(objects, WorldSettings(), Watcher()), engine.cluster, random.Random(0))
    storage.open()
    return disk_documents(storage, engine.held)


def _promised(storage: StorageModel, held: HeldCapacity) -> dict[Disk, dict[Key, int]]:
    """By disk: the claims that bytes are kept back for, without claims whose volume is already on it."""
    found: dict[Disk, dict[Key, int]] = {}
    for view in held.modes.values():
        for hold in view.holds():
            disk = storage.disks.by_object.get(hold.capacity)
            if disk is None:
                continue
            for key, size_bytes in _sizes(storage, hold.claims, hold.bytes).items():
                claim = storage.objects.get(PersistentVolumeClaim, key)
                if claim is None or claim.spec.volume_name not in disk.volumes:
                    found.setdefault(disk, {})[key] = size_bytes
    return found


def _sizes(storage: StorageModel, keys: Sequence[Key], held_bytes: int) -> dict[Key, int]:
    """The size of each claim of a hold; the hold itself only knows the sum."""
    if len(keys) == 1:
        return {keys[0]: held_bytes}
    claims = (storage.objects.get(PersistentVolumeClaim, key) for key in keys)
    return {
        claim.key: storage.taken_bytes(claim) for claim in claims if claim is not None and claim.requested is not None
    }


def _document(storage: StorageModel, disk: Disk, promised: Mapping[Key, int]) -> dict[str, Any]:
    found = (storage.objects.get(PersistentVolume, name) for name in disk.volumes)
    claims = {each.name: each.spec.claim_ref.key for each in found if each is not None and each.spec.claim_ref}
    volumes = [
        {
            "volume": name,
            "claim": claims.get(name),
            "pool": pool if pool >= 0 else None,
            "bytes": size_bytes,
            "promised": False,
        }
        for name, (pool, size_bytes) in sorted(disk.volumes.items())
    ]
    volumes += [
        {"volume": None, "claim": claim, "pool": pool, "bytes": size_bytes, "promised": True}
        for claim, pool, size_bytes in _shared_out(disk.pools, promised)
    ]
    return {
        "objects": list(disk.objects),
        "where": storage.where(disk),
        "classes": storage.classes_of(disk),
        "totalBytes": disk.total_bytes,
        "freeBytes": list(disk.pools),
        "volumes": volumes,
    }


def _shared_out(pools: Sequence[int], promised: Mapping[Key, int]) -> list[tuple[Key, int | None, int]]:
    """(claim, pool, bytes) of one distribution in which everything fits, the largest first."""
    claims = sorted(promised.items(), key=lambda each: (-each[1], each[0]))
    order = sorted(range(len(pools)), key=lambda number: -pools[number])
    sizes = tuple(size_bytes for _, size_bytes in claims)
    places = place_one([pools[number] for number in order], sizes, SearchBudget(_SEARCH_STEPS)) if pools else None
    if places is None:
        return [(claim, None, size_bytes) for claim, size_bytes in claims]
    found = ((claim, order[place], size_bytes) for (claim, size_bytes), place in zip(claims, places, strict=True))
    return sorted(found, key=lambda each: each[0])
