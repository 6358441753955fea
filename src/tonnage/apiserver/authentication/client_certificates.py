"""Users by client certificate: the common name is the user, the organisations are the groups.

TLS only asks for a certificate (`serving/server_tls.py`); it is verified at every request
(`serving/certificate_judging.py`), because a connection may outlive it. A CA must sign client certificates directly: an
intermediate CA has to be listed itself.

--client-ca-file is read at the start and when it changes; a removed CA is distrusted at the next request. An unreadable
file leaves the old CAs in force. The ConfigMap kube-system/extension-apiserver-authentication publishes the CAs.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from cryptography import x509

from tonnage.apiserver.registry import Registry, done_on_change
from tonnage.apiserver.requests import Location, WriteOptions
from tonnage.clock import Clock, in_background, repeatedly
from tonnage.errors import NotFound, TonnageError
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_PLURAL
from tonnage.objects.users import CREDENTIAL_ID, User
from tonnage.private_files import read_given
from tonnage.serving.certificate_judging import Validity, judged, may_sign, read, subject_of
from tonnage.store.records import StoreRecord

MAX_REMEMBERED: Final = 1024


class ClientCertificates:
    def __init__(self, ca_pem: bytes, now: Callable[[], datetime]) -> None:
        self._now = now
        self._followers: list[Callable[[], None]] = []
        self._remembered = lru_cache(MAX_REMEMBERED)(self._judged)
        self.trust(ca_pem)

    def trust(self, ca_pem: bytes) -> None:
        """Trust exactly these CAs from now on. Raises ValueError if the PEM has no certificate."""
        self._authorities = [each for each in x509.load_pem_x509_certificates(ca_pem) if may_sign(each)]
        self._remembered.cache_clear()
        self.ca_pem = ca_pem
        for follower in self._followers:
            follower()

    def follow(self, follower: Callable[[], None]) -> None:
        self._followers.append(follower)

    def authenticate(self, der: bytes) -> User | None:
        """The user that a certificate names; None without a name. Raises InvalidCertificate."""
        validity, user = self._remembered(der)
        validity.check(self._now())
        return user

    def _judged(self, der: bytes) -> tuple[Validity, User | None]:
        certificate = read(der)
        validity = judged(certificate, self._authorities)
        name, uid, groups, credential = subject_of(certificate)
        return validity, User(name, uid, groups, {CREDENTIAL_ID: (credential,)}) if name else None


_FORM: Final = "name a file with the certificates of the authorities that sign client certificates"
_LOOK_EVERY_S: Final = 1.0
_log = logging.getLogger(__name__)


def read_client_ca(path: Path) -> bytes:
    """The CAs of a file, as PEM. Raises TonnageError."""
    try:
        pem = read_given(path)
        x509.load_pem_x509_certificates(pem)
        pem.decode()  # a ConfigMap holds it as text
    except OSError as exc:
        raise TonnageError(f"cannot read the client CA file {path}: {exc.strerror}", hint=_FORM) from exc
    except ValueError as exc:
        raise TonnageError(f"the client CA file {path} holds no certificate in PEM form", hint=_FORM) from exc
    return pem


class ClientCaFile:
    """Keeps `certificates` up to date with a CA file."""

    def __init__(self, path: Path, certificates: ClientCertificates) -> None:
        self._path = path
        self._certificates = certificates
        self._told = ""

    def refresh(self) -> None:
        try:
            pem = read_client_ca(self._path)
            is_other = pem != self._certificates.ca_pem
            if is_other:
                self._certificates.trust(pem)
        except (ValueError, TonnageError) as exc:
            told = str(exc)
            if told != self._told:
                _log.error("Client certificates are judged by the authorities that were known before: %s", told)
            self._told = told
            return
        self._told = ""
        if is_other:
            _log.info("The client CA file %s has changed and is in force from now on", self._path)


@asynccontextmanager
async def client_ca_followed(path: Path | None, certificates: ClientCertificates, clock: Clock) -> AsyncIterator[None]:
    """Follow the CA file inside the block. Without a file the server's own CA stays trusted."""
    if path is None:
        yield
        return
    file = ClientCaFile(path, certificates)
    file.refresh()
    async with in_background(repeatedly(clock, _LOOK_EVERY_S, file.refresh), "client CA file"):
        yield


NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
_CONFIG_MAPS = BY_PLURAL["", "configmaps"]
_OPTIONS = WriteOptions(manager="kube-apiserver")


@asynccontextmanager
async def authentication_published(
    registry: Registry, certificates: ClientCertificates, rng: random.Random
) -> AsyncIterator[None]:
    """Keep the ConfigMap with the clients' CAs current inside the block."""
    at = Location(_CONFIG_MAPS, NAMESPACE, NAME)

    def with_ca(doc: Doc) -> Doc:
        return {**doc, "data": {**doc.get("data", {}), "client-ca-file": certificates.ca_pem.decode()}}

    async def publish() -> bool:
        try:
            await registry.change(at, with_ca, _OPTIONS)
        except NotFound:
            doc = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": NAME}}
            await registry.create(at, with_ca(doc), _OPTIONS)
        return True

    failed = partial(_log.error, "ConfigMap %s/%s cannot be written: %s", NAMESPACE, NAME)
    async with done_on_change(registry, rng, publish, failed, "client certificates") as changed:

        def note(record: StoreRecord, *, is_deleted: bool) -> None:
            if record.key == at.key:
                changed.set()

        changed.set()
        registry.store.follow(_CONFIG_MAPS.store_prefix, note)
        certificates.follow(changed.set)
        yield
