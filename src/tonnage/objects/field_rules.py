"""Rules about single values that many kinds share: a word out of a list, a number within bounds, a harmless path.

Each returns the field errors it finds, in upstream's wording.

IP addresses and ranges in the fields that existed before anyone was strict about them.

Mirrors IsValidIPForLegacyField and IsValidCIDRForLegacyField with StrictIPCIDRValidation on: octets with leading
zeros and IPv4 addresses dressed as IPv6 are told apart from plain nonsense, and what an object already had is left
alone.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence, Set
from typing import Any

from tonnage.objects import names
from tonnage.objects.field_errors import Errors, FieldError, forbidden, go_value, invalid, required
from tonnage.objects.texts.decode_budget import whole_number

NEGATIVE = "must be greater than or equal to 0"

_MAX_INT32 = 2**31 - 1


def validate_label_name(key: str, path: str) -> Errors:
    return [invalid(path, key, sentence) for sentence in names.label_key(key)]


def unsupported(path: str, value: Any, allowed: Sequence[str]) -> FieldError:
    """A word that is not on the list, with the list in upstream's order, which is not always the alphabet's."""
    return FieldError("FieldValueNotSupported", path, value, "supported values: " + ", ".join(map(go_value, allowed)))


def choice(value: str, allowed: Sequence[str], path: str) -> Errors:
    """A word that must be there and be one of `allowed`."""
    if not value:
        return [required(path)]
    return [] if value in allowed else [unsupported(path, value, allowed)]


def optional_choice(value: str | None, allowed: Sequence[str], path: str) -> Errors:
    """A word that may be left out, but is one of `allowed` when it is there."""
    return [] if value is None or value in allowed else [unsupported(path, value, allowed)]


def sentences(path: str, value: Any, wrong: Iterable[str]) -> Errors:
    """One error for each sentence a name rule found."""
    return [invalid(path, value, told) for told in wrong]


def nonnegative(value: int, path: str) -> Errors:
    return [] if value >= 0 else [invalid(path, value, NEGATIVE)]


def positive(value: int, path: str) -> Errors:
    return [] if value > 0 else [invalid(path, value, "must be greater than zero")]


def user_or_group(value: int | None, path: str) -> Errors:
    """A numeric user or group id."""
    return [] if value is None else sentences(path, value, names.in_range(value, 0, _MAX_INT32))


def file_mode(value: int | None, path: str) -> Errors:
    if value is None or 0 <= value <= 0o777:
        return []
    return [invalid(path, value, "must be a number between 0 and 0777 (octal), both inclusive")]


def no_backsteps(value: str, path: str) -> Errors:
    return [invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def descending_path(value: str, path: str) -> Errors:
    """A relative path that stays below where it starts. Mirrors validateLocalDescendingPath."""
    errors = [invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    return errors + no_backsteps(value, path)


def unreserved_path(value: str, path: str) -> Errors:
    """The same, and no name that starts with two dots, which the kubelet keeps for itself."""
    errors = descending_path(value, path)
    if value.startswith("..") and not value.startswith("../"):
        errors.append(invalid(path, value, "must not start with '..'"))
    return errors


def port_number_or_name(value: int | str, path: str) -> Errors:
    """An IntOrString that names a port."""
    if isinstance(value, str):
        return sentences(path, value, names.port_name(value))
    return sentences(path, value, names.port_number(value))


def count_or_percent(value: int | str, path: str) -> Errors:
    """A number that is not negative, or a percentage. Mirrors ValidatePositiveIntOrPercent."""
    if isinstance(value, str):
        return sentences(path, value, names.percent(value))
    return nonnegative(value, path)


def at_most_all(value: int | str, path: str) -> Errors:
    """A percentage, where it is one, of no more than everything."""
    if isinstance(value, str) and not names.percent(value) and whole_number(value[:-1]) > 100:
        return [invalid(path, value, "must not be greater than 100%")]
    return []


def amount_of(value: int | str) -> int:
    """The number in a count or a percentage; a text that is neither counts as 0, or as the number it spells."""
    if isinstance(value, int):
        return value
    spelled = re.fullmatch("[+-]?[0-9]+", value.removesuffix("%") if not names.percent(value) else value)
    return whole_number(spelled[0]) if spelled else 0


def forbid_fields(doc: dict[str, Any], fields: Iterable[str], path: str, detail: str) -> Errors:
    """One refusal for each of these fields that is set."""
    return [forbidden(f"{path}.{field}", detail) for field in fields if field in doc]


_NOT_AN_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NOT_A_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def validate_ip(value: str, path: str, kept: Set[str] = frozenset()) -> Errors:
    """What is wrong with an address; those in `kept`, the old object's, are not judged again."""
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
    """What is wrong with a range such as 10.0.0.0/8."""
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
    """The address in a text, leading zeros in IPv4 forgiven as Kubernetes always did."""
    if re.fullmatch(r"[0-9]{1,}(\.[0-9]{1,}){3}", value):
        value = ".".join(str(int(octet)) for octet in value.split("."))
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        return None


def is_dual_stack(values: Sequence[str]) -> bool:
    """Does the list hold both families?"""
    return {address.version for value in values if (address := parse_ip(value)) is not None} == {4, 6}


def _has_padded_octets(value: str) -> bool:
    return ":" not in value and re.search(r"(^|\.)0[0-9]", value) is not None


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
