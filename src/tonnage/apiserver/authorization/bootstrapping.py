"""Kubernetes' own roles and bindings, made or mended at every start (`documents/access/bootstrap_policy.py`).

All of them are asked for at once, so that they go to the disk together.
"""

from __future__ import annotations

import asyncio
import logging

from tonnage.apiserver.authorization.aggregation import aggregate
from tonnage.apiserver.options import WriteOptions
from tonnage.apiserver.registry import Registry
from tonnage.documents.access.bootstrap_policy import bootstrap_policy, must_be_recreated, reconciled
from tonnage.errors import ApiError
from tonnage.objects.document import Doc, decode
from tonnage.objects.resources import BY_KIND
from tonnage.store import KeyDamaged

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
