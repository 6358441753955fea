"""Rules for the values of fields, as data: rules for single values, and tables with a row per field.

    _PORT: Rules = {"name": needed(named(names.dns_label)), "protocol": needed(one_of("SCTP", "TCP", "UDP"))}
    errors += check(port, f"{path}[{idx}]", _PORT)

A rule takes a value and its path and returns field errors in upstream's wording. `check` applies a table. IP addresses
and ranges mirror IsValidIPForLegacyField and IsValidCIDRForLegacyField with StrictIPCIDRValidation on.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from tonnage.objects import names
from tonnage.objects.document import Doc, dig, same
from tonnage.objects.field_errors import (
    Errors,
    FieldError,
    Wrong,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    too_many,
    unsupported,
)
from tonnage.quantity import Quantity, whole_number

Rule = Callable[[Any, str], Iterable[FieldError]]
"""(value, path) -> the errors of the value."""
ListRule = Callable[[Any, str], Errors]
"""A rule that returns a list."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A rule that also applies to an absent field, as if its value were `zero`."""

    rule: Rule
    zero: Any = ""

    def __call__(self, value: Any, path: str) -> Iterable[FieldError]:
        return self.rule(value, path)


@dataclass(frozen=True, slots=True)
class OfWhole:
    """A rule that stands at a field, but judges the part of the document that has the field."""

    rule: Rule

    def __call__(self, value: Any, path: str) -> Iterable[FieldError]:
        return self.rule(value, path)


Rules = Mapping[str, Rule]
"""A field, or a dotted path of fields -> its rule; in the order of the errors."""


def check(doc: Doc, path: str, rules: Rules) -> Errors:
    """The errors of `rules` in the fields of a part of a document."""
    errors: Errors = []
    for field, rule in rules.items():
        if isinstance(rule, OfWhole):
            errors += rule.rule(doc, path)
            continue
        value = dig(doc, *field.split(".")) if "." in field else doc.get(field)
        if isinstance(rule, Asked):
            value, rule = rule.zero if value is None else value, rule.rule
        elif value is None:
            continue
        errors += rule(value, f"{path}.{field}" if path else field)
    return errors


def part(rules: Rules) -> ListRule:
    """A part of a document, with a table of its own."""
    return lambda value, path: check(value, path, rules)


def each(rule: Rule | Rules, *, at_most: int | None = None) -> ListRule:
    """A list, with a rule or a table for every item."""
    judge = rule if callable(rule) else part(rule)

    def judge_list(values: Any, path: str) -> Errors:
        errors = [too_many(path, len(values), at_most)] if at_most is not None and len(values) > at_most else []
        for idx, item in enumerate(values):
            errors += judge(item, f"{path}[{idx}]")
        return errors

    return judge_list


def both(first: Rule, second: Rule) -> Rule:
    return lambda value, path: chain(first(value, path), second(value, path))


def needed(rule: Rule | None = None, told: str = "") -> Asked:
    """A field that must not be absent or empty; `rule` applies to its value."""

    def judge(value: Any, path: str) -> Iterable[FieldError]:
        if not value:
            return [required(path, told)]
        return rule(value, path) if rule is not None else []

    return Asked(judge)


def if_set(rule: Rule) -> Rule:
    """A field that may be empty; `rule` applies to other values."""
    return lambda value, path: rule(value, path) if value else []


def unique() -> ListRule:
    """A rule for the values of one list: an error for a value that it has seen before."""
    seen: set[Any] = set()

    def judge(value: Any, path: str) -> Errors:
        errors = [duplicate(path, value)] if value in seen else []
        seen.add(value)
        return errors

    return judge


def named(rule: Callable[[Any], list[str]]) -> ListRule:
    """A name: one error for every sentence that `rule` returns."""
    return lambda value, path: sentences(path, value, rule(value))


def one_of(*allowed: str) -> ListRule:
    """One of the words, which the error lists in this order (upstream's)."""
    return lambda value, path: [] if value in allowed else [unsupported(path, value, allowed)]


def at_most_bytes(limit: int) -> ListRule:
    return lambda value, path: [too_long(path, limit)] if len(value.encode()) > limit else []


def within(low: int, high: int) -> ListRule:
    return lambda value, path: sentences(path, value, names.in_range(value, low, high))


def must_be(is_legal: Callable[[Any], bool], told: str) -> ListRule:
    """A value for which `is_legal` holds; `told` is the error's sentence."""
    return lambda value, path: [] if is_legal(value) else [invalid(path, value, told)]


file_mode = must_be(lambda value: 0 <= value <= 0o777, "must be a number between 0 and 0777 (octal), both inclusive")
IMMUTABLE = "field is immutable"


def immutable(path: str, new: Any, old: Any) -> Errors:
    """One error if a value differs from the stored one; it shows the new value."""
    return [] if same(new, old) else [invalid(path, new, IMMUTABLE)]


def unchanged_fields(new: Doc, old: Doc, *paths: str) -> Errors:
    """One error for every field, given as dotted paths, that differs from the stored object."""
    steps = ((path, path.split(".")) for path in paths)
    return [error for path, step in steps for error in immutable(path, dig(new, *step), dig(old, *step))]


NEGATIVE = "must be greater than or equal to 0"


