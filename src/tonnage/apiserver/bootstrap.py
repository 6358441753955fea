"""What a server writes and deletes by itself.

At every start: system objects (`documents/admission.py`), and Kubernetes' roles and bindings
(`documents/access/bootstrap_policy.py`). While it runs: aggregated ClusterRoles are kept up to date (upstream leaves
that to kube-controller-manager, which needs the right to escalate for it), and Events are deleted --event-ttl after
they were last written, as kube-apiserver's are. The age of an Event is measured from when this server first saw it, so
setting the system clock neither deletes nor keeps events. etcd's leases do the same.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from tonnage.apiserver.authorizer import CLUSTER_ROLES
from tonnage.apiserver.registry import Registry, done_on_change
from tonnage.apiserver.requests import Location, WriteOptions
from tonnage.apiserver.stored_documents import encoder
from tonnage.clock import Clock, in_background, parse_rfc3339
from tonnage.documents.access.bootstrap_policy import bootstrap_policy, must_be_recreated, reconciled
from tonnage.documents.access.rules import aggregated_rules
from tonnage.documents.admission import SYSTEM_NAMESPACES, SYSTEM_PRIORITY_CLASSES, kubernetes_service
from tonnage.errors import ApiError, NotFound, TonnageError
from tonnage.objects.document import Doc, decode, dig
from tonnage.objects.resources import BY_KIND, Resource
from tonnage.store.errors import KeyDamaged, StoreError, StoreFull
from tonnage.store.records import StoreRecord

_log = logging.getLogger(__name__)
_OPTIONS = WriteOptions(manager="tonnage-apiserver")
_RETRY_S = 5.0
"""How long a step that found the disk full waits before its next try."""


@asynccontextmanager
async def taken_when_there_is_room(step: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Take a step now or, if the disk is full, while the block runs. A server on a full disk must serve deletions."""
    later: AbstractAsyncContextManager[None] = nullcontext()
    try:
        await step()
    except StoreFull as exc:
        _log.warning("what a start writes waits for room: %s", exc.message)
        later = in_background(_retried(step), "what a start writes")
    async with later:
        yield


