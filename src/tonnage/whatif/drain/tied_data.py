"""Data that a drain does not move.

A volume whose node affinity admits drained nodes alone, of a driver that does not rebuild: it stays where it is, and
whoever needs it waits for the node. What a pod keeps in a hostPath stays too, and its successor finds another folder.
An emptyDir and the claim of an ephemeral volume end with the pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.whatif.drain.outcome import EMPTY_DIR, DataLeftBehind, LostData
from tonnage.whatif.simulate.node_events import stays
from tonnage.whatif.simulate.world import World

EPHEMERAL = "claim of an ephemeral volume"


def left_behind(world: World, drained: Collection[str]) -> list[DataLeftBehind]:
    """What stays on these nodes, by node and volume; asked before anything is drained."""
    users = _users(world)
    found = [each for volume in world.all(PersistentVolume) for each in _of_volume(world, volume, drained, users)]
    for name in drained:
        for pod in world.pods_on(name):
            if not stays(pod):
                found += (
                    DataLeftBehind(name, f"hostPath {each.host_path.path}", None, pods=(pod.key,))
                    for each in pod.spec.volumes
                    if each.host_path is not None
                )
    return sorted(found, key=lambda each: (each.node, each.volume == "", each.volume, each.pods, each.what))


def lost_data(world: World, pod: Pod) -> Iterator[LostData]:
    """What ends when this pod goes."""
    for each in pod.spec.volumes:
        if each.empty_dir is not None:
            yield LostData(pod.key, each.name, EMPTY_DIR)
        elif each.ephemeral is not None:
            volume = world.volume_of(f"{pod.namespace}/{each.claim_name(pod.name)}")
            yield LostData(pod.key, each.name, EPHEMERAL, volume.size.value() if volume is not None else None)


def _users(world: World) -> dict[str, list[Pod]]:
    """By claim, the pods that use it and have not ended."""
    found: dict[str, list[Pod]] = {}
    for pod in world.pods():
        if not pod.is_terminal:
            for name in pod.claim_names():
                found.setdefault(f"{pod.namespace}/{name}", []).append(pod)
    return found


def _of_volume(
    world: World, volume: PersistentVolume, drained: Collection[str], users: dict[str, list[Pod]]
) -> Iterator[DataLeftBehind]:
    claim = volume.spec.claim_ref.key if volume.spec.claim_ref is not None else ""
    if claim and world.get(PersistentVolumeClaim, claim) is None:
        claim = ""
    pods = users.get(claim, []) if claim else []
    homes = _homes(world, volume, pods)
    if not homes or not homes <= set(drained) or world.storage.rebuilds(volume):
        return
    if _is_ephemeral(volume, pods):
        return  # it ends with its pod
    what = kind_of(volume) if len(homes) == 1 else f"{kind_of(volume)}, reached from drained nodes alone"
    keys = tuple(sorted(each.key for each in pods))
    yield DataLeftBehind(",".join(sorted(homes)), what, volume.size.value(), volume.name, claim, keys)


def _homes(world: World, volume: PersistentVolume, pods: list[Pod]) -> set[str]:
    """The nodes that can use a volume, when not all can."""
    if volume.spec.node_affinity.required is not None:
        return {each.name for each in world.storage.reach().of(volume)}
    if volume.spec.host_path is not None:  # it is wherever its pod is, and nowhere else
        return {each.spec.node_name for each in pods if each.spec.node_name}
    return set()


def _is_ephemeral(volume: PersistentVolume, pods: list[Pod]) -> bool:
    name = volume.spec.claim_ref.name if volume.spec.claim_ref is not None else ""
    return any(each.ephemeral and each.claim_name(pod.name) == name for pod in pods for each in pod.spec.volumes)


def kind_of(volume: PersistentVolume) -> str:
    """What holds the data, in words."""
    if volume.spec.csi is not None:
        return f"volume of {volume.spec.csi.driver}, which does not rebuild"
    if volume.spec.local is not None:
        return "local volume"
    return "hostPath volume" if volume.spec.host_path is not None else "volume"
