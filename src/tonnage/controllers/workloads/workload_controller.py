"""The base of the workload controllers: owned objects, expectations, queue, pods. Kinds differ only in `sync`.

A workload adopts *orphans* of its namespace that match its selector and releases owned objects that no longer match;
both patches name the object's uid. Before the first adoption the owner is read again: a terminating owner must not
adopt what its deletion has just orphaned. A controller that counted before it saw its own writes would write twice,
so it waits until its cache shows all of its `Expectations`. Mirrors controller_ref_manager.go, controller_utils.go.

Pods are created and deleted with random names. The random part is chosen here, so that a create whose answer was lost
can be looked up, and none is created twice; `Expectations` keeps it until the cache shows it. A deletion names the
pod's uid. The events are upstream's RealPodControl's.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from tonnage import logs
from tonnage.behaviour.workloads import pod_states, templates
from tonnage.client.cache import Cache, Indexer
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client, PatchType
from tonnage.clock import Clock
from tonnage.controllers import controller_context
from tonnage.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound, RequestEntityTooLarge, TonnageError
from tonnage.objects import batch_v1, codec, selectors
from tonnage.objects.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Pod, ReplicationController
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Object, Record, revision_of

_log = logs.logger("tonnage.controllers.workloads.workload_controller")


T = TypeVar("T", bound=Object)


def by_controller(objects: Cache[T]) -> Indexer[T]:
    """Cached objects by the uid of their controller; those without one, the orphans, by `namespace/`."""

    def keys_of(found: Object) -> tuple[str]:
        controller = found.metadata.controller
        return (f"{found.namespace}/" if controller is None else controller.uid,)  # a uid has no slash

    return Indexer(objects, keys_of)


async def claim_objects(
    client: Client, owner: Object, index: Indexer[T], matches: Callable[[T], bool], *, finalizer: str = ""
) -> list[T]:
    """Adopt and release, then return the owner's objects. Adoption adds `finalizer`, release removes it.

    Raises Conflict when the owner is being deleted or is another; objects not patched are tried next time. Mirrors
    BaseControllerRefManager.ClaimObject.
    """
    is_going = owner.metadata.is_terminating
    owned: list[T] = []
    for found in index(owner.uid):
        if matches(found):
            owned.append(found)
        elif not is_going:
            await _release(client, owner, found, finalizer)
    orphans = () if is_going else index(f"{owner.namespace}/")
    adoptable = [found for found in orphans if not found.metadata.is_terminating and matches(found)]
    if not adoptable:
        return owned
    fresh = await client.get(type(owner), owner.key)
    if fresh.uid != owner.uid or fresh.metadata.is_terminating:
        kind = codec.resource_of(type(owner)).kind
        raise Conflict(f"{kind} {owner.key} does not adopt: it has just been deleted", name=owner.name, uid=owner.uid)
    adopted = [await _adopt(client, owner, orphan, finalizer) for orphan in adoptable]
    return [*owned, *(found for found in adopted if found is not None)]


async def _adopt(client: Client, owner: Object, found: T, finalizer: str) -> T | None:
    patch: Doc = {"metadata": {"uid": found.uid, "ownerReferences": [codec.to_doc(templates.controller_ref(owner))]}}
    if finalizer:
        patch["metadata"]["finalizers"] = [finalizer]
    try:
        adopted = await client.patch(type(found), found.key, patch, patch_type="strategic")
    except NotFound:
        return None
    except RequestEntityTooLarge as exc:
        _log.warning("Not adopted: it has no room for its owner", owner=owner.key, object=found.key, error=exc.message)
        return None
    _log.info("Adopted", owner=owner.key, object=found.key)
    return adopted


async def _release(client: Client, owner: Object, found: Object, finalizer: str) -> None:
    patch: Doc = {"metadata": {"uid": found.uid, "ownerReferences": [{"$patch": "delete", "uid": owner.uid}]}}
    if finalizer:
        patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = [finalizer]
    try:
        await client.patch(type(found), found.key, patch, patch_type="strategic")
    except (NotFound, Invalid):
        return  # gone, made again under its name, or released already
    _log.info("Released", owner=owner.key, object=found.key)


TIMEOUT_S: Final = 300.0


class Expectations:
    """Writes the objects of workloads, and knows by workload key which writes the cache does not show yet.

    A write is met once the cache has reached its revision; a deletion once the cache no longer shows that uid or shows
    it terminating. A write whose answer was lost is in doubt until `resolve_doubts` has read the object. Expectations
    are dropped after five minutes: a server restored from a backup counts from an older revision. A new process has
    none: it lists what the old one wrote.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._expected: dict[Key, list[tuple[Callable[[], bool], float]]] = {}
        """By workload: functions that tell whether a write is shown, with the time of the write."""
        self._doubts: dict[Key, list[tuple[Cache[Any], Key, str]]] = {}

    async def create(self, owner: Key, cache: Cache[T], doc: Doc) -> T:
        metadata = doc["metadata"]
        with self._doubting(owner, cache, f"{metadata['namespace']}/{metadata['name']}"):
            made = codec.convert(cache.cls, await self._client.create_doc(doc))
        self.expect_written(owner, cache, made)
        return made

    async def patch(self, owner: Key, cache: Cache[T], key: Key, patch: Doc, *, patch_type: PatchType = "merge") -> T:
        with self._doubting(owner, cache, key):
            patched = await self._client.patch(cache.cls, key, patch, patch_type=patch_type)
        self.expect_written(owner, cache, patched)
        return patched

    async def delete(self, owner: Key, cache: Cache[T], found: T) -> bool:
        """Delete the object of this uid, and expect the deletion; False when it was already gone."""
        was_there = True
        try:
            with self._doubting(owner, cache, found.key, found.uid):
                await self._client.delete(cache.cls, found.key, uid=found.uid)
        except NotFound:
            was_there = False
        self.expect_deleted(owner, cache, found.key, found.uid)
        return was_there

    @contextmanager
    def _doubting(self, owner: Key, cache: Cache[Any], key: Key, uid: str = "") -> Iterator[None]:
        try:
            yield
        except TonnageError as exc:
            if is_in_doubt(exc):
                self.mark_in_doubt(owner, cache, key, uid)
            raise

    def expect_written(self, owner: Key, cache: Cache[Any], written: Object) -> None:
        """Expect the object that the server returned for a create or an update."""
        revision = written.metadata.revision
        self._expect(owner, lambda: revision_of(cache.resource_version) >= revision)

    def expect_deleted(self, owner: Key, cache: Cache[Any], key: Key, uid: str) -> None:
        """Expect a deletion that the server has accepted."""

        def is_met() -> bool:
            shown = cache.get(key)
            return shown is None or shown.uid != uid or shown.metadata.is_terminating

        self._expect(owner, is_met)

    def mark_in_doubt(self, owner: Key, cache: Cache[Any], key: Key, uid: str = "") -> None:
        """Note a create or update of this object, or with `uid` its deletion, that got no answer."""
        self._doubts.setdefault(owner, []).append((cache, key, uid))

    async def resolve_doubts(self, owner: Key) -> None:
        """Ask the server about the writes in doubt. Raises the client's errors, and then all writes stay in doubt."""
        for cache, key, uid in tuple(self._doubts.get(owner, ())):
            found: Object | None = await self._client.find(cache.cls, key)
            if uid:
                if found is None or found.uid != uid or found.metadata.is_terminating:
                    self.expect_deleted(owner, cache, key, uid)
            elif found is not None:
                self.expect_written(owner, cache, found)
            self._doubts[owner].remove((cache, key, uid))
        self._doubts.pop(owner, None)

    def are_satisfied(self, owner: Key) -> bool:
        """True if the cache shows all known writes and none is in doubt."""
        expected = self._expected.get(owner)
        if not expected:
            return owner not in self._doubts
        now_s = self._clock.monotonic()
        left = [(is_met, since_s) for is_met, since_s in expected if not is_met()]
        if any(now_s - since_s > TIMEOUT_S for _, since_s in left):
            _log.warning("The cache did not show our own writes in time; they are forgotten", owner=owner)
            left = []
        if left:
            self._expected[owner] = left
        else:
            self._expected.pop(owner)
        return not left and owner not in self._doubts

    def forget(self, owner: Key) -> None:
        self._expected.pop(owner, None)
        self._doubts.pop(owner, None)

    def _expect(self, owner: Key, is_met: Callable[[], bool]) -> None:
        self._expected.setdefault(owner, []).append((is_met, self._clock.monotonic()))


