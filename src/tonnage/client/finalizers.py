"""Patches that add and remove a finalizer, each valid only for the state it was computed from.

The list can only be written whole. With the resourceVersion in it, a patch computed from an old list is a Conflict, and
never restores a finalizer that somebody else has just removed.
"""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.objects.document import Doc
from tonnage.objects.meta import Object


def add_finalizer(found: Object, name: str, *, annotations: Mapping[str, str] | None = None) -> Doc | None:
    """The patch that adds the finalizer, and these annotations with it; None when everything is there."""
    metadata: Doc = {}
    if name not in found.metadata.finalizers:
        metadata["finalizers"] = [*found.metadata.finalizers, name]
    missing = {key: value for key, value in (annotations or {}).items() if found.metadata.annotations.get(key) != value}
    if missing:
        metadata["annotations"] = missing
    return {"metadata": {"resourceVersion": found.metadata.resource_version, **metadata}} if metadata else None


def remove_finalizer(found: Object, name: str) -> Doc | None:
    """The patch that removes the finalizer; None when it is not there."""
    if name not in found.metadata.finalizers:
        return None
    others = [other for other in found.metadata.finalizers if other != name]
    return {"metadata": {"resourceVersion": found.metadata.resource_version, "finalizers": others}}
