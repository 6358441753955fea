"""--client-ca-file: read at the start, and again when it is another file or has other content, as upstream does.

An authority that is taken out is believed no longer, at the next request; also on connections that were open before.
What cannot be read leaves the authorities in force that were, and is said once.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from cryptography import x509

from tonnage.apiserver.authentication.client_certificates import ClientCertificates
from tonnage.background import in_background
from tonnage.clock import Clock
from tonnage.errors import TonnageError
from tonnage.private_files import read_given

_FORM: Final = "name a file with the certificates of the authorities that sign client certificates"
_LOOK_EVERY_S: Final = 1.0
_log = logging.getLogger(__name__)


def read_client_ca(path: Path) -> bytes:
    """The authorities of a file, in PEM form. Raises TonnageError."""
    try:
        pem = read_given(path)
        x509.load_pem_x509_certificates(pem)
        pem.decode()  # it is told in a ConfigMap
    except OSError as exc:
        raise TonnageError(f"cannot read the client CA file {path}: {exc.strerror}", hint=_FORM) from exc
    except ValueError as exc:
        raise TonnageError(f"the client CA file {path} holds no certificate in PEM form", hint=_FORM) from exc
    return pem


class ClientCaFile:
    """The authorities of a file, kept up to date in `certificates`."""

    def __init__(self, path: Path, certificates: ClientCertificates) -> None:
        self._path = path
        self._certificates = certificates
        self._seen: tuple[int, ...] | None = None
        self._told = ""

    def refresh(self) -> None:
        """Look at the file, and read it when it is not the one that was seen last."""
        try:
            found = self._path.stat()
            seen = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
            if seen == self._seen:
                return
            pem = read_client_ca(self._path)
            is_other = pem != self._certificates.ca_pem
            if is_other:
                self._certificates.trust(pem)
        except (OSError, ValueError, TonnageError) as exc:
            told = str(exc)
            if told != self._told:
                _log.error("Client certificates are judged by the authorities that were known before: %s", told)
            self._told = told
            return
        self._seen, self._told = seen, ""
        if is_other:
            _log.info("The client CA file %s has changed and is in force from now on", self._path)


@asynccontextmanager
async def client_ca_followed(path: Path | None, certificates: ClientCertificates, clock: Clock) -> AsyncIterator[None]:
    """Inside the block, what the file says counts. Without a file the server's own authority does, for good."""
    if path is None:
        yield
        return
    async with in_background(_follow(ClientCaFile(path, certificates), clock), "client CA file"):
        yield


async def _follow(file: ClientCaFile, clock: Clock) -> None:
    while True:
        file.refresh()
        await clock.sleep(_LOOK_EVERY_S)
