"""Versions of a group in upstream's order: v10, v2, v1, v3beta1, v1alpha2, then other words by the alphabet."""

from __future__ import annotations

import re
from typing import Final

from tonnage.objects.document import Doc

_VERSION: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


def version_preference(version: str) -> tuple[object, ...]:
    """A key that sorts the most preferred version first."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (1, version)
    major, stage, minor = found.groups()
    return (0, {None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0))


def deprecation_warning(spec: Doc, version: Doc) -> str | None:
    """What a client of a deprecated version is told: the definition's own words, or which version is better."""
    if not version.get("deprecated"):
        return None
    told: str | None = version.get("deprecationWarning")
    if told is not None:
        return told
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    others = [each["name"] for each in spec["versions"] if each.get("served") and not each.get("deprecated")]
    best = min(others, key=version_preference, default=name)
    warning = f"{group}/{name} {kind} is deprecated"
    is_better = version_preference(best) < version_preference(name)
    return f"{warning}; use {group}/{best} {kind}" if is_better else warning
