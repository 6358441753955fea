"""Secrets of type kubernetes.io/service-account-token get their token here, and go with their account.

Upstream this is kube-controller-manager's tokens controller, which is given the signing key. Here the key stays with
the server that made it, so the server does the work: it follows Secrets and ServiceAccounts in its own store.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec

from tonnage.apiserver.authentication.signing_key import SigningKey
from tonnage.apiserver.options import WriteOptions
from tonnage.apiserver.registry import Registry
from tonnage.background import in_background
from tonnage.backoff import Backoff
from tonnage.documents.access.service_account_tokens import (
    ACCOUNTS,
    NAME_ANNOTATION,
    SECRET_TYPE,
    LegacyClaims,
    filled,
    is_of_account,
)
from tonnage.errors import ApiError, Conflict, NotFound
from tonnage.objects.document import Doc, decode
from tonnage.objects.resources import BY_PLURAL
from tonnage.store import KeyDamaged, StoreClosed, StoreError, StoreRecord

_SECRETS = BY_PLURAL["", "secrets"]
_MARK = SECRET_TYPE.encode()
_OPTIONS = WriteOptions(manager="tokens-controller")
_log = logging.getLogger(__name__)


@asynccontextmanager
async def token_secrets_filled(
    registry: Registry, key: SigningKey, ca_pem: bytes, rng: random.Random
) -> AsyncIterator[None]:
    """Inside the block, every such Secret has a token, or is deleted for want of an account."""
    store, waiting, changed = registry.store, dict[str, None](), asyncio.Event()

    def wait(records: list[StoreRecord]) -> None:
        waiting.update((record.key, None) for record in records if _MARK in record.document)
        changed.set()

    def note_secret(record: StoreRecord, *, is_deleted: bool) -> None:
        if not is_deleted:
            wait([record])

    def note_account(record: StoreRecord, *, is_deleted: bool) -> None:
        namespace = record.key.removeprefix(ACCOUNTS.store_prefix).partition("/")[0]
        if is_deleted:
            wait(store.list(f"{_SECRETS.store_prefix}{namespace}/"))

    store.follow(ACCOUNTS.store_prefix, note_account)
    wait(store.follow(_SECRETS.store_prefix, note_secret))
    async with in_background(_fill(registry, key, ca_pem, waiting, changed, rng), "tokens of ServiceAccounts"):
        yield


async def _fill(
    registry: Registry,
    key: SigningKey,
    ca_pem: bytes,
    waiting: dict[str, None],
    changed: asyncio.Event,
    rng: random.Random,
) -> None:
    backoff = Backoff(clock=registry.clock, rng=rng)
    while True:
        await changed.wait()
        changed.clear()
        while waiting:
            at = next(iter(waiting))
            del waiting[at]
            try:
                await reconcile(registry, key, ca_pem, at)
                backoff.reset()
            except StoreClosed:
                return
            except (ApiError, StoreError) as exc:
                _log.error("Secret %s gets no token: %s", at.removeprefix(_SECRETS.store_prefix), exc.message)
                waiting[at] = None
                changed.set()
                await registry.clock.sleep(backoff.next_s())


async def reconcile(registry: Registry, key: SigningKey, ca_pem: bytes, at: str) -> None:
    """Bring one Secret to what its type asks for; safe to run twice."""
    namespace, _, name = at.removeprefix(_SECRETS.store_prefix).partition("/")
    secret = _object(registry, at)
    if secret is None or secret.get("type") != SECRET_TYPE or "deletionTimestamp" in secret["metadata"]:
        return
    wanted = secret["metadata"].get("annotations", {}).get(NAME_ANNOTATION, "")
    account = _object(registry, ACCOUNTS.key(namespace, wanted))
    if account is None or not is_of_account(secret, account):
        uid = secret["metadata"]["uid"]

        def check(doc: Doc) -> None:
            if doc["metadata"]["uid"] != uid:
                raise NotFound("it is another one now")

        with suppress(NotFound):
            await registry.remove(_SECRETS, namespace, name, check=check)
        return

    def change(old: Doc) -> Doc:
        return filled(old, account, ca_pem, lambda claims: key.signed(_encoded(claims)))

    if change(secret) != secret:
        with suppress(NotFound, Conflict):
            await registry.change(_SECRETS, namespace, name, change, _OPTIONS)


def _object(registry: Registry, at: str) -> Doc | None:
    try:
        record = registry.store.get(at)
    except KeyDamaged:
        return None
    return decode(record.document) if record is not None else None


def _encoded(claims: LegacyClaims) -> bytes:
    return msgspec.json.encode(claims)