def is_in_doubt(failure: TonnageError) -> bool:
    """True if the failed write may have been carried out."""
    if isinstance(failure, ApiError):
        return failure.code >= 500
    return isinstance(failure, Disconnected) and failure.in_doubt


AnyWorkload = DaemonSet | Deployment | batch_v1.Job | ReplicaSet | ReplicationController | StatefulSet
Workload = TypeVar("Workload", bound=AnyWorkload)
Dependent = TypeVar("Dependent", bound=Object)

RESYNC_S: Final = 1.0
"""How soon to sync again while own writes are not seen; their events mostly come sooner."""
_WORKERS: Final = 5
_AS_WRITTEN: Final = timedelta(seconds=1)
"""Times that differ by less count as equal."""


def selector_of(workload: AnyWorkload) -> selectors.LabelSelector | None:
    """The selector of the pods it may own; None, which selects none, for a ReplicationController without a selector."""
    if isinstance(workload, ReplicationController):
        labels = workload.spec.selector
        return selectors.LabelSelector(match_labels=labels) if labels else None
    return workload.spec.selector


class WorkloadController(controller_context.QueueController, ABC, Generic[Workload, Dependent]):
    """Syncs the workloads of one kind, which own objects of another kind."""

    def __init__(
        self,
        context: controller_context.ControllerContext,
        name: str,
        workloads: Cache[Workload],
        dependents: Cache[Dependent],
    ) -> None:
        super().__init__(context)
        self._workloads: Cache[Workload] = workloads
        self._kind = codec.resource_of(workloads.cls).kind
        self._owned = by_controller(dependents)
        self._expectations = Expectations(context.client, context.clock)
        self._rejected = pod_states.RejectedPods(context.clock)
        self._reconciler = self._add_queue(name, self._reconcile, workers=_WORKERS)
        self._workloads_in = Indexer(workloads, controller_context.namespace_of)
        self._reconciler.follow(workloads)
        self._reconciler.follow(dependents, self._owners_of)

    def _owners_of(self, found: Dependent) -> list[Key]:
        """The workload of an object; for an orphan, every workload of its namespace that would adopt it."""
        if found.metadata.controller is not None:
            return self._owner_of(found)
        near = self._workloads_in(found.namespace)
        return [owner.key for owner in near if selectors.selects(selector_of(owner), found.metadata.labels)]

    def _measured(self, pods: Sequence[Pod], min_ready_s: int) -> list[Pod]:
        """The pods, ready since when the current clock would have written: setting it makes no pod available."""
        now, measured = self._clock.now(), list(pods)
        for idx, pod in enumerate(pods if min_ready_s > 0 else ()):
            since = pod_states.ready_since(pod)
            at = now if since is None else now - timedelta(seconds=self._ages.age_s(pod.uid, since))
            if since is not None and abs(at - since) > _AS_WRITTEN:
                measured[idx] = pod_states.with_ready_since(pod, at)
        return measured

    async def _claimed(
        self, owner: Workload, *, is_member: Callable[[Dependent], bool] = lambda found: True, finalizer: str = ""
    ) -> list[Dependent]:
        """Adopt and release by the selector, then return the workload's objects."""
        selector = selector_of(owner)

        def matches(found: Dependent) -> bool:
            return is_member(found) and selectors.selects(selector, found.metadata.labels)

        return await claim_objects(self._client, owner, self._owned, matches, finalizer=finalizer)

    def _owner_of(self, found: Object) -> list[Key]:
        """The workload that controls the object, if it is of this kind."""
        owner = found.metadata.controller
        return [f"{found.namespace}/{owner.name}"] if owner is not None and owner.kind == self._kind else []

    @abstractmethod
    async def sync(self, workload: Workload, /, *, is_current: bool) -> float | None:
        """Take the next step for a workload. Returns the seconds until the next call; None to wait for an event.

        `is_current`: the caches show everything that this controller has written for the workload.
        """

    async def _reconcile(self, key: Key) -> float | None:
        workload = self._workloads.get(key)
        if workload is None:
            self._expectations.forget(key)
            self._rejected.forget(key)
            return None
        await self._expectations.resolve_doubts(key)
        # Checked before objects are listed: every later list shows the writes that are met now.
        return await self.sync(workload, is_current=self._expectations.are_satisfied(key))


