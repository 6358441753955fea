"""Cells as `kubectl get` shows them: the functions that `kubectl.columns` names, for all kinds.

A function takes the value at the column's path (None if absent), or the document and `now`: nothing reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from tonnage.objects.codec import convert
from tonnage.objects.document import Doc, dig
from tonnage.objects.selectors import LabelSelector
from tonnage.quantity import Quantity

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
Cell = str | int | float | bool | None
"""None if a custom resource has no value."""


def text(value: Any, missing: str = "") -> Cell:
    """The value as text; `missing` when it is absent or empty."""
    return str(value or missing)


def given(value: Any, missing: str) -> Cell:
    """The value as text; `missing` only if it is absent: an empty string stays empty."""
    return missing if value is None else str(value)


def number(value: int | None) -> Cell:
    return int(value or 0)


def flag(value: bool | None, missing: str = "") -> Cell:
    return missing == "true" if value is None else bool(value)


def count(items: list[Any] | None) -> Cell:
    return len(items or ())


def words(items: list[str] | None) -> Cell:
    return ",".join(items or ()) or NONE


def created(doc: Doc, now: datetime) -> Cell:
    return age(dig(doc, "metadata", "creationTimestamp"), now)


def age(timestamp: str | None, now: datetime) -> str:
    """How long ago an RFC 3339 timestamp was: `118s`, `4m5s`, `7h30m`, `3d`."""
    return elapsed(now - datetime.fromisoformat(timestamp)) if timestamp else UNKNOWN


def elapsed(span: timedelta) -> str:
    """A duration to two or three significant figures, mirroring upstream's duration.HumanDuration."""
    seconds = int(span.total_seconds())  # towards zero, as Go does: -1.9 s is -1
    if seconds < -1:
        return "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    if minutes < 10:
        return _two_units(minutes, "m", seconds % 60, "s")
    if minutes < 3 * 60:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two_units(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two_units(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two_units(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def size(value: str | int | float | None) -> str:
    """A quantity in canonical form; a missing one is `0`, as Go's zero value prints."""
    return str(Quantity.of(value))


def labels(pairs: dict[str, str] | None) -> str:
    """`app=web,tier=db`, sorted by key."""
    return ",".join(f"{key}={value}" for key, value in sorted((pairs or {}).items())) or NONE


def selector(wanted: Doc | None) -> str:
    """A label selector in the syntax of `kubectl get -l`, sorted by key; empty when it selects everything."""
    return "" if wanted is None else str(convert(LabelSelector, wanted))


def selector_or_none(wanted: Doc | None) -> str:
    return selector(wanted) or NONE


_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
"""In the order of the cell, whatever the object's order."""


def access_modes(modes: Iterable[str] | None) -> str:
    """`RWO,ROX`: each mode once, by its initials."""
    asked = set(modes or ())
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in asked)


def joined(items: Iterable[Doc] | None, field: str) -> str:
    """One field of every item, with commas between."""
    return ",".join(str(item.get(field, "")) for item in items or ())


def condition_status(conditions: Iterable[Doc] | None, kind: str) -> str:
    """The `status` of the first condition of a type, empty when there is none."""
    return next((str(found.get("status", "")) for found in conditions or () if found.get("type") == kind), "")