async def _retried(step: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(_RETRY_S)
        try:
            await step()
            return
        except StoreFull:
            continue
        except (ApiError, StoreError) as exc:
            _log.error("what a start writes is not all there: %s", exc)
            return


async def bootstrap(registry: Registry) -> None:
    """Create missing objects. Safe to run at every start."""
    for name in SYSTEM_NAMESPACES:
        await _ensure(registry, BY_KIND["v1", "Namespace"], {"metadata": {"name": name}}, _OPTIONS)
    for doc in SYSTEM_PRIORITY_CLASSES:
        await _ensure(registry, BY_KIND["scheduling.k8s.io/v1", "PriorityClass"], doc, _OPTIONS)


async def publish_address(registry: Registry, port: int) -> None:
    """Create the Service `default/kubernetes`, or correct its port: a server may listen on another one each time."""
    services, wanted = BY_KIND["v1", "Service"], kubernetes_service(port)
    ports = {"ports": wanted["spec"]["ports"]}
    if await _ensure(registry, services, wanted, _OPTIONS, namespace="default") is not None:
        at = Location(services, "default", wanted["metadata"]["name"])
        await registry.change(at, lambda doc: {**doc, "spec": {**doc["spec"], **ports}}, _OPTIONS)


async def _ensure(
    registry: Registry, resource: Resource, doc: Doc, options: WriteOptions, *, namespace: str = ""
) -> StoreRecord | None:
    """The object as it is stored; None if it was missing, and is created, or damaged, which the log has named."""
    at = Location(resource, namespace, doc["metadata"]["name"])
    try:
        record = registry.store.get(at.key)
    except KeyDamaged as exc:
        _log.error("%s; %s", exc.message, exc.hint)
        return None
    if record is None:
        head = {"kind": resource.kind, "apiVersion": resource.api_version}
        await registry.create(at, {**head, **doc, "metadata": dict(doc["metadata"])}, options)
    return record


_AGGREGATION = WriteOptions(manager="clusterrole-aggregation-controller")
_MAX_ROUNDS = 8
"""Aggregated roles may aggregate aggregated roles. A cycle of them never settles."""


async def aggregate(registry: Registry) -> bool:
    """Write the rules of every aggregated ClusterRole that differ. True if all have settled."""
    for _ in range(_MAX_ROUNDS):
        stale = await registry.work(True, partial(_gathered, registry.store.list(CLUSTER_ROLES.store_prefix)))
        if not stale:
            return True
        for name, rules in stale:

            def with_rules(old: Doc, rules: list[Doc] = rules) -> Doc:
                return {**old, "rules": rules} if rules else {key: old[key] for key in old if key != "rules"}

            with suppress(NotFound):
                await registry.change(Location(CLUSTER_ROLES, name=name), with_rules, _AGGREGATION, is_large=True)
    return False


def _gathered(records: list[StoreRecord]) -> list[tuple[str, list[Doc]]]:
    """The names of the ClusterRoles whose rules are outdated, with their new rules."""
    roles = [decode(record.document) for record in records]
    stale = []
    for role in roles:
        if "aggregationRule" not in role or "deletionTimestamp" in role["metadata"]:
            continue
        rules = aggregated_rules(role, roles)
        if rules != role.get("rules", []):
            role["rules"] = rules  # from which others may aggregate in turn
            stale.append((role["metadata"]["name"], rules))
    return stale


@asynccontextmanager
async def cluster_roles_aggregated(registry: Registry, rng: random.Random) -> AsyncIterator[None]:
    async def gather() -> bool:
        is_settled = await aggregate(registry)
        if not is_settled:
            _log.warning("ClusterRoles gather rules from one another without coming to rest")
        return is_settled

    failed = partial(_log.error, "ClusterRoles cannot be aggregated: %s")
    async with done_on_change(registry, rng, gather, failed, "aggregation of ClusterRoles") as changed:
        registry.store.follow(CLUSTER_ROLES.store_prefix, lambda record, *, is_deleted: changed.set())
        yield


_POLICY_OPTIONS = WriteOptions(manager="kube-apiserver")


async def ensure_policy(registry: Registry) -> None:
    """Ensure that every role and binding exists with at least its default content. A failed write is logged."""
    await asyncio.gather(*(_ensure_policy_object(registry, doc) for doc in bootstrap_policy()))
    await aggregate(registry)


async def _ensure_policy_object(registry: Registry, expected: Doc) -> None:
    resource = BY_KIND[expected["apiVersion"], expected["kind"]]
    namespace, name = expected["metadata"].get("namespace", ""), expected["metadata"]["name"]
    at = Location(resource, namespace, name)
    try:
        record = await _ensure(registry, resource, expected, _POLICY_OPTIONS, namespace=namespace)
        if record is None:
            return
        existing = decode(record.document)
        if must_be_recreated(existing, expected):
            await registry.remove(at)
            await registry.create(at, expected, _POLICY_OPTIONS)
        elif reconciled(existing, expected) is not None:
            await registry.change(at, lambda old: reconciled(old, expected) or old, _POLICY_OPTIONS)
            _log.info("%s %s was given what it had not yet", resource.kind, name)
    except ApiError as exc:
        _log.error("%s %s cannot be brought up to date: %s", resource.kind, name, exc.message)


EVENT_TTL_S: Final = 3600.0
"""kube-apiserver's default."""
_EVERY_S: Final = 30.0
_AT_A_TIME: Final = 64
"""Events checked before other tasks get a turn, and deleted in one commit: one commit each would be slower than a busy
cluster creates them."""
_EVENT: Final = BY_KIND["v1", "Event"]
_TIMES: Final = (
    ("metadata", "creationTimestamp"), ("eventTime",), ("lastTimestamp",), ("series", "lastObservedTime")
)  # fmt: skip


class EventExpiry:
    """Deletes events older than `ttl_s`. Remembers the age of every revision."""

    def __init__(self, registry: Registry, clock: Clock, ttl_s: float) -> None:
        self._store = registry.store
        self._clock = clock
        self._ttl_s = ttl_s
        self._written_s: dict[str, tuple[int, float]] = {}
        """By key: the revision, and when it was written, in the clock's monotonic seconds."""

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_EVERY_S)
            await self.look()

    async def look(self) -> int:
        """Delete expired events. Returns how many."""
        now_s, gone = self._clock.monotonic(), 0
        records = self._store.list(_EVENT.store_prefix)
        known = {record.key for record in records}
        self._written_s = {key: found for key, found in self._written_s.items() if key in known}
        for start in range(0, len(records), _AT_A_TIME):
            await asyncio.sleep(0)
            batch = records[start : start + _AT_A_TIME]
            over = [store_record for store_record in batch if now_s - self._written(store_record, now_s) >= self._ttl_s]
            gone += sum(await asyncio.gather(*map(self._delete, over)))
        return gone

    async def _delete(self, record: StoreRecord) -> bool:
        """Delete an event. False if it was written again or deleted meanwhile, or the disk refuses: retried later."""
        try:
            await self._store.delete(record.key, encoder(_EVENT, decode(record.document)), expected=record.revision)
        except StoreError:
            return False
        return True

    def _written(self, record: StoreRecord, now_s: float) -> float:
        """When an event was last written, by its own times; without one, or with one in the future, now."""
        found = self._written_s.get(record.key)
        if found is None or found[0] != record.revision:
            now = self._clock.now()
            found = (record.revision, now_s - (now - _last_time(record.document, now)).total_seconds())
            self._written_s[record.key] = found
        return found[1]


def _last_time(document: bytes, now: datetime) -> datetime:
    """The latest time in an event that is not in the future; `now` when there is none."""
    times = []
    with suppress(msgspec.MsgspecError):
        event = decode(document)
        for path in _TIMES:
            with suppress(TonnageError, ValueError, TypeError):
                times.append(parse_rfc3339(dig(event, *path)))
    return max((time for time in times if time <= now), default=now)
