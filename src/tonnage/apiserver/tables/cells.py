"""What stands in a cell: ages, selectors, sizes and lists as `kubectl get` has always shown them.

Every function here is pure, text in and text out; the current time is an argument. An object's age is not stored
anywhere, so a table is only as fresh as the `now` it was made with.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from tonnage.objects.document import Doc
from tonnage.quantity import Quantity

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"

_MINUTE_S = 60
_HOUR_S = 60 * _MINUTE_S


def age(timestamp: str | None, now: datetime) -> str:
    """How long ago an RFC 3339 timestamp was: `118s`, `4m5s`, `7h30m`, `3d`."""
    return elapsed(now - datetime.fromisoformat(timestamp)) if timestamp else UNKNOWN


def elapsed(span: timedelta) -> str:
    """A duration to two or three significant figures, mirroring upstream's duration.HumanDuration.

    A unit is kept to about twice to ten times its size, with the next smaller one beside it while the number is small:
    seconds below 2 minutes, minutes and seconds below 10, minutes below 3 hours, and so on up to years. Clocks differ:
    up to 2 s in the future counts as now.
    """
    seconds = int(span.total_seconds())  # towards zero, as Go does: -1.9 s is -1
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE_S:
        return f"{max(seconds, 0)}s"
    minutes, hours = seconds // _MINUTE_S, seconds // _HOUR_S
    days = hours // 24
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
    """A label selector in the form `kubectl get -l` takes, sorted by key; empty when it asks for nothing."""
    if wanted is None:
        return ""
    terms = [(key, f"{key}={value}") for key, value in wanted.get("matchLabels", {}).items()]
    for requirement in wanted.get("matchExpressions", ()):
        terms.append((requirement["key"], _requirement(requirement)))
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0]))


def _requirement(requirement: Doc) -> str:
    key, values = requirement["key"], ",".join(sorted(requirement.get("values", ())))
    match requirement["operator"]:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "DoesNotExist":
            return f"!{key}"
        case _:
            return str(key)


# In the order they are listed, whatever order the object has them in.
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


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


def int_or_string(value: Any, *, missing: str) -> str:
    return missing if value is None else str(value)
