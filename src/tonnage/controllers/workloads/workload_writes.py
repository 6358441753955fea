"""Creates and deletes pods with random names, so that none is created twice; ControllerRevisions; status writes.

The random part of a name is chosen here, so that a create whose answer was lost can be looked up; `expectations`
keeps it until the cache shows it. A deletion names the pod's uid. The events are upstream's RealPodControl's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, TypeVar, cast

import msgspec

from tonnage.behaviour.workloads import templates
from tonnage.behaviour.workloads.pod_states import generated_name
from tonnage.behaviour.workloads.templates import Versioned
from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.workloads.workload_controller import (
    ControllerRefIndex,
    Expectations,
    claim_objects,
    is_in_doubt,
)
from tonnage.errors import AlreadyExists, ApiError, TonnageError
from tonnage.objects.apps_v1 import ControllerRevision
from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1 import Pod
from tonnage.objects.document import Doc, same
from tonnage.objects.meta import Object, Record
from tonnage.objects.selectors import selects

_FIRST_BATCH: Final = 1
_NAME_TRIES: Final = 8
"""How many random names are tried; an API server tries as many."""


class PodControl:
    """Writes pods for one controller. Failures are returned: other writes of the same round may have succeeded."""

    def __init__(self, context: ControllerContext, pods: Cache[Pod], expectations: Expectations) -> None:
        self._recorder = context.recorder
        self._rng = context.rng
        self._pods = pods
        self._expectations = expectations

    async def create(self, owner: Object, doc: Doc) -> TonnageError | None:
        """Create this pod under a random name that begins with its `generateName`."""
        metadata = doc["metadata"]
        for tries_left in reversed(range(_NAME_TRIES)):
            name = metadata["name"] = generated_name(metadata["generateName"], self._rng)
            try:
                pod = await self._expectations.create(owner.key, self._pods, doc)
            except TonnageError as exc:
                if isinstance(exc, AlreadyExists) and tries_left:
                    continue  # another pod has that name by chance
                if is_in_doubt(exc):
                    self._expectations.mark_in_doubt(owner.key, self._pods, f"{owner.namespace}/{name}")
                if is_namespace_terminating(exc):
                    return None
                self._recorder.event(owner, "Warning", "FailedCreate", "Create", f"Error creating: {exc.message}")
                return exc
            self._recorder.event(owner, "Normal", "SuccessfulCreate", "Create", f"Created pod: {name}", pod)
            break
        return None

    async def delete(self, owner: Object, pod: Pod) -> TonnageError | None:
        """Delete the pod of this uid; a pod that is already gone is no failure."""
        try:
            if not await self._expectations.delete(owner.key, self._pods, pod):
                return None
        except TonnageError as exc:
            if is_in_doubt(exc):
                self._expectations.mark_in_doubt(owner.key, self._pods, pod.key, pod.uid)
            self._recorder.event(owner, "Warning", "FailedDelete", "Delete", f"Error deleting: {exc.message}", pod)
            return exc
        self._recorder.event(owner, "Normal", "SuccessfulDelete", "Delete", f"Deleted pod: {pod.name}", pod)
        return None

    async def delete_all(self, owner: Object, pods: Sequence[Pod]) -> TonnageError | None:
        """Delete all pods concurrently. Returns the first failure."""
        return first_failure(await asyncio.gather(*(self.delete(owner, pod) for pod in pods)))


async def slow_start(count: int, act: Callable[[int], Awaitable[TonnageError | None]]) -> TonnageError | None:
    """Run `act` `count` times in growing batches of 1, 2, 4…, up to the first batch with a failure."""
    done, batch = 0, min(count, _FIRST_BATCH)
    while batch > 0:
        failure = first_failure(await asyncio.gather(*(act(done + n) for n in range(batch))))
        if failure is not None:
            return failure
        done += batch
        batch = min(2 * batch, count - done)
    return None


def first_failure(outcomes: Sequence[TonnageError | None]) -> TonnageError | None:
    return next((outcome for outcome in outcomes if outcome is not None), None)


def is_namespace_terminating(failure: TonnageError) -> bool:
    """True if the namespace is terminating: nothing can be, or has to be, created in it."""
    return isinstance(failure, ApiError) and any(cause.reason == "NamespaceTerminating" for cause in failure.causes)


class HistoryControl:
    """Reads and writes the ControllerRevisions of one controller's workloads."""

    def __init__(self, client: Client, revisions: Cache[ControllerRevision], expectations: Expectations) -> None:
        self._client = client
        self._revisions = revisions
        self._revisions_of = ControllerRefIndex(revisions)
        self._expectations = expectations

    async def revisions(self, owner: Versioned) -> list[ControllerRevision]:
        selector = owner.spec.selector
        found = await claim_objects(
            self._client, owner, self._revisions_of, lambda each: selects(selector, each.metadata.labels)
        )
        return templates.in_order(found)

    async def update_revision(
        self, owner: Versioned, ordered: Sequence[ControllerRevision]
    ) -> tuple[ControllerRevision, int]:
        """The current template's revision, created or renumbered if needed; and the collision count."""
        collisions = owner.status.collision_count or 0
        known, number = templates.wanted(owner, ordered)
        if known is None:
            return await self._new_revision(owner, number or 1, collisions)
        if number is None:
            return known, collisions
        patch: Doc = {"metadata": {"resourceVersion": known.metadata.resource_version}, "revision": number}
        return await self._expectations.patch(owner.key, self._revisions, known.key, patch), collisions

    async def _new_revision(self, owner: Versioned, number: int, collisions: int) -> tuple[ControllerRevision, int]:
        while True:
            doc = templates.new_revision(owner, number, collisions)
            try:
                return await self._expectations.create(owner.key, self._revisions, doc), collisions
            except AlreadyExists:
                made = await self._client.get(ControllerRevision, f"{owner.namespace}/{doc['metadata']['name']}")
            if same(made.data, doc["data"]):
                self._expectations.expect_written(owner.key, self._revisions, made)
                return made, collisions
            collisions += 1

    async def forget(self, owner: Versioned, ordered: Sequence[ControllerRevision], live: Collection[str]) -> None:
        """Delete revisions beyond the history limit; `live` names the revisions in use."""
        for revision in templates.outdated(owner, ordered, live):
            await self._expectations.delete(owner.key, self._revisions, revision)


