"""Uids that are made from names, so that the same files give the same ones at every run.

They are those of `uuid.uuid5`, byte for byte, written down at once: a simulation makes two a pod, and most of what a
UUID object costs is made for questions that nobody asks of it.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import Final

_NAMESPACE: Final = uuid.NAMESPACE_OID.bytes


def stable_uid(name: str) -> str:
    """RFC 9562, version 5, in the namespace of OIDs."""
    found = bytearray(hashlib.sha1(_NAMESPACE + name.encode(), usedforsecurity=False).digest()[:16])
    found[6] = found[6] & 0x0F | 0x50
    found[8] = found[8] & 0x3F | 0x80
    text = found.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
