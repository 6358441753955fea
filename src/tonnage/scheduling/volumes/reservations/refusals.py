"""Claims whose volumes cannot be made, whatever room there is: what is kept back for them rests.

The last word on the claim, by event (ProvisioningFailed) or our provisioner's annotation, is a refusal for good. It
counts until selected-node or the claim changes, another word comes, or the volume is there. An event counts if it was
written after the claim was given its node, by the server's clock; where a time is not told, any event counts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from tonnage.objects.core_v1 import Event, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import annotated_refusal, is_for_good
from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.volumes.shelf import Shelf


class Refusals:
    """The last words on claims: `cluster.index(Refusals)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._storage = cluster.storage
        self.on_change: list[Callable[[Key], None]] = []
        """Called with the key of a claim after another word on it came, or one went."""
        self._of_claim: Shelf[Key, Key, Event] = Shelf()
        self._asked_at: dict[Key, datetime | None] = {}
        """When claims were first seen in the API with the node and the spec that they have."""
        for claim in self._storage.claims:
            self._claim_changed(None, claim)
        for event in self._storage.provisioning_failures.values():
            self._event_changed(None, event)
        self._storage.on_change(PersistentVolumeClaim, self._claim_changed)
        self._storage.on_change(Event, self._event_changed)

    def of(self, claim: PersistentVolumeClaim) -> str:
        """Why a claim's volume cannot be made, in the provisioner's words; empty if nothing says so."""
        if claim.is_bound or not claim.selected_node:
            return ""
        known = self._storage.claims.api(claim.key)
        if known is None or known.uid != claim.uid or known.selected_node != claim.selected_node:
            return ""  # it is about to be sent there: nobody can have said anything about it
        return annotated_refusal(claim) or self._told_by_events(claim)

    def _told_by_events(self, claim: PersistentVolumeClaim) -> str:
        events = [each for each in self._of_claim[claim.key] if each.involved_object.uid in ("", claim.uid)]
        last = max(events, key=_order, default=None)
        if last is None or not is_for_good(last.message):
            return ""
        asked_at, told_at = self._asked_at.get(claim.key), last.metadata.updated_at
        is_old = asked_at is not None and told_at is not None and told_at < asked_at
        return "" if is_old else last.message

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        known = new or old
        if known is None:
            return
        if new is None or old is None or _asked(old) != _asked(new):
            self._asked_at.pop(known.key, None)
        if new is not None and new.selected_node and not new.is_bound and not self._storage.claims.is_assumed(new.key):
            self._asked_at.setdefault(new.key, new.metadata.updated_at)

    def _event_changed(self, old: Event | None, new: Event | None) -> None:
        known = new or old
        if known is None:
            return
        about = known.involved_object
        claim = f"{about.namespace or known.namespace}/{about.name}"
        if new is None:
            self._of_claim.take(claim, known.key)
        else:
            self._of_claim.put(claim, known.key, new)
        for changed in self.on_change:
            changed(claim)


def _asked(claim: PersistentVolumeClaim) -> object:
    return claim.uid, claim.selected_node, claim.spec


def _order(event: Event) -> tuple[float, float, int]:
    """By when events were last written, else by when their writers say they happened."""
    series_at = event.series.last_observed_time if event.series is not None else None
    happened_at = max(
        (each for each in (event.last_timestamp, series_at, event.event_time) if each is not None), default=None
    )
    written_at = event.metadata.updated_at or happened_at
    stamps = [each.timestamp() if each is not None else 0.0 for each in (written_at, happened_at)]
    return stamps[0], stamps[1], event.metadata.revision