def sentences(path: str, value: Any, wrong: Iterable[str]) -> Errors:
    return [invalid(path, value, told) for told in wrong]


def dns1035_label(value: str, path: str) -> Errors:
    """A name of a definition: one error for all sentences."""
    return [invalid(path, value, ",".join(wrong))] if (wrong := names.dns1035_label(value)) else []


def mixed_case_label(value: str, path: str) -> Errors:
    wrong = names.dns1035_label(value.lower())
    told = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
    return [invalid(path, value, told)] if wrong else []


validate_label_name = named(names.label_key)


def validate_labels(labels: Mapping[str, str], path: str) -> Wrong:
    for key, value in labels.items():
        yield from validate_label_name(key, path)
        yield from sentences(path, value, names.label_value(value))


nonnegative = must_be(lambda value: value >= 0, NEGATIVE)
NOT_POSITIVE = "must be greater than zero"
positive = must_be(lambda value: value > 0, NOT_POSITIVE)
no_backsteps = must_be(lambda value: ".." not in value.split("/"), "must not contain '..'")


def nonnegative_quantity(text: str, path: str, least: int = 0, told: str = NEGATIVE) -> Errors:
    quantity = Quantity.of(text)
    return [invalid(path, str(quantity), told)] if quantity.sign() < least else []


positive_quantity = partial(nonnegative_quantity, least=1, told=NOT_POSITIVE)


def token_lifetime(seconds: int, path: str) -> Errors:
    if seconds < 600:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    return [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")] if seconds > 1 << 32 else []


def descending_path(value: str, path: str) -> Errors:
    """A relative path that stays below its start. Mirrors validateLocalDescendingPath."""
    errors = [invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    return errors + no_backsteps(value, path)


def unreserved_path(value: str, path: str) -> Wrong:
    """A descending path that does not begin with two dots, which the kubelet reserves."""
    yield from descending_path(value, path)
    if value.startswith("..") and not value.startswith("../"):
        yield invalid(path, value, "must not start with '..'")


def port_number_or_name(value: int | str, path: str) -> Errors:
    if isinstance(value, str):
        return sentences(path, value, names.port_name(value))
    return sentences(path, value, names.port_number(value))


def count_or_percent(value: int | str, path: str) -> Errors:
    """A number that is not negative, or a percentage. Mirrors ValidatePositiveIntOrPercent."""
    if isinstance(value, str):
        return sentences(path, value, names.percent(value))
    return nonnegative(value, path)


def at_most_all(value: int | str, path: str) -> Errors:
    """If it is a percentage, at most 100%."""
    if isinstance(value, str) and not names.percent(value) and whole_number(value[:-1]) > 100:
        return [invalid(path, value, "must not be greater than 100%")]
    return []


def amount_of(value: int | str) -> int:
    """The number in a count or a percentage; another text counts as the number it spells, or as 0."""
    if isinstance(value, int):
        return value
    spelled = re.fullmatch("[+-]?[0-9]+", value.removesuffix("%") if not names.percent(value) else value)
    return whole_number(spelled[0]) if spelled else 0


def forbid_fields(doc: dict[str, Any], fields: Iterable[str], path: str, detail: str) -> Errors:
    return [forbidden(f"{path}.{field}", detail) for field in fields if field in doc]


_NOT_AN_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NOT_A_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def validate_ip(value: str, path: str, kept: Set[str] = frozenset()) -> Errors:
    """The errors of an address; addresses in `kept`, the old object's, are not validated again."""
    if value in kept:
        return []
    address = parse_ip(value)
    if address is None:
        return [invalid(path, value, _NOT_AN_ADDRESS)]
    if _has_padded_octets(value):
        return [invalid(path, value, "must not have leading 0s")]
    if _is_mapped(address):
        return [invalid(path, value, "must not be an IPv4-mapped IPv6 address")]
    return []


def validate_cidr(value: str, path: str, kept: Set[str] = frozenset()) -> Errors:
    """The errors of a range such as 10.0.0.0/8; ranges in `kept` are not validated again."""
    if value in kept:
        return []
    base, slash, length = value.partition("/")
    address = parse_ip(base)
    if address is None or not slash or not length.isdigit() or int(length) > address.max_prefixlen:
        return [invalid(path, value, _NOT_A_RANGE)]
    is_padded = len(length) > 1 and length.startswith("0")
    if is_padded or _has_padded_octets(base):
        return [invalid(path, value, "must not have leading 0s in IP or prefix length")]
    if _is_mapped(address):
        return [invalid(path, value, "must not have an IPv4-mapped IPv6 address")]
    network = ipaddress.ip_network(f"{address}/{int(length)}", strict=False)
    if address != network.network_address:
        return [invalid(path, value, "must not have bits set beyond the prefix length")]
    return []


def parse_ip(value: str) -> Address | None:
    """The address in a text; as in Kubernetes, IPv4 may have leading zeros."""
    if re.fullmatch(r"[0-9]{1,}(\.[0-9]{1,}){3}", value):
        value = ".".join(str(int(octet)) for octet in value.split("."))
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        return None


def is_dual_stack(values: Sequence[str]) -> bool:
    return {address.version for value in values if (address := parse_ip(value)) is not None} == {4, 6}


def _has_padded_octets(value: str) -> bool:
    return ":" not in value and re.search(r"(^|\.)0[0-9]", value) is not None


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
