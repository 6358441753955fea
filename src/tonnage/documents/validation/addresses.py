"""IP addresses and ranges in the fields that existed before anyone was strict about them.

Mirrors IsValidIPForLegacyField and IsValidCIDRForLegacyField with StrictIPCIDRValidation on: octets with leading
zeros and IPv4 addresses dressed as IPv6 are told apart from plain nonsense, and what an object already had is left
alone.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence, Set

from tonnage.objects.field_errors import Errors, invalid

_NOT_AN_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NOT_A_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def validate_ip(value: str, path: str, kept: Set[str] = frozenset()) -> Errors:
    """What is wrong with an address; those in `kept`, the old object's, are not judged again."""
    if value in kept:
        return []
    address = parse(value)
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
    address = parse(base)
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


def parse(value: str) -> Address | None:
    """The address in a text, leading zeros in IPv4 forgiven as Kubernetes always did."""
    if re.fullmatch(r"[0-9]{1,}(\.[0-9]{1,}){3}", value):
        value = ".".join(str(int(octet)) for octet in value.split("."))
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        return None


def is_dual_stack(values: Sequence[str]) -> bool:
    """Does the list hold both families?"""
    return {address.version for value in values if (address := parse(value)) is not None} == {4, 6}


def _has_padded_octets(value: str) -> bool:
    return ":" not in value and re.search(r"(^|\.)0[0-9]", value) is not None


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