_NAME_TRIES: Final = 8
"""How many random names are tried; an API server tries as many."""


class PodOwnerController(WorkloadController[Workload, Pod], Generic[Workload]):
    """Writes the pods of workloads. Failures are returned: other writes of the same round may have succeeded."""

    def __init__(self, context: controller_context.ControllerContext, name: str, workloads: Cache[Workload]) -> None:
        self._pods = context.informers.of(Pod)
        super().__init__(context, name, workloads, self._pods)

    async def _create_pod(self, owner: Workload, doc: Doc) -> TonnageError | None:
        """Create this pod under a random name that begins with its `generateName`."""
        metadata = doc["metadata"]
        for tries_left in reversed(range(_NAME_TRIES)):
            name = metadata["name"] = pod_states.generated_name(metadata["generateName"], self._rng)
            try:
                pod = await self._expectations.create(owner.key, self._pods, doc)
            except TonnageError as exc:
                if isinstance(exc, AlreadyExists) and tries_left:
                    continue  # another pod has that name by chance
                if controller_context.is_namespace_terminating(exc):
                    return None
                self._recorder.event(owner, "Warning", "FailedCreate", "Create", f"Error creating: {exc.message}")
                return exc
            self._recorder.event(owner, "Normal", "SuccessfulCreate", "Create", f"Created pod: {name}", pod)
            break
        return None

    async def _delete_pod(self, owner: Workload, pod: Pod) -> TonnageError | None:
        """Delete the pod of this uid; a pod that is already gone is no failure."""
        try:
            if not await self._expectations.delete(owner.key, self._pods, pod):
                return None
        except TonnageError as exc:
            self._recorder.event(owner, "Warning", "FailedDelete", "Delete", f"Error deleting: {exc.message}", pod)
            return exc
        self._recorder.event(owner, "Normal", "SuccessfulDelete", "Delete", f"Deleted pod: {pod.name}", pod)
        return None

    async def _delete_pods(self, owner: Workload, pods: Sequence[Pod]) -> TonnageError | None:
        """Delete all pods concurrently. Returns the first failure."""
        return first_failure(await asyncio.gather(*(self._delete_pod(owner, pod) for pod in pods)))


async def slow_start(count: int, act: Callable[[int], Awaitable[TonnageError | None]]) -> TonnageError | None:
    """Run `act` `count` times in growing batches of 1, 2, 4…, up to the first batch with a failure."""
    done, batch = 0, min(count, 1)
    while batch > 0:
        failure = first_failure(await asyncio.gather(*(act(done + n) for n in range(batch))))
        if failure is not None:
            return failure
        done += batch
        batch = min(2 * batch, count - done)
    return None


def first_failure(outcomes: Sequence[TonnageError | None]) -> TonnageError | None:
    return next((outcome for outcome in outcomes if outcome is not None), None)


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
    doc, old = codec.to_doc(new), codec.to_doc(was)
    wanted: Doc = {field.encode_name: doc.get(field.encode_name) for field in msgspec.structs.fields(type(new))}
    return {name: _emptied(value, old.get(name)) for name, value in wanted.items() if value is not None or name in old}


def _emptied(value: object, was: object) -> object:
    """A map with null for its removed keys, because the server merges maps; lists and numbers are replaced."""
    if isinstance(value, dict) and isinstance(was, dict):
        return {**dict.fromkeys(was), **value}
    return value
