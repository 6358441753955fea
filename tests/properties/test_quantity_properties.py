"""Quantities against exact fractions: value, order and sums are those of the number the text says."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import example, given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.quantity import Format, InvalidQuantity, Quantity

NANO = Fraction(1, 10**9)
MAX_INT64 = 2**63 - 1
POWERS = {suffix: Fraction(10) ** (3 * step - 9) for step, suffix in enumerate(["n", "u", "m", "", *"kMGTPE"])} | {
    f"{letter}i": Fraction(1024) ** step for step, letter in enumerate("KMGTPE", start=1)
}

exponents = st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 60))
texts = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**25) | st.integers(0, 2000) | st.just("007"),
    st.just("") | st.text("0123456789", max_size=12).map(".{}".format),
    st.sampled_from(sorted(POWERS)) | exponents,
)
quantities = texts.map(Quantity.parse)


def number_in(text: str) -> Fraction:
    """The number a text says, the slow way: split, multiply, round to nanos away from zero, cap when binary."""
    number = text.rstrip("numkMGTPEKi")
    suffix = text[len(number) :]
    if "e" in number or "E" in number:
        number, exponent = number.lower().split("e")
        power = Fraction(10) ** int(exponent)
    else:
        power = POWERS[suffix]
    exact = abs(Fraction(number.rstrip("."))) * power
    nanos = math.ceil(exact / NANO)
    if suffix.endswith("i"):
        nanos = min(nanos, MAX_INT64 * 10**9)
    return (-1 if number.startswith("-") else 1) * nanos * NANO


def away_from_zero(number: Fraction) -> int:
    rounded = math.ceil(abs(number)) * (1 if number >= 0 else -1)
    return max(-MAX_INT64, min(rounded, MAX_INT64))


@settings(max_examples=tries(300), deadline=None)
@given(texts)
@example("1E")  # exa, not an exponent
@example("0.0000000001Ei")
def test_a_quantity_is_the_number_its_text_says(text: str) -> None:
    number = number_in(text)
    quantity = Quantity.parse(text)
    assert quantity.value() == away_from_zero(number)
    assert quantity.milli_value() == away_from_zero(number * 1000)
    assert quantity.sign() == (number > 0) - (number < 0)


@settings(max_examples=tries(300), deadline=None)
@given(texts, texts)
def test_order_equality_and_hash_follow_the_numbers(left: str, right: str) -> None:
    a, b = Quantity.parse(left), Quantity.parse(right)
    x, y = number_in(left), number_in(right)
    assert (a < b, a == b, a > b) == (x < y, x == y, x > y)
    assert a != b or hash(a) == hash(b)


@settings(max_examples=tries(300), deadline=None)
@given(quantities)
def test_the_canonical_text_reads_back_as_the_same_quantity(quantity: Quantity) -> None:
    again = Quantity.parse(str(quantity))
    assert (again, str(again)) == (quantity, str(quantity))


@settings(max_examples=tries(200), deadline=None)
@given(quantities, quantities, quantities)
def test_sums_have_no_order_and_no_loss(a: Quantity, b: Quantity, c: Quantity) -> None:
    assert (a + b) + c == c + (b + a)
    assert a + b - b == a
    assert a - a == Quantity.from_int(0)
    assert -(a - b) == b - a
    # A sum reads back from its text, unless a binary text says more than may be read.
    beyond = (a + b).format is Format.BINARY_SI and abs((a + b).value()) == MAX_INT64
    assert beyond or Quantity.parse(str(a + b)) == a + b


@settings(max_examples=tries(300), deadline=None)
@given(st.text("+-.0123456789eEinumkKMGTP ", max_size=8) | st.text(max_size=8))
def test_any_text_is_either_read_or_refused_with_a_sentence(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except InvalidQuantity as refused:
        assert " is not a quantity: " in str(refused)
        assert refused.upstream_message
    else:
        assert Quantity.parse(str(quantity)) == quantity
