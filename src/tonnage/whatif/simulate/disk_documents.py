"""Disks as JSON: pools with free bytes, the volumes in them, and the scheduler's promises.

Reports draw capacity maps from it (`html/capacity_map.py`), and scripts may read it (docs/reference/json.md):

    {"objects": [key], "where": text, "classes": [name], "totalBytes": int, "freeBytes": [int],
     "volumes": [{"volume", "claim", "pool": int or null, "bytes", "promised": bool}]}

`freeBytes` is what volumes leave free in each pool; promises will still use some of it. The driver will choose the
pool of a promise: shown is one way in which all promises fit, or null when there is none.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.engine.held_room import HeldCapacity
from tonnage.scheduling.volumes.packing.pool_fits import SearchBudget, place_one
from tonnage.whatif.simulate.disks import Disk
from tonnage.whatif.simulate.storage_model import StorageModel
from tonnage.whatif.simulate.world_state import Watcher, WorldSettings, WorldState

MOST_DISKS: Final = 500
_SEARCH_STEPS: Final = 10_000


def disk_documents(storage: StorageModel, held: HeldCapacity | None) -> list[dict[str, Any]]:
    """The disks of a storage model, limited to the first ones, with what a scheduler holds of them."""
    promised = _promised(storage, held) if held is not None else {}
    return [_document(storage, disk, promised.get(disk, {})) for disk in list(storage.disks)[:MOST_DISKS]]


def disks_of_objects(objects: Iterable[Object], held: HeldCapacity | None) -> list[dict[str, Any]]:
    known = list(objects)
    storage = StorageModel(WorldState(known, WorldSettings(), Watcher(), ()), random.Random(0))
    storage.open(known)
    return disk_documents(storage, held)


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
