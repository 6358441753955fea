"""Pods come by the thousand from one template: what was worked out for one spec holds for the next that says the same.

A spec is known by its text, but for what pods of one StatefulSet differ in: a claim's name counts only as being there,
a hostname only as being a DNS label. What depends on more than the spec must not be kept (`depends_on_its_pod`).
"""

from __future__ import annotations

from threading import Lock
from typing import Final, Generic, TypeVar

from tonnage.objects import names
from tonnage.objects.document import Doc, encode

T = TypeVar("T")
MAX_TEXT_BYTES: Final = 8 * 1024
"""Longer specs are rare, and worked out each time."""
MAX_SPECS: Final = 256
"""Templates in use at a time; with texts of 8 KiB that is 2 MiB. The one that came first goes first."""
_ANY: Final = "x"


def text_of_spec(spec: Doc) -> bytes | None:
    """By what a spec is known, None when it is too long to be kept or cannot be written down."""
    volumes, hostname = spec.get("volumes"), spec.get("hostname")
    if volumes or hostname:
        spec = dict(spec)
        if volumes:
            spec["volumes"] = [_with_any_claim(volume) for volume in volumes]
        if hostname and not names.dns_label(hostname):
            spec["hostname"] = _ANY
    try:
        text = encode(spec)
    except (TypeError, ValueError, OverflowError):  # which no decoder of requests lets in, but files of people do
        return None
    return text if len(text) <= MAX_TEXT_BYTES else None


def depends_on_its_pod(spec: Doc) -> bool:
    """Is more than the spec looked at to judge it? Names of ephemeral claims begin with the pod's."""
    return "resourceClaims" in spec or any("ephemeral" in volume for volume in spec.get("volumes", ()))


class KnownSpecs(Generic[T]):
    """What was worked out, by the text of a spec. Any thread may ask."""

    def __init__(self) -> None:
        self._kept: dict[bytes, T] = {}
        self._lock = Lock()

    def get(self, text: bytes | None) -> T | None:
        return None if text is None else self._kept.get(text)

    def keep(self, text: bytes | None, worked_out: T) -> None:
        if text is None:
            return
        with self._lock:
            if len(self._kept) >= MAX_SPECS:
                del self._kept[next(iter(self._kept))]
            self._kept[text] = worked_out


def _with_any_claim(volume: Doc) -> Doc:
    source = volume.get("persistentVolumeClaim")
    if not source or not source.get("claimName"):
        return volume
    return {**volume, "persistentVolumeClaim": {**source, "claimName": _ANY}}
