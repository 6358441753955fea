"""The text form of label selectors: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1`.

    selector    = [ requirement { "," requirement } ]
    requirement = [ "!" ] key | key ( "=" | "==" | "!=" | ">" | "<" ) [ value ] | key ( "in" | "notin" ) "(" values ")"
    values      = [ value ] { "," [ value ] }

Blanks separate and mean nothing else; there is no quoting, and a left-out value is the empty one. `in` and `notin` are
operators only where an operator may stand, so that labels may have these names. Mirrors upstream's labels.Parse,
mistake by mistake: clients show its sentences. `selectors` is the way in.
"""

from __future__ import annotations

import re

from tonnage.objects.field_errors import FieldError, invalid
from tonnage.objects.names import label_key, label_value
from tonnage.objects.requirements import NOT_INTEGER, InvalidSelector, Requirement, integer

# The end of the text has no token of its own: it reads as the empty one, and upstream's messages show it as that.
_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_SYMBOLS = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">", ""))
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn", ">": "Gt", "<": "Lt"}


def requirements_in(text: str) -> tuple[Requirement, ...]:
    """The requirements of a selector's text, by key. Raises InvalidSelector with upstream's sentence."""
    tokens = _Tokens(text)
    found: list[Requirement] = []
    while tokens.next != "" or found:
        if not tokens.at_word() and tokens.next != "!":
            expected = "identifier after ','" if found else "!, identifier, or 'end of string'"
            raise InvalidSelector(f"found '{tokens.next}', expected: {expected}")
        try:
            found.append(_requirement(tokens))
        except InvalidSelector as exc:
            raise InvalidSelector(f"unable to parse requirement: {exc.message}") from None
        end = tokens.take()
        if end == "":
            break
        if end != ",":
            raise InvalidSelector(f"found '{end}', expected: ',' or 'end of string'")
    return tuple(sorted(found, key=lambda requirement: requirement.key))


class _Tokens:
    """The words and symbols of a text, one at a time."""

    def __init__(self, text: str) -> None:
        self._rest = iter(_TOKEN.findall(text))
        self.next: str = next(self._rest, "")

    def take(self) -> str:
        taken, self.next = self.next, next(self._rest, "")
        return taken

    def at_word(self) -> bool:
        return self.next not in _SYMBOLS


def _requirement(tokens: _Tokens) -> Requirement:
    is_negated = tokens.next == "!"
    if is_negated:
        tokens.take()
    if not tokens.at_word():
        raise InvalidSelector(f"found '{tokens.next}', expected: identifier")
    key = tokens.take()
    if problems := label_key(key):
        raise InvalidSelector(str(invalid("<nil>", key, "; ".join(problems))))  # upstream prints its missing path so
    if is_negated:
        return Requirement(key=key, operator="DoesNotExist")
    if tokens.next in ("", ","):
        return Requirement(key=key, operator="Exists")

    sign = tokens.take()
    if sign not in _OPERATORS:
        raise InvalidSelector(f"found '{sign}', expected: in, notin, =, ==, !=, gt, lt")
    values = _set_of_values(tokens) if sign in ("in", "notin") else (_exact_value(tokens),)
    _check(key, sign, values)
    return Requirement(key=key, operator=_OPERATORS[sign], values=values)


def _set_of_values(tokens: _Tokens) -> tuple[str, ...]:
    """`(x,y)`, each value once and in order. A gap between commas is the empty value; so is nothing at all."""
    if (opening := tokens.take()) != "(":
        raise InvalidSelector(f"found '{opening}' expected: '('")
    if not tokens.at_word() and tokens.next not in (",", ")"):
        raise InvalidSelector(f"found '{tokens.next}', expected: ',', ')' or identifier")
    values: set[str] = set()
    while True:
        if tokens.at_word():
            values.add(tokens.take())
            if tokens.next not in (",", ")"):
                raise InvalidSelector(f"found '{tokens.next}', expected: ',' or ')'")
        elif tokens.next in (",", ")"):
            values.add("")
        else:
            raise InvalidSelector(f"found '{tokens.next}', expected: ',', or identifier")
        if tokens.take() == ")":
            return tuple(sorted(values))


def _exact_value(tokens: _Tokens) -> str:
    if tokens.next in ("", ","):
        return ""
    if not tokens.at_word():
        raise InvalidSelector(f"found '{tokens.next}', expected: identifier")
    return tokens.take()


def _check(key: str, sign: str, values: tuple[str, ...]) -> None:
    wrong: list[FieldError] = []
    if sign in ("<", ">") and integer(values[0]) is None:
        wrong.append(invalid("values[0]", values[0], NOT_INTEGER))
    for position, value in enumerate(values):
        if problems := label_value(value):
            wrong.append(invalid(f"values[{position}][{key}]", value, "; ".join(problems)))
    if wrong:
        told = list(dict.fromkeys(map(str, wrong)))
        raise InvalidSelector(told[0] if len(told) == 1 else f"[{', '.join(told)}]")
