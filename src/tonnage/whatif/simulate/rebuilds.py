"""Volumes on their way: rebuilt where their pod went, or refused there for want of room (KEP-5925).

a pod is bound to another node than its volume's ──► room there? ──copied──► its home, to which it is confined
                                                      └─ none ──► refused; tried again when there is room
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from tonnage.objects.core_v1 import Node, PersistentVolume, Pod
from tonnage.objects.core_v1.persistent_volume import VOLUME_HOME, VolumeNodeAffinity
from tonnage.whatif.replay import renewed
from tonnage.whatif.simulate.disks import Disk
from tonnage.whatif.simulate.storage_model import StorageModel, driver_of

Done = Callable[[], None]


@dataclass(slots=True)
class _Move:
    """One volume on its way to a disk; those who wait for it there."""

    target: Disk
    node: str
    waiting: list[Done] = field(default_factory=list)

    def room(self, volume: str) -> str:
        """The name under which room is held on the target until the volume is there."""
        return f"{volume} on its way"


@dataclass(slots=True)
class Rebuilds:
    model: StorageModel
    _moves: dict[str, _Move] = field(default_factory=dict)
    _refused: dict[Disk, list[tuple[Pod, str, str, Done]]] = field(default_factory=dict)
    """Who looks again when a disk changes: the pod, its node, the volume."""

    def __post_init__(self) -> None:
        self.model.on_volume_gone, self.model.on_room = self._stop, self.disk_has_room

    def set_free(self, node_name: str, volumes: list[PersistentVolume]) -> None:
        """A node is out of use: its volumes whose driver rebuilds may be rebuilt anywhere (KEP-5925)."""
        for volume in volumes:
            if self.model.rebuilds(volume) and volume.spec.node_affinity.required is not None:
                self._move_to(volume, VolumeNodeAffinity(), home=node_name)

    def confine(self, volume: PersistentVolume) -> None:
        """A volume's home takes pods again: it is confined to it, as before, unless it is on its way elsewhere."""
        disk = self.model.home.get(volume.name)
        if disk is None or volume.name in self._moves or not self.model.rebuilds(volume):
            return
        if volume.spec.node_affinity.required is None:
            self._move_to(volume, self.model.affinity(disk))

    def attach(self, pod: Pod, node: Node, volume: PersistentVolume, done: Done) -> None:
        """Bring a volume to a pod's node; `done` is called when it is there, however long that takes."""
        model = self.model
        settings = model.settings.of(driver_of(volume))
        disk, here = model.home.get(volume.name), model.disks_for(volume.class_name, node)
        if disk is None or disk in here or not here or not model.rebuilds(volume):
            self._stop(volume.name)
            model.agenda.after(settings.attach_latency_s, done)
            return
        move = self._moves.get(volume.name)
        if move is not None and move.target in here:
            move.waiting.append(done)
            return
        self._stop(volume.name)
        _, size_bytes = disk.volumes[volume.name]
        move = next((made for each in here if (made := self._begun(each, volume, size_bytes, node))), None)
        if move is None:
            model.counts.refused_rebuilds += 1
            for each in here:
                self._refused.setdefault(each, []).append((pod, node.name, volume.name, done))
            return
        move.waiting.append(done)
        model.changed(move.target)
        takes_s = size_bytes / settings.rebuild_bytes_per_s + settings.attach_latency_s
        begun = move
        model.agenda.after(takes_s, lambda: self._arrived(volume.name, begun, size_bytes))

    def _begun(self, target: Disk, volume: PersistentVolume, size_bytes: int, node: Node) -> _Move | None:
        move, pick = _Move(target, node.name), self.model.pick_of(volume.class_name, driver_of(volume))
        if not target.take(move.room(volume.name), size_bytes, pick, self.model.rng):
            return None
        self._moves[volume.name] = move
        return move

    def _stop(self, name: str) -> None:
        """A move that nobody wants any more: the room held for it is given back."""
        move = self._moves.pop(name, None)
        if move is not None:
            move.target.give(move.room(name))
            self.model.changed(move.target, has_room=True)

    def disk_has_room(self, disk: Disk) -> None:
        """Those who were refused for want of room look again."""
        for pod, node_name, name, done in self._refused.pop(disk, ()):
            for others in self._refused.values():
                others[:] = [each for each in others if each[0].uid != pod.uid or each[2] != name]
            self.model.agenda.after(0.0, lambda again=(pod, node_name, name, done): self._again(*again))  # type: ignore[misc]

    def _again(self, pod: Pod, node_name: str, name: str, done: Done) -> None:
        objects = self.model.objects
        node, known = objects.get(Node, node_name), objects.get(Pod, pod.key)
        volume = objects.get(PersistentVolume, name)
        if known is not None and known.uid == pod.uid and node is not None and volume is not None:
            self.attach(pod, node, volume, done)

    def _arrived(self, name: str, move: _Move, size_bytes: int) -> None:
        """The copy is complete: the volume lives there now, and its old room is free."""
        model, volume = self.model, self.model.objects.get(PersistentVolume, name)
        if self._moves.get(name) is not move or volume is None:
            return
        del self._moves[name]
        source, target = model.home[name], move.target
        target.volumes[name] = target.volumes.pop(move.room(name))
        source.give(name)
        model.home[name] = target
        model.counts.bytes_rebuilt += size_bytes
        model.counts.rebuilt.append((model.agenda.now_s, name, model.where(source), move.node, size_bytes))
        model.changed(source, has_room=True)
        model.changed(target)
        self._move_to(volume, model.affinity(target))
        for done in move.waiting:
            done()

    def _move_to(self, volume: PersistentVolume, affinity: VolumeNodeAffinity, *, home: str = "") -> None:
        """Write where a volume can be used, as its driver does; `home` is told of one that may move."""
        others = {key: value for key, value in volume.metadata.annotations.items() if key != VOLUME_HOME}
        annotations = {**others, VOLUME_HOME: home} if home else others
        spec = msgspec.structs.replace(volume.spec, node_affinity=affinity)
        self.model.objects.put(renewed(volume, {"annotations": annotations}, spec=spec))
