"""The sentence added to a refusal: which reservation the pod waits for, or that some of its volumes are stuck.

    On 2 of 14 nodes the room is reserved for shop/db-1 (since 12:03:05Z) and 2 more.
    Claim shop/data has a new volume on node-1 that no pod uses, and no room for shop/log is left there: …

The oldest reservation is named, with its start, so that the sentence does not change while a pod waits. A volume is new
if it was created after its pod, is not attached, and no pod on a node mounts its claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from tonnage.clock import rfc3339
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.capacity.class_capacity import identity, members_of
from tonnage.scheduling.volumes.capacity.reading import Question
from tonnage.scheduling.volumes.demand import Demand
from tonnage.scheduling.volumes.packing.pool_grades import Grade
from tonnage.scheduling.volumes.reservations.holds import Hold
from tonnage.scheduling.volumes.volume_fit import VolumeFit
from tonnage.scheduling.volumes.volume_reach import reachable

_MOST_OBJECTS: Final = 128
"""Holders are collected from at most this many objects."""


def _told_holders(holders: Sequence[tuple[str, datetime]], now: datetime, *, is_cut_off: bool) -> str:
    more = f" and {len(holders) - 1} more" if len(holders) > 1 else ""
    who, since = holders[0]
    return f"{who} (since {told_time(since, now)}){' and others' if is_cut_off else more}"


def told_time(at: datetime, now: datetime) -> str:
    """`12:03:05Z` for a time of today, else with its date; both in UTC."""
    full = rfc3339(at)
    return full.partition("T")[2] if at.astimezone(UTC).date() == now.astimezone(UTC).date() else full


def reserved_room(fit: VolumeFit, demand: Demand, rows: npt.NDArray[np.intp]) -> str:
    """The sentence about reservations; empty if none of the rows refused for lack of free storage waits for one."""
    waiting = 0
    held: dict[str, CSIStorageCapacity] = {}
    for provisioning, places, _ in fit.provisioning_demands(demand, rows):
        units = [(fit.index.of(unit.class_name), unit.sizes) for unit in provisioning.units]
        if not any(objects.reading(fit.policy).held for objects, _ in units):
            continue
        left = rows[places]
        for objects, sizes in units:
            left = left[objects.fits(fit.unheld, sizes, left)]
        waiting += len(left)
        # At most `_MOST_OBJECTS` objects are searched for holders, so no more nodes are needed.
        for objects, sizes in units:
            numbers = objects.numbers_on(left[: _MOST_OBJECTS + 1])
            fits = objects.reading(fit.unheld).says(Question.FITS, sizes, numbers) > Grade.NONE
            for number in numbers[objects.reading(fit.policy).is_held(numbers) & fits].tolist():
                for member in members_of(objects.entries[number].capacity):
                    held.setdefault(identity(member), member)
    own = {claim.key for claim in (*demand.pinned, *demand.loose, *(rebuild.claim for rebuild in demand.rebuilds))}
    looked_at = list(held.values())[:_MOST_OBJECTS]
    found = [fit.holds.holds_on(identity(capacity)) for capacity in looked_at] if fit.holds is not None else []
    holders = _oldest_first(chain.from_iterable(found), own)
    if not waiting or not holders:
        return ""
    told = _told_holders(holders, fit.cluster.clock.now(), is_cut_off=len(held) > _MOST_OBJECTS)
    return f"On {waiting} of {fit.cluster.count} nodes the room is reserved for {told}."


def _oldest_first(holds: Iterable[Hold], own: set[Key]) -> tuple[tuple[str, datetime], ...]:
    since: dict[str, datetime] = {}
    for hold in holds:
        if not own.isdisjoint(hold.claims):
            continue  # the pod's own reservation does not block it
        who = hold.pod or f"claim {hold.claims[0] if hold.claims else hold.capacity}"
        since[who] = min(hold.since, since.get(who, hold.since))
    return tuple(sorted(since.items(), key=lambda each: (each[1], each[0])))


_SENTENCE = re.compile(r"Claims? \S+ .*?that no pod uses.*?and the pod may go elsewhere\.")


def half_made(cluster: Cluster, pod: PodInfo, demand: Demand, full_rows: npt.NDArray[np.intp]) -> str:
    """The sentence about a pod stuck with some of its volumes created, or empty. `full_rows`: rows without room."""
    waiting = [claim.key for claim in (*demand.pinned, *demand.loose)]
    if not waiting or len(full_rows) != 1:
        return ""
    row = int(full_rows[0])
    unused = list(_unused(cluster, pod, demand, row))
    if not unused:
        return ""
    names, node = " and ".join(unused), cluster.name(row)
    deletions = "; ".join(f"kubectl delete pvc -n {key.split('/')[0]} {key.split('/')[1]}" for key in unused)
    has, it = ("Claim {} has a new volume", "it") if len(unused) == 1 else ("Claims {} have new volumes", "them")
    return (
        f"{has.format(names)} on {node} that no pod uses, and no room for {', '.join(waiting)} is left there: "
        f"if nothing was written to {it}, delete {names} ({deletions}), and the pod may go elsewhere."
    )


def half_made_in(message: str) -> str:
    """The sentence of `half_made` in a pod's whole message; empty if there is none."""
    found = _SENTENCE.search(message)
    return found.group() if found is not None else ""


def _unused(cluster: Cluster, pod: PodInfo, demand: Demand, row: int) -> Iterator[Key]:
    """The pod's bound claims that tie it to a row although no pod uses their new volumes."""
    attached, pod_at = cluster.index(AttachedVolumes), pod.pod.metadata.creation_timestamp
    for claim, volume in demand.bound:
        made_at = volume.metadata.creation_timestamp if volume is not None else None
        if volume is None or made_at is None or pod_at is None or made_at < pod_at or claim.metadata.is_terminating:
            continue
        if not attached.users_of(claim.key) and not attached.of_volume[volume.name]:
            reached = np.flatnonzero(reachable(cluster, volume, cluster.all_rows) & cluster.exists[: cluster.size])
            if reached.tolist() == [row]:
                yield claim.key