T = TypeVar("T", bound=Object)


async def write_status(
    client: Client, found: T, status: Record, *, annotations: dict[str, str] | None = None
) -> T | None:
    """Replace the status, and set annotations if the kind allows it. Returns the object after that.

    None when nothing changes. Raises Conflict when the object has changed since it was read.
    """
    was = cast(Record, found.status)  # type: ignore[attr-defined]  # every kind with a controller has a status
    new = {key: text for key, text in (annotations or {}).items() if found.metadata.annotations.get(key) != text}
    if status == was and not new:
        return None
    patch: Doc = {
        "metadata": {"uid": found.uid, "resourceVersion": found.metadata.resource_version},
        "status": replacing(status, was),
    }
    if new:
        patch["metadata"]["annotations"] = new
    return await client.patch(type(found), found.key, patch, subresource="status")


def replacing(new: Record, was: Record) -> Doc:
    """A merge patch that turns `was` into `new`: fields at their default are removed."""
    doc, old = to_doc(new), to_doc(was)
    wanted: Doc = {field.encode_name: doc.get(field.encode_name) for field in msgspec.structs.fields(type(new))}
    return {name: _emptied(value, old.get(name)) for name, value in wanted.items() if value is not None or name in old}


def _emptied(value: object, was: object) -> object:
    """A map with null for its removed keys, because the server merges maps; lists and numbers are replaced."""
    if isinstance(value, dict) and isinstance(was, dict):
        return {**dict.fromkeys(was), **value}
    return value
