"""Finalizers are put on and taken off by patches that hold only for the state they were thought for.

A list can only be written whole. With the resourceVersion in it, a patch made from an old list is a Conflict, and never
brings back a finalizer that somebody else has just taken off.
"""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.objects.document import Doc
from tonnage.objects.meta import Object


def with_finalizer(each: Object, name: str, *, annotations: Mapping[str, str] | None = None) -> Doc | None:
    """What puts it on, and these annotations with it; None when everything is there."""
    metadata: Doc = {}
    if name not in each.metadata.finalizers:
        metadata["finalizers"] = [*each.metadata.finalizers, name]
    missing = {key: value for key, value in (annotations or {}).items() if each.metadata.annotations.get(key) != value}
    if missing:
        metadata["annotations"] = missing
    return {"metadata": {"resourceVersion": each.metadata.resource_version, **metadata}} if metadata else None


def without_finalizer(each: Object, name: str) -> Doc | None:
    """What takes it off; None when it is not there."""
    if name not in each.metadata.finalizers:
        return None
    others = [other for other in each.metadata.finalizers if other != name]
    return {"metadata": {"resourceVersion": each.metadata.resource_version, "finalizers": others}}
