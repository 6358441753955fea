"""Field errors in the words kubectl prints.

Validation never raises: rules collect `FieldError`s, so that a person sees all errors at once. A path is plain text in
upstream's spelling, `spec.drivers[0].name` or `metadata.annotations[a/b]`, built by f-strings. `invalid_object` turns
the list into the one 422 answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from tonnage.errors import Cause, Invalid

OMIT: Any = object()
"""A bad value that the message does not repeat (upstream omits secrets and whole objects)."""
_TITLES = {
    "FieldValueRequired": "Required value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueNotFound": "Not found",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTooFew": "Too few",
    "InternalError": "Internal error",
}
_WITHOUT_VALUE = frozenset({"FieldValueRequired", "FieldValueForbidden", "FieldValueTooLong", "InternalError"})


@dataclass(frozen=True, slots=True)
class FieldError:
    """One broken rule. `reason` is the machine-readable cause; `body` the sentence without the field's path."""

    reason: str
    field: str
    value: Any
    detail: str = ""

    @property
    def body(self) -> str:
        text = _TITLES[self.reason]
        if self.reason not in _WITHOUT_VALUE and self.value is not OMIT:
            text += f": {go_value(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


Errors = list[FieldError]
Wrong = Iterator[FieldError]
"""Errors as an iterator."""
MAX_ERRORS_TOLD = 250
"""How many errors one answer names; the rest are counted. A body of 3 MB can have a hundred thousand."""
MAX_VALUE_BYTES = 64 * 1024
"""How much of a value an error shows: it may be the whole object."""
MAX_TOLD_BYTES = 256 * 1024


def go_value(value: Any) -> str:
    """A value as upstream prints it in an error: text quoted, everything else as JSON."""
    return msgspec.json.encode(value).decode()


invalid = partial(FieldError, "FieldValueInvalid")
type_invalid = partial(FieldError, "FieldValueTypeInvalid")
duplicate = partial(FieldError, "FieldValueDuplicate")
not_found = partial(FieldError, "FieldValueNotFound")


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, "", detail)


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, "", detail)


def unsupported(field: str, value: Any, allowed: Iterable[str]) -> FieldError:
    """A word that is not on the list, with the list in upstream's order, which is not always alphabetical."""
    return FieldError("FieldValueNotSupported", field, value, "supported values: " + ", ".join(map(go_value, allowed)))


def too_long(field: str, max_length: int) -> FieldError:
    """The value is never repeated: it may be megabytes."""
    return FieldError(
        "FieldValueTooLong",
        field,
        "",
        f"may not be more than {max_length} byte{'s' * (max_length != 1)}" if max_length >= 0 else "",
    )


def too_many(field: str, actual: int, maximum: int) -> FieldError:
    return FieldError("FieldValueTooMany", field, actual, f"must have at most {maximum} item{'s' * (maximum != 1)}")


def invalid_object(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> Invalid:
    """The 422 answer for one object: `CSINode.storage.k8s.io "n1" is invalid: …`, with one cause per error."""
    bodies, causes = _told(errors)
    told = bodies[0] if len(bodies) == 1 else f"[{', '.join(bodies)}]"
    qualified = f"{kind}.{group}" if group else kind
    return Invalid(
        f"{qualified} {go_value(name)} is invalid: {told}",
        group=group,
        kind=kind,
        name=name,
        causes=causes,
    )


def _told(errors: Sequence[FieldError]) -> tuple[list[str], tuple[Cause, ...]]:
    """The sentences without repetitions, and the causes: the first ones, and how many more there are."""
    bodies: dict[str, None] = {}
    causes: list[Cause] = []
    left_bytes = MAX_TOLD_BYTES
    for error in errors[:MAX_ERRORS_TOLD]:
        body = error.body
        if len(body) > MAX_VALUE_BYTES:
            body = f"{body[:MAX_VALUE_BYTES]}... ({len(body) - MAX_VALUE_BYTES} more characters)"
        left_bytes -= len(body)
        if left_bytes < 0 and causes:
            break
        bodies[f"{error.field}: {body}"] = None
        causes.append(Cause(error.reason, body, error.field))
    more = len(errors) - len(causes)
    return [*bodies, *([f"and {more} more errors"] if more else [])], tuple(causes)
