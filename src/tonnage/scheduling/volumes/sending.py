"""A pod's claims on their way to the API in PreBind: all at once, or one after the other where the order decides.

    due ──► write ──► look: a claim is bound, the figures show it ──► due ──► … ──► every volume is there

`claim_sequences.py` says which claim is next, `bind_volumes.py` writes them and watches over those that are written.
"""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.framework import SUCCESS, Api, Code, Status
from tonnage.scheduling.volumes import bind_volumes
from tonnage.scheduling.volumes.bind_volumes import Assumed
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.claim_sequences import NoLongerFits, next_claims
from tonnage.scheduling.volumes.plan import ClaimSequence, VolumePlan
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.scheduling.volumes.volume_fit import VolumeFit

LOOK_EVERY_S = 5.0
"""How often a wait for figures is looked at when nothing happens: promises also end by the clock."""


class Sending:
    """What is sent of one pod's claims, and what is to be sent next."""

    def __init__(self, fit: VolumeFit, plan: VolumePlan, assumed: Assumed) -> None:
        self._fit = fit
        self._cluster: Cluster = fit.cluster
        self._sequences: Sequence[ClaimSequence] = plan.sequences
        self._assumed = assumed
        assumed.unsent = {key for each in plan.sequences for key in each.unsent}
        self._capacity_of = {each.claim.key: each.capacity for each in plan.provisions}
        self._version_at: dict[Key, str] = {}
        """The resourceVersion of a claim's object when the claim was sent."""
        self._due = [each.key for each in assumed.claims if each.key not in assumed.unsent]
        self.failure: Status | None = None
        """What went wrong; nothing more is sent then."""
        self._take_next()

    def due(self) -> Sequence[Key]:
        """The claims to write now: at first all that wait for no other, and the first of each group."""
        due, self._due = self._due, []
        for key in due:
            self._version_at[key] = self._version_of(key)
        self._assumed.unsent.difference_update(due)
        if self._fit.policy.promised is not None and self._sequences:
            self._cluster.index(Ledger).send(due)
        return due

    def look(self, api: Api) -> Status | None:
        """SUCCESS when all volumes are there, or when there are claims to write (`due`); an ERROR; None: not yet."""
        found = bind_volumes.check(self._cluster, self._assumed, api)
        if found is None and self._assumed.unsent:
            bind_volumes.assume_again(self._cluster.storage, self._assumed)
            self._take_next()
            found = self.failure or (SUCCESS if self._due else None)
        if found is not None and not found.is_success:
            self.failure = found
        return found

    def _take_next(self) -> None:
        for each in self._sequences:
            if not all(bind_volumes.is_made(self._cluster, self._assumed, key) for key in each.under_way):
                continue
            try:
                keys = next_claims(self._fit, each, self._is_shown)
            except NoLongerFits:
                self.failure = self._gone_by(each)
                return
            if keys:
                each.send(keys)
                self._due += keys

    def _gone_by(self, sequence: ClaimSequence) -> Status:
        claims, made = ", ".join(sorted(sequence.unsent)), ", ".join((*sequence.made, *sequence.under_way))
        after = f" beside the volume made for {made}" if made else ""
        told = f'no room is left on node "{self._assumed.node_name}" for {claims}{after}; no volume was asked for'
        return Status(Code.ERROR, (told,))

    def _is_shown(self, key: Key) -> bool:
        """Whether the figures that claims are judged by show a claim's volume, as far as anybody can tell."""
        capacity = self._capacity_of.get(key)
        if capacity is None:
            return True
        uid = identity(capacity)
        if self._fit.policy.promised is not None:
            return key not in self._cluster.index(Ledger).promises(uid)
        if self._fit.policy.is_reserved is not None:
            hold = self._cluster.index(Reservations).hold_on(uid)
            return hold is None or key not in hold.claims
        return self._version_of(key) != self._version_at.get(key)

    def _version_of(self, key: Key) -> str:
        capacity = self._capacity_of.get(key)
        known = self._cluster.storage.capacities.get(capacity.key) if capacity is not None else None
        return known.metadata.resource_version if known is not None else ""

    async def send(self, api: Api, timeout_s: float) -> Status:
        """Wait for the volumes of claims that are written and write those that follow, until all volumes are there."""
        storage, clock = self._cluster.storage, self._cluster.clock
        if not self._sequences:
            return await api.settled(lambda: self.look(api), timeout_s)
        ends_at = clock.monotonic() + timeout_s
        while True:
            left_s = max(ends_at - clock.monotonic(), 0.0)
            status = await api.settled(lambda: self.look(api), min(left_s, LOOK_EVERY_S))
            if due := self.due():
                await bind_volumes.write(api, storage, self._assumed, due)
            elif status.is_success or self.failure is not None or left_s <= LOOK_EVERY_S:
                return status
