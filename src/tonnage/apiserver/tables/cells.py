"""The columns of a table, and their cells as `kubectl get` shows them.

A column's description is its field's; only columns of several fields have their own. `wide` columns are those of
`kubectl get -o wide`: always sent, with priority 1. Nothing reads a clock: `now` is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tonnage.documents.schema import Struct
from tonnage.objects.document import Doc, dig
from tonnage.quantity import Quantity

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"

Cell = str | int | float | bool | None
"""None if a custom resource has no value."""
CellOf = Callable[[Doc, datetime], Cell]
"""(document, now) -> cell; pure."""


@dataclass(frozen=True, slots=True)
class Column:
    """`field` is a dotted path in the kind's schema; its description is the column's, unless `about` is given."""

    name: str
    cell: CellOf
    field: str = ""
    type: str = "string"
    format: str = ""
    wide: bool = False
    about: str = ""

    def definition(self, schema: Struct) -> Doc:
        """The TableColumnDefinition, with every field, as upstream sends it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.about or description(schema, self.field),
            "priority": 1 if self.wide else 0,
        }


Layouts = dict[tuple[str, str], tuple[Column, ...]]
"""The columns of kinds, by group and kind."""


def description(schema: Struct, field: str) -> str:
    """The schema's description of the field at a dotted path. KeyError for an unknown field."""
    *parents, last = field.split(".")
    for name in parents:
        below = schema.fields[name].type
        if not isinstance(below, Struct):
            raise KeyError(field)
        schema = below
    return schema.fields[last].description


# -- columns that show one field --------------------------------------------------------------------------------------


def of(
    name: str,
    path: str,
    show: Callable[[Any], Cell],
    *,
    field: str = "",
    type: str = "string",
    wide: bool = False,
    about: str = "",
) -> Column:
    """A column of `show(value)` for the value at a dotted path (None if absent)."""
    steps = path.split(".")
    return Column(name, lambda doc, now: show(dig(doc, *steps)), field or path, type=type, wide=wide, about=about)


def text(name: str, path: str, missing: str = "", *, type: str = "string", wide: bool = False) -> Column:
    """The string at a path; `missing` when it is absent or empty."""
    return of(name, path, lambda value: str(value or missing), type=type, wide=wide)


def number(name: str, path: str, *, type: str = "integer") -> Column:
    """The integer at a path, 0 when absent."""
    return of(name, path, lambda value: int(value or 0), type=type)


def flag(name: str, path: str, *, missing: bool = False, type: str = "boolean") -> Column:
    return of(name, path, lambda value: missing if value is None else bool(value), type=type)


def given(name: str, path: str, missing: str, *, wide: bool = False) -> Column:
    """The value at a path as text; `missing` only if the field is absent: an empty string stays empty."""
    return of(name, path, lambda value: missing if value is None else str(value), wide=wide)


def count(name: str, path: str, *, type: str = "integer", about: str = "") -> Column:
    """The number of items at a path."""
    return of(name, path, lambda items: len(items or ()), type=type, about=about)


def of_containers(name: str, field: str, *, template: str = "spec.template", wide: bool = True) -> Column:
    """One field of every container of a pod template."""
    where = "the template" if template == "template" else "the pod template"
    about = f"{name if name != 'Containers' else 'Names'} of the containers in {where}."
    return of(name, f"{template}.spec.containers", lambda items: joined(items, field), wide=wide, about=about)


NAME = Column("Name", lambda doc, now: str(dig(doc, "metadata", "name") or ""), "metadata.name", format="name")
AGE = Column("Age", lambda doc, now: age(dig(doc, "metadata", "creationTimestamp"), now), "metadata.creationTimestamp")
CONTAINERS, IMAGES = of_containers("Containers", "name"), of_containers("Images", "image")

# -- words ------------------------------------------------------------------------------------------------------------


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
    if wanted is None:
        return ""
    terms = [(key, f"{key}={value}") for key, value in wanted.get("matchLabels", {}).items()]
    terms += [(requirement["key"], _requirement(requirement)) for requirement in wanted.get("matchExpressions", ())]
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0]))


def selector_or_none(wanted: Doc | None) -> str:
    return selector(wanted) or NONE


def _requirement(requirement: Doc) -> str:
    key, values = requirement["key"], ",".join(sorted(requirement.get("values", ())))
    forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
    return forms.get(requirement["operator"], str(key))


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
