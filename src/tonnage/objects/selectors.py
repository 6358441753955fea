"""Selectors of objects by label (`LabelSelector`) and by field (`FieldSelector`).

An empty selector matches everything, an absent one nothing (`selects`). Rules, grammar and error sentences are
upstream's, including its mistakes. The text form of label selectors is `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1`:
blanks separate, there is no quoting, a missing value is the empty one, and `in` and `notin` are operators only in an
operator's place. Selectors of nodes stand in `requirements`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tonnage.objects import meta, names
from tonnage.objects.field_errors import invalid
from tonnage.objects.requirements import FEW, InvalidSelector, LabelMatcher, Requirement, requirement_errors

# The end of the text reads as the empty token, and upstream's messages show it so.
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
    if problems := names.label_key(key):
        raise InvalidSelector(str(invalid("<nil>", key, "; ".join(problems))))  # upstream prints its missing path so
    if is_negated:
        return Requirement(key=key, operator="DoesNotExist")
    if tokens.next in ("", ","):
        return Requirement(key=key, operator="Exists")

    sign = tokens.take()
    if sign not in _OPERATORS:
        raise InvalidSelector(f"found '{sign}', expected: in, notin, =, ==, !=, gt, lt")
    values = _set_of_values(tokens) if sign in ("in", "notin") else (_exact_value(tokens),)
    requirement = Requirement(key=key, operator=_OPERATORS[sign], values=values)
    if wrong := list(dict.fromkeys(map(str, requirement_errors(requirement)))):
        raise InvalidSelector(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
    return requirement


def _set_of_values(tokens: _Tokens) -> tuple[str, ...]:
    """`(x,y)`, sorted without repetitions. A gap between commas is the empty value; so are empty parentheses."""
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


_SHARED_CHARS = 64 * 1024
"""The longest URL. Longer texts, which reviews may have, are not cached."""
__all__ = [
    "FieldSelector",
    "InvalidSelector",
    "LabelMatcher",
    "LabelSelector",
    "Requirement",
    "label_matcher",
    "selects",
]


class LabelSelector(meta.Record, dict=True, gc=True):
    """All of `match_labels` and all of `match_expressions` must hold; with neither, everything matches."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Read `a=b,c!=d,e in (x,y),!f,g>1`; an empty text matches everything. Raises InvalidSelector."""
        labels: dict[str, str] = {}
        others: list[Requirement] = []
        for requirement in requirements_in(text):
            is_equality = requirement.operator == "In" and len(requirement.values) == 1
            # A second equality on one key must stay beside the first: together they may match nothing.
            if is_equality and requirement.key not in labels:
                labels[requirement.key] = requirement.values[0]
            else:
                others.append(requirement)
        return cls(match_labels=labels, match_expressions=tuple(others))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True if an object's labels match. Raises InvalidSelector at the first invalid expression."""
        if len(self.match_expressions) > FEW or len(self.match_labels) > FEW:
            return self._matcher.matches(labels)
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(requirement.holds(labels.get(requirement.key)) for requirement in self.match_expressions)

    @cached_property
    def _matcher(self) -> LabelMatcher:
        return LabelMatcher((*self._equalities(), *self.match_expressions))

    def _equalities(self) -> Iterator[Requirement]:
        return (Requirement(key=key, operator="In", values=(value,)) for key, value in self.match_labels.items())

    def requirements(self) -> tuple[Requirement, ...]:
        """The selector as one sorted, hashable tuple: selectors with equal requirements match the same labels."""
        both = (*self._equalities(), *self.match_expressions)
        return tuple(sorted(both, key=lambda each: (each.key, each.operator, each.values)))

    @property
    def is_empty(self) -> bool:
        return not self.match_labels and not self.match_expressions

    def __str__(self) -> str:
        """The text form, by key: `app=web,tier in (a,b)`."""
        parts = [(key, f"{key}={value}") for key, value in self.match_labels.items()]
        parts += [(requirement.key, str(requirement)) for requirement in self.match_expressions]
        return ",".join(text for _, text in sorted(parts, key=lambda part: part[0]))


def label_matcher(text: str) -> LabelMatcher:
    """Read `?labelSelector=`; recent texts are cached. Raises InvalidSelector."""
    return _read_labels(text) if len(text) <= _SHARED_CHARS else _read_labels.__wrapped__(text)


@lru_cache(maxsize=32)
def _read_labels(text: str) -> LabelMatcher:
    return LabelMatcher(requirements_in(text))


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """True if an object's selector matches these labels; an absent selector matches nothing."""
    return selector is not None and selector.matches(labels)


@dataclass(frozen=True)
class FieldSelector:
    """Every term says that a field has a value (In) or another one (NotIn); without terms, everything matches."""

    terms: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        r"""Read `a=b,c!=d`; a value writes `,`, `=` and `\` with a backslash in front. Raises InvalidSelector.

        Blanks belong to names and values. The resource, not the grammar, decides which fields are allowed. Mirrors
        fields.ParseSelector, which sorts the terms (this decides which of several errors is reported) and ignores a
        term without field and value. Recent texts are cached.
        """
        return _read_fields(text) if len(text) <= _SHARED_CHARS else _read_fields.__wrapped__(text)

    @cached_property
    def matcher(self) -> LabelMatcher:
        """The terms as a matcher over all of `fields`; a field that an object lacks must be given as empty."""
        return LabelMatcher(self.terms)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The names of its fields without repetitions."""
        return tuple(dict.fromkeys(term.key for term in self.terms))

    def required(self, field: str) -> str | None:
        """The value that a field must have to match; None if several are possible."""
        return next((term.values[0] for term in self.terms if term.operator == "In" and term.key == field), None)


@lru_cache(maxsize=8)
def _read_fields(text: str) -> FieldSelector:
    terms = [_field_term(text, part) for part in sorted(_TERMS.findall(text)) if part]
    return FieldSelector(tuple(term for term in terms if term.key or term.values[0]))


_TERMS = re.compile(r"(?:\\.|[^,])*", re.DOTALL)
_SIGN = re.compile("!=|==|=")
_SPECIAL = re.compile(r"\\(.?)|[,=]", re.DOTALL)


def _field_term(selector: str, part: str) -> Requirement:
    sign = _SIGN.search(part)
    if sign is None:
        raise InvalidSelector(f"invalid selector: '{selector}'; can't understand '{part}'")
    value = _SPECIAL.sub(_unescaped, part[sign.end() :])
    return Requirement(key=part[: sign.start()], operator=_OPERATORS[sign[0]], values=(value,))


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[1]
    if escaped is None:
        raise InvalidSelector(f"invalid field selector: unescaped character in value: {ord(found[0])}")
    if escaped not in ("\\", ",", "="):
        raise InvalidSelector(f"invalid field selector: invalid escape sequence: \\{escaped}")
    return str(escaped)
