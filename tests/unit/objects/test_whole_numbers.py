"""Whole numbers from text: as they are, and beyond every range when nobody counts so far."""

from __future__ import annotations

import pytest

from tonnage.behaviour.workloads.pod_states import ordinal_of, scaled_value
from tonnage.clock import parse_duration
from tonnage.objects.field_rules import amount_of, at_most_all
from tonnage.objects.requirements import integer
from tonnage.quantity import whole_number

DIGITS = "9" * 5_000


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("-7", -7), ("+7", 7), ("007", 7), ("9" * 30, 10**30 - 1)])
def test_a_number_is_what_its_digits_spell(text: str, number: int) -> None:
    assert whole_number(text) == number


def test_thousands_of_digits_are_beyond_every_range() -> None:
    assert whole_number(DIGITS) > 2**63 and whole_number(f"-{DIGITS}") < -(2**63)
    assert integer(DIGITS) is None
    assert ordinal_of(f"web-{DIGITS}") == -1
    assert amount_of(f"{DIGITS}%") > 100 and at_most_all(f"{DIGITS}%", "f")
    assert scaled_value(f"{DIGITS}%", 3, round_up=True) > 3
    assert parse_duration(f"{DIGITS}s") is None
