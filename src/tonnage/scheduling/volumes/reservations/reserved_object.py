"""One capacity object that is kept back whole: by whom, for which claims, and how far those have come.

`object_reservations.py` says when a reservation begins and ends; this is what it writes into.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.reservations.holds import WAITS_FOR_REFRESH, Hold


class ReservedObject:
    """One object, held for some claims by a pod, or by several that share one of them."""

    __slots__ = (
        "asked_at",
        "bound_at",
        "capacity",
        "claims",
        "is_bound",
        "is_under_way",
        "looked_at",
        "node_of",
        "pods",
        "rebuilds",
        "since",
        "taken_bytes",
        "timeout_s",
        "uid",
        "version",
        "waited",
    )

    def __init__(
        self,
        capacity: CSIStorageCapacity,
        version: str,
        pods: Sequence[PodInfo],
        claims: Sequence[PersistentVolumeClaim],
        since: datetime,
        taken_bytes: int,
        timeout_s: float | None = None,
        asked_at: datetime | None = None,
    ) -> None:
        self.capacity = capacity
        """As it was reserved; as it is since its pools are kept by another than before."""
        self.taken_bytes = taken_bytes
        self.uid = identity(capacity)
        self.version = version
        self.pods = {each.uid: each for each in pods}
        """Who holds it, by uid; the first of them is told. Nobody, for a rebuild that outlives its pod."""
        self.claims = tuple(claims)
        self.since = since
        self.asked_at = asked_at
        """The same by the server's clock, as far as it is known."""
        self.timeout_s = timeout_s
        """How long it is kept after its claims are bound, as the profile of its pods has it; None: not known."""
        self.waited = {each.key: each.uid for each in claims}
        """The claims that are still on their way or bound, with their uids; those that were given back are not."""
        any_node = next((each.selected_node for each in claims if each.selected_node), "")
        self.node_of = {each.key: each.selected_node or any_node for each in claims}
        """Where each claim is going to be made. An object may reach several nodes, and be held for claims on them."""
        self.is_bound = False
        self.bound_at: datetime | None = None
        """When the last of its claims was seen bound, by the server's clock as well."""
        self.looked_at: datetime | None = None
        """When its pools had been looked at last when they were."""
        self.rebuilds = {each.key for each in claims if each.is_bound}
        self.is_under_way = False
        """A volume that is rebuilt has not arrived."""

    def is_for(self, own: Collection[Key]) -> bool:
        """Whether claims that are judged as one group have it: they are all it is held for, or are among those."""
        return bool(self.waited) and (self.waited.keys() <= set(own) or all(key in self.waited for key in own))

    def shares_claims_with(self, claims: Sequence[PersistentVolumeClaim]) -> bool:
        return any(
            self.waited.get(each.key) == each.uid and each.selected_node in ("", self.node_of[each.key])
            for each in claims
        )

    def is_lost(self, claim: PersistentVolumeClaim | None) -> bool:
        """Whether a claim, as it is now, is no longer going to be made there."""
        if claim is None or claim.uid != self.waited[claim.key]:
            return True
        node_name = self.node_of[claim.key]
        return bool(node_name) and claim.selected_node != node_name

    def as_hold(self) -> Hold:
        why = "waits for its claims to be bound"
        if self.is_under_way:
            why = "waits for its volumes to be rebuilt"
        elif self.rebuilds and self.is_bound:
            why = "its volumes are rebuilt; waits for the object to be refreshed"
        elif self.is_bound:
            why = WAITS_FOR_REFRESH
        return Hold(
            capacity=self.capacity.key,
            uid=self.uid,
            pod=next((each.key for each in self.pods.values()), ""),
            claims=tuple(each.key for each in self.claims),
            bytes=self.taken_bytes,
            since=self.since,
            why=why,
            timeout_s=self.timeout_s,
            is_rebuild=self.is_under_way,
        )
