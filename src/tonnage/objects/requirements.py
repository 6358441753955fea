"""What one label must be: the atom of label selectors and of node selectors.

Upstream has it twice, as LabelSelectorRequirement and NodeSelectorRequirement, and judges both by one rule; here there
is one class. `selectors` and `node_selectors` say how requirements combine.
"""

from __future__ import annotations

import re

from tonnage.errors import BadRequest
from tonnage.objects.field_errors import go_value
from tonnage.objects.meta import Record
from tonnage.objects.texts.whole_numbers import whole_number

_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1
_is_integer = re.compile(r"[+-]?[0-9]+").fullmatch

EMPTY_SET = "for 'in', 'notin' operators, values set can't be empty"
NOT_EMPTY = "values set must be empty for exists and does not exist"
NOT_ONE = "for 'Gt', 'Lt' operators, exactly one value is required"
NOT_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"


class InvalidSelector(BadRequest):
    """A selector that cannot be understood: 400 on the wire, in upstream's words."""


class Requirement(Record):
    """One label against `values`: In, NotIn, Exists, DoesNotExist; in node selectors and in text also Gt and Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """Judge a label's value, None where the label is missing. Mirrors labels.Requirement.Matches.

        NotIn holds for a missing label. Gt and Lt compare integers and hold for nothing that is none. Raises
        InvalidSelector when the requirement makes no sense: an unknown operator, or values that do not suit it.
        """
        match self.operator:
            case "In" if self.values:
                return value in self.values
            case "NotIn" if self.values:
                return value not in self.values
            case "Exists" if not self.values:
                return value is not None
            case "DoesNotExist" if not self.values:
                return value is None
            case "Gt" | "Lt" if len(self.values) == 1 and (bound := integer(self.values[0])) is not None:
                found = integer(value)
                return found is not None and (found > bound if self.operator == "Gt" else found < bound)
        raise self._invalid()

    def _invalid(self) -> InvalidSelector:
        match self.operator:
            case "In" | "NotIn":
                problem = EMPTY_SET
            case "Exists" | "DoesNotExist":
                problem = NOT_EMPTY
            case "Gt" | "Lt":
                problem = NOT_ONE if len(self.values) != 1 else NOT_INTEGER
            case _:
                return InvalidSelector(f"{go_value(self.operator)} is not a valid label selector operator")
        return InvalidSelector(f"values: Invalid value: {go_value(self.values)}: {problem}")

    def __str__(self) -> str:
        """The text form: `tier in (a,b)`, `!tier`, `size>3`."""
        values = ",".join(sorted(self.values))
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "Gt" | "Lt":
                return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{values}"
            case _:
                return f"{self.key} {self.operator.lower()} ({values})"


def integer(value: str | None) -> int | None:
    """The text as a 64-bit integer, None when it is none; Python's laxer forms, such as `1_0`, are none."""
    if value is None or not _is_integer(value):
        return None
    number = whole_number(value)
    return number if _MIN_INT64 <= number <= _MAX_INT64 else None
