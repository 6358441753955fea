"""Kubernetes' own roles and bindings, made or mended at every start (`documents/access/bootstrap_policy.py`).

All of them are asked for at once, so that they go to the disk together.

ClusterRoles that gather the rules of others are kept up to date here, whoever else runs.

Upstream leaves this to kube-controller-manager, which needs the right to escalate for it. A server that decides by
these rules does not wait for a program that may not be there, and no program has to be given such a right.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from tonnage.apiserver.authorization.rbac import CLUSTER_ROLES
from tonnage.apiserver.options import WriteOptions
from tonnage.apiserver.registry import Registry
from tonnage.background import in_background
from tonnage.backoff import Backoff
from tonnage.documents.access.bootstrap_policy import bootstrap_policy, must_be_recreated, reconciled
from tonnage.documents.access.rules import aggregated_rules
from tonnage.errors import ApiError, NotFound
from tonnage.objects.document import Doc, decode
from tonnage.objects.resources import BY_KIND
from tonnage.store import KeyDamaged, StoreClosed, StoreError, StoreRecord

_AGGREGATION = WriteOptions(manager="clusterrole-aggregation-controller")
_MAX_ROUNDS = 8
"""Roles may gather from roles that gather. Those that gather from one another in a ring never come to rest."""


async def aggregate(registry: Registry) -> bool:
    """Write the rules of every ClusterRole that gathers, where they are others. Has it come to rest?"""
    for _ in range(_MAX_ROUNDS):
        if not await _round(registry):
            return True
    return False


async def _round(registry: Registry) -> bool:
    """Whether anything was written, after which roles that gather from it are to be looked at again."""
    is_changed = False
    gathered = await registry.work(True, partial(_gathered, registry.store.list(CLUSTER_ROLES.store_prefix)))
    for name, rules in gathered:

        def with_rules(old: Doc, rules: list[Doc] = rules) -> Doc:
            return {**old, "rules": rules} if rules else {key: old[key] for key in old if key != "rules"}

        with suppress(NotFound):
            await registry.change(CLUSTER_ROLES, "", name, with_rules, _AGGREGATION, is_large=True)
        is_changed = True
    return is_changed


def _gathered(records: list[StoreRecord]) -> list[tuple[str, list[Doc]]]:
    """The names of the ClusterRoles that should have other rules than they have, and those rules."""
    roles = [decode(record.document) for record in records]
    stale = []
    for role in roles:
        if "aggregationRule" not in role or "deletionTimestamp" in role["metadata"]:
            continue
        rules = aggregated_rules(role, roles)
        if rules != role.get("rules", []):
            role["rules"] = rules  # from which others gather in turn
            stale.append((role["metadata"]["name"], rules))
    return stale


@asynccontextmanager
async def cluster_roles_aggregated(registry: Registry, rng: random.Random) -> AsyncIterator[None]:
    """Inside the block, what changes about ClusterRoles changes those that gather from them."""
    changed = asyncio.Event()

    def note(record: StoreRecord, *, is_deleted: bool) -> None:
        changed.set()

    registry.store.follow(CLUSTER_ROLES.store_prefix, note)
    async with in_background(_follow(registry, changed, rng), "aggregation of ClusterRoles"):
        yield


async def _follow(registry: Registry, changed: asyncio.Event, rng: random.Random) -> None:
    backoff = Backoff(clock=registry.clock, rng=rng)
    while True:
        await changed.wait()
        changed.clear()
        try:
            if await aggregate(registry):
                backoff.reset()
                continue
            _log.warning("ClusterRoles gather rules from one another without coming to rest")
        except StoreClosed:
            return
        except (ApiError, StoreError) as exc:
            _log.error("ClusterRoles cannot be aggregated: %s", exc.message)
        changed.set()
        await registry.clock.sleep(backoff.next_s())


_OPTIONS = WriteOptions(manager="kube-apiserver")
_log = logging.getLogger(__name__)


async def ensure_policy(registry: Registry) -> None:
    """Every role and binding is there, with all that it should have at least. One that cannot be written is logged."""
    await asyncio.gather(*(_ensure(registry, doc) for doc in bootstrap_policy()))
    await aggregate(registry)


async def _ensure(registry: Registry, expected: Doc) -> None:
    resource = BY_KIND[expected["apiVersion"], expected["kind"]]
    namespace, name = expected["metadata"].get("namespace", ""), expected["metadata"]["name"]
    try:
        record = registry.store.get(resource.key(namespace, name))
        if record is None:
            await registry.create(resource, namespace, expected, _OPTIONS)
            return
        existing = decode(record.document)
        if must_be_recreated(existing, expected):
            await registry.remove(resource, namespace, name)
            await registry.create(resource, namespace, expected, _OPTIONS)
        elif reconciled(existing, expected) is not None:
            await registry.change(resource, namespace, name, lambda old: reconciled(old, expected) or old, _OPTIONS)
            _log.info("%s %s was given what it had not yet", resource.kind, name)
    except KeyDamaged as exc:
        _log.error("%s; %s", exc.message, exc.hint)
    except ApiError as exc:
        _log.error("%s %s cannot be brought up to date: %s", resource.kind, name, exc.message)
