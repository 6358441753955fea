"""Addresses in fields that are older than the strictness about them."""

from __future__ import annotations

import pytest

from tonnage.objects.field_rules import is_dual_stack, validate_cidr, validate_ip


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("10.0.0.1", ""),
        ("fd00::1", ""),
        ("FD00:0:0:0:0:0:0:1", ""),
        ("010.0.0.1", "must not have leading 0s"),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
        ("10.0.0", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ("", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ],
)
def test_an_address_is_judged_in_upstreams_words(value: str, told: str) -> None:
    assert [error.detail for error in validate_ip(value, "f")] == ([told] if told else [])


def test_what_was_stored_before_is_not_judged_again() -> None:
    assert validate_ip("010.0.0.1", "f", {"010.0.0.1"}) == []
    assert validate_cidr("10.0.0.1/8", "f", {"10.0.0.1/8"}) == []


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("10.0.0.0/8", ""),
        ("2001:db8::/64", ""),
        ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
        ("010.0.0.0/8", "must not have leading 0s in IP or prefix length"),
        ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
        ("::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
        ("10.0.0.0/33", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        ("10.0.0.0", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
    ],
)
def test_a_range_is_judged_in_upstreams_words(value: str, told: str) -> None:
    assert [error.detail for error in validate_cidr(value, "f")] == ([told] if told else [])


def test_dual_stack_is_one_of_each() -> None:
    assert is_dual_stack(["10.0.0.1", "fd00::1"])
    assert not is_dual_stack(["10.0.0.1", "10.0.0.2"])
