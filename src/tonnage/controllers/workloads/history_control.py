"""The history of StatefulSets and DaemonSets against the API: revisions adopted, made, renumbered and forgotten.

What is wanted is `controller_history`; here it is written. A name follows from its template: a revision that is there
already is the one that was meant, unless another template has the same hash, and then the name is made anew.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tonnage.behaviour.workloads import controller_history
from tonnage.behaviour.workloads.controller_history import Versioned
from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.controllers.workloads.controller_refs import ControllerRefIndex, claim_objects
from tonnage.controllers.workloads.expectations import Expectations
from tonnage.errors import AlreadyExists, NotFound
from tonnage.objects import codec
from tonnage.objects.apps_v1 import ControllerRevision
from tonnage.objects.document import Doc, same
from tonnage.objects.selectors import selects


class HistoryControl:
    """Reads and writes the ControllerRevisions of one controller's workloads."""

    def __init__(self, client: Client, revisions: Cache[ControllerRevision], expectations: Expectations) -> None:
        self._client = client
        self._revisions = revisions
        self._revisions_of = ControllerRefIndex(revisions)
        self._expectations = expectations

    async def revisions(self, owner: Versioned) -> list[ControllerRevision]:
        """The revisions of this owner in their order, after adoptions and releases."""
        selector = owner.spec.selector
        return controller_history.in_order(
            await claim_objects(
                self._client, owner, self._revisions_of, lambda each: selects(selector, each.metadata.labels)
            )
        )

    async def update_revision(
        self, owner: Versioned, ordered: Sequence[ControllerRevision]
    ) -> tuple[ControllerRevision, int]:
        """The revision of the present template, made or renumbered if need be; and how often names collided so far."""
        collisions = owner.status.collision_count or 0
        wanted = controller_history.wanted(owner, ordered)
        if wanted.known is not None and wanted.number is None:
            return wanted.known, collisions
        if wanted.known is not None:
            known = wanted.known
            patch: Doc = {"metadata": {"resourceVersion": known.metadata.resource_version}, "revision": wanted.number}
            renumbered = await self._client.patch(ControllerRevision, known.key, patch)
            self._expectations.expect_written(owner.key, self._revisions, renumbered)
            return renumbered, collisions
        return await self._new_revision(owner, wanted.number or 1, collisions)

    async def _new_revision(self, owner: Versioned, number: int, collisions: int) -> tuple[ControllerRevision, int]:
        while True:
            doc = controller_history.new_revision(owner, number, collisions)
            try:
                made = codec.convert(ControllerRevision, await self._client.create_doc(doc))
            except AlreadyExists:
                made = await self._client.get(ControllerRevision, f"{owner.namespace}/{doc['metadata']['name']}")
                if not same(made.data, doc["data"]):
                    collisions += 1
                    continue
            self._expectations.expect_written(owner.key, self._revisions, made)
            return made, collisions

    async def forget(self, owner: Versioned, ordered: Sequence[ControllerRevision], live: Collection[str]) -> None:
        """Delete what is beyond the history limit; `live` names the revisions that are in use."""
        for each in controller_history.outdated(owner, ordered, live):
            try:
                await self._client.delete(ControllerRevision, each.key, uid=each.uid)
            except NotFound:
                continue
            self._expectations.expect_deleted(owner.key, self._revisions, each.key, each.uid)
