"""A running API server: data folder, store, listener, and a clean end.

    async with serve(Settings(data_dir=Path("data"))) as server:
        print(server.url, server.kubeconfig)

Entering opens the store, creates a fresh cluster's objects, and listens; leaving stops in order: no new requests,
watches ended, running requests answered, store closed. `tonnage apiserver` and `tonnage up` only call this.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tonnage import listener, metrics, private_files
from tonnage.apiserver import bootstrap, stored_documents
from tonnage.apiserver.app import Application
from tonnage.apiserver.audit_log import AuditLog, AuditLogFile
from tonnage.apiserver.authentication.authenticator import read_credentials, write_kubeconfig
from tonnage.apiserver.authentication.client_certificates import authentication_published, client_ca_followed
from tonnage.apiserver.authentication.service_account_tokens import token_secrets_filled
from tonnage.apiserver.authorizer import RbacAuthorizer
from tonnage.apiserver.event_loop import measure_lag
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.settings import ALWAYS_ALLOW, DEFAULT_ISSUER, RBAC_MODE, AuditSettings
from tonnage.clock import Clock, SystemClock, in_background
from tonnage.documents.access.attributes import AllowAll
from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.store.folder import KEEP_BYTES, KEEP_REVISIONS, StoreOptions
from tonnage.store.store import Store

_log = logging.getLogger(__name__)

RESERVE_BYTES = 8 << 20
"""Disk space reserved so that deletions work on a full disk: five of the largest possible objects, and their pages."""
_GRACE_S = 10.0
"""How long running requests may take once the server stops."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Port 0 takes a free one. Without a token file the folder keeps a token; without a client CA the server's own CA
    is trusted; without audiences, tokens are for the issuer.
    """

    data_dir: Path
    bind: str = "127.0.0.1"
    port: int = 6443
    token_file: Path | None = None
    client_ca_file: Path | None = None
    anonymous_auth: bool = False
    authorization_mode: str = RBAC_MODE
    service_account_issuer: str = DEFAULT_ISSUER
    api_audiences: tuple[str, ...] = ()
    gates: Gates = field(default_factory=Gates)
    keep_revisions: int = KEEP_REVISIONS
    keep_bytes: int = KEEP_BYTES
    reserve_bytes: int = RESERVE_BYTES
    event_ttl_s: float = bootstrap.EVENT_TTL_S
    audit: AuditSettings | None = None


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    kubeconfig: Path
    token: str
    ca_pem: bytes
    registry: Registry
    application: Application


@asynccontextmanager
async def serve(
    settings: ServerSettings, *, clock: Clock | None = None, rng: random.Random | None = None
) -> AsyncIterator[Server]:
    """Run a server inside the block. Raises TonnageError, with a remedy, when it cannot start."""
    clock, rng = clock or SystemClock(), rng or random.SystemRandom()
    folder = private_files.own_folder(settings.data_dir)
    options = StoreOptions(
        index=stored_documents.index_for(settings.gates, clock),
        keep_revisions=settings.keep_revisions,
        keep_bytes=settings.keep_bytes,
        reserve_bytes=settings.reserve_bytes,
        key_beside=folder / "pki" / "ca.key",
    )
    store = await Store.open(folder / "store", options)
    try:
        authorizer = AllowAll() if settings.authorization_mode == ALWAYS_ALLOW else RbacAuthorizer(store)
        registry = Registry(store, gates=settings.gates, clock=clock, rng=rng, authorizer=authorizer)
        hosts = tuple(
            dict.fromkeys((settings.bind, "127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default"))
        )
        with _files_of(folder):
            authenticator, tls, ca_pem, admin_token = read_credentials(
                folder,
                store,
                clock,
                hosts,
                token_file=settings.token_file,
                client_ca_file=settings.client_ca_file,
                issuer=settings.service_account_issuer,
                audiences=settings.api_audiences,
            )
        application = Application(
            registry,
            authenticator=authenticator,
            anonymous_auth=settings.anonymous_auth,
            collector_registry=metrics.new_registry(),
            rng=rng,
        )
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            await enter(bootstrap.taken_when_there_is_room(partial(bootstrap.bootstrap, registry)))
            await enter(bootstrap.taken_when_there_is_room(partial(bootstrap.ensure_policy, registry)))
            if settings.audit is not None:
                file = stack.enter_context(AuditLogFile(settings.audit))
                application.audit_log = AuditLog(file, clock=clock, rng=rng)
            stack.callback(registry.workers.close)
            await enter(in_background(measure_lag(application.metrics.loop_lag.observe), "lag of the event loop"))
            await enter(in_background(application.end_orphaned_watches(), "watches without credentials"))
            await enter(application.lifecycle.followed())
            expiry = bootstrap.EventExpiry(registry, clock, settings.event_ttl_s)
            await enter(in_background(expiry.run(), "expiry of events"))
            await enter(bootstrap.cluster_roles_aggregated(registry, rng))
            await enter(token_secrets_filled(registry, authenticator.accounts.key, ca_pem, rng))
            await enter(authentication_published(registry, authenticator.certificates, rng))
            await enter(client_ca_followed(settings.client_ca_file, authenticator.certificates, clock))
            try:
                opened = await enter(
                    listener.listening(
                        application.handle,
                        host=settings.bind,
                        port=settings.port,
                        tls=tls.context,
                        grace_s=_GRACE_S,
                    )
                )
            except OSError as exc:
                raise TonnageError(
                    f"cannot listen on {settings.bind}:{settings.port}: {exc.strerror or exc}",
                    hint="choose another --secure-port, or 0 for a free one",
                ) from exc
            await enter(tls.renewed())
            await enter(bootstrap.taken_when_there_is_room(partial(bootstrap.publish_address, registry, opened.port)))
            host = f"[{settings.bind}]" if ":" in settings.bind else settings.bind
            url = application.url = f"https://{host}:{opened.port}"
            kubeconfig = folder / "kubeconfig"
            with _files_of(folder, is_needed=False):
                write_kubeconfig(kubeconfig, url=url, ca_pem=ca_pem, token=admin_token)
            try:
                yield Server(url, kubeconfig, admin_token, ca_pem, registry, application)
            finally:
                application.stop()
                await asyncio.sleep(0)  # let the watches write their last line before their connections close
    finally:
        await store.close()


@contextmanager
def _files_of(folder: Path, *, is_needed: bool = True) -> Iterator[None]:
    """Report a failed write of a small file as one error; on a full disk only if the file `is_needed`."""
    try:
        yield
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT) and not is_needed:
            _log.warning("the files in %s are those of an earlier start: %s", folder, exc.strerror)
            return
        raise TonnageError(
            f"cannot write to {folder}: {exc.strerror or exc}", hint="make room there, or see to its permissions"
        ) from exc
