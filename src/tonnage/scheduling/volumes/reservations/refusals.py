"""Claims whose volumes cannot be created, whatever room there is: they hold no capacity.

That is so if the last ProvisioningFailed event or annotation of our provisioner is a final refusal. It counts until
selected-node or the claim changes, a newer message comes, or the volume exists. An event counts if the server's clock
says that it was written after the claim was given its node; an event without a time always counts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import Event, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import annotated_refusal, is_for_good
from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.storage import either


class Refusals:
    """The last provisioning message on each claim."""

    def __init__(self, cluster: Cluster) -> None:
        self._storage = cluster.storage
        self.on_change: list[Callable[[Key], None]] = []
        """Called with a claim's key after its last message changed."""
        self._of_claim: Shelf[Key, Key, Event] = Shelf()
        self._asked_at: dict[Key, datetime | None] = {}
        """When each claim was first seen in the API with its current node and spec."""
        for claim in self._storage.claims:
            self._claim_changed(None, claim)
        for event in self._storage.provisioning_failures.values():
            self._event_changed(None, event)
        self._storage.on_change(PersistentVolumeClaim, self._claim_changed)
        self._storage.on_change(Event, self._event_changed)

    def of(self, claim: PersistentVolumeClaim) -> str:
        """Why the claim's volume cannot be created, in the provisioner's words; empty if it can."""
        node_name = claim.selected_node
        if not node_name or claim.is_bound:
            return ""
        known = self._storage.claims.api(claim.key)
        if known is None or known.selected_node != node_name or known.uid != claim.uid:
            return ""  # it is not written yet: nobody can have refused it
        if refusal := annotated_refusal(claim):
            return refusal
        events = [event for event in self._of_claim[claim.key] if event.involved_object.uid in ("", claim.uid)]
        last = max(events, key=_order, default=None)
        if last is None or not is_for_good(last.message):
            return ""
        asked_at, told_at = self._asked_at.get(claim.key), last.metadata.updated_at
        is_old = asked_at is not None and told_at is not None and told_at < asked_at
        return "" if is_old else last.message

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        key = either(old, new).key
        if (
            new is None
            or old is None
            or (old.uid, old.selected_node, old.spec) != (new.uid, new.selected_node, new.spec)
        ):
            self._asked_at.pop(key, None)
        if new is not None and not self._storage.claims.is_assumed(key) and new.selected_node and not new.is_bound:
            self._asked_at.setdefault(key, new.metadata.updated_at)

    def _event_changed(self, old: Event | None, new: Event | None) -> None:
        known = either(old, new)
        about = known.involved_object
        claim = f"{about.namespace or known.namespace}/{about.name}"
        if new is None:
            self._of_claim.take(claim, known.key)
        else:
            self._of_claim.put(claim, known.key, new)
        for changed in self.on_change:
            changed(claim)


def _order(event: Event) -> tuple[float, float, int]:
    """Events in the order of their last write, or else of the time that their writers give."""
    series_at = event.series.last_observed_time if event.series is not None else None
    happened_at = max(
        (each for each in (event.last_timestamp, series_at, event.event_time) if each is not None), default=None
    )
    written_at = event.metadata.updated_at or happened_at
    stamps = [each.timestamp() if each is not None else 0.0 for each in (written_at, happened_at)]
    return stamps[0], stamps[1], event.metadata.revision
