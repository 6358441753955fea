"""What a text may decode to: counted alike for JSON and YAML, and refused before it is made."""

from __future__ import annotations

import json

import msgspec
import pytest

from tonnage.objects.document import (
    MAX_DEPTH,
    REQUEST,
    Budget,
    BudgetExceeded,
    Limits,
    NumberOutOfRange,
    Size,
    file_limits,
    measure,
    read_json,
    size_of,
)
from tonnage.objects.texts.yaml_text import ExcessiveYaml, InvalidYaml, NestedTooDeeply, documents


def small(values: int = 1_000, text_bytes: int = 1_000, depth: int = 10) -> Budget:
    return Budget(Limits(values, text_bytes, depth))


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def test_values_text_and_levels_are_counted() -> None:
    # the map, the list, "é", 1, null; keys "a" and "b" and two bytes of é
    assert size_of({"a": ["é", 1], "b": None}) == Size(values=5, text_bytes=4, depth=2)
    assert size_of("abc") == Size(1, 3, 0)


def test_the_size_of_something_very_deep_can_be_asked() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    assert size_of(value).depth == 100_001
    while value:  # taken apart from outside: Python's own way of freeing it would need the stack
        value = value.pop()  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("budget", "what"), [(small(values=3), "values"), (small(text_bytes=10), "text"), (small(depth=2), "depth")]
)
def test_json_beyond_the_budget_is_refused(budget: Budget, what: str) -> None:
    with pytest.raises(BudgetExceeded) as caught:
        read_json(b'{"a":{"b":{"c":"d"}}}', budget)
    assert caught.value.what == what


def test_json_at_the_limit_of_depth_is_read_and_one_more_is_not() -> None:
    assert size_of(read_json(nested(MAX_DEPTH), Budget(REQUEST))).depth == MAX_DEPTH
    with pytest.raises(BudgetExceeded, match="the limit is 100 levels"):
        read_json(nested(MAX_DEPTH + 1), Budget(REQUEST))


def test_brackets_in_strings_can_hide_no_depth_and_feign_none() -> None:
    # Each level closes itself in a string, and opens itself again in another one behind.
    hidden = b'{"a":"}","b":' * 300 + b"1" + b',"c":"{"}' * 300
    with pytest.raises(BudgetExceeded):
        read_json(hidden, Budget(REQUEST))
    feigned = json.dumps({"text": "[" * 5_000 + '\\"{' * 500, "[[[": "]"}).encode()
    assert read_json(feigned, Budget(REQUEST))["[[["] == "]"


def test_brackets_that_are_never_closed_are_too_deep_or_no_json() -> None:
    with pytest.raises(BudgetExceeded):
        read_json(b"[" * 100_000, Budget(REQUEST))
    with pytest.raises(msgspec.DecodeError):
        read_json(b"[[1]", Budget(REQUEST))


def test_a_budget_is_shared_by_all_that_is_read_with_it() -> None:
    budget = small(values=10)
    measure(b"[1,2,3]", budget)
    with pytest.raises(BudgetExceeded):
        for _ in range(3):
            measure(b"[1,2,3]", budget)


@pytest.mark.parametrize("number", [b"9" * 5_000, b"-" + b"9" * 25, b"18446744073709551616", b"1e400", b"1e999999"])
def test_a_number_that_go_has_not_is_told(number: bytes) -> None:
    with pytest.raises(NumberOutOfRange) as caught:
        read_json(b'{"a":[' + number + b"]}", Budget(REQUEST))
    assert str(caught.value).startswith(f"json: cannot unmarshal number {number.decode()[:20]}")
    assert len(str(caught.value)) < 120


def test_long_numbers_within_range_and_long_texts_are_read() -> None:
    text = b"[18446744073709551615,-9223372036854775808,0." + b"1" * 400 + b',"' + b"9" * 5_000 + b'"]'
    largest, smallest, fraction, digits = read_json(text, Budget(REQUEST))
    assert (largest, smallest, round(fraction, 3), len(digits)) == (2**64 - 1, -(2**63), 0.111, 5_000)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_in_json_is_none_here(number: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_json(f"[{number}]".encode(), Budget(REQUEST))


# -- YAML -------------------------------------------------------------------------------------------------------------


def read_yaml(text: str, budget: Budget) -> object:
    return next(documents(text, budget)).value


def test_an_alias_costs_what_its_anchor_holds() -> None:
    budget = small()
    # a: list of two texts (3 values, 4 bytes, and 1 byte for the key), twice, in a map of its own
    assert read_yaml("a: &x [no1, b]\nb: *x", budget) == {"a": ["no1", "b"], "b": ["no1", "b"]}
    assert (budget.values, budget.text_bytes) == (7, 10)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: &a [1, 2, 3]\nb: [*a, *a, *a]", "yaml: line 2: document contains excessive aliasing: it decodes to"),
        ("a: &a xxxxxxxx\nb: [*a, *a, *a]", "yaml: line 2: document contains excessive aliasing: it decodes to"),
        ("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]", "yaml: line 1: it decodes to too many values: the limit is 10"),
    ],
)
def test_yaml_beyond_the_budget_is_refused_with_its_line(text: str, told: str) -> None:
    with pytest.raises(ExcessiveYaml) as caught:
        read_yaml(text, small(values=10, text_bytes=25))
    assert caught.value.message.startswith(told)


def test_aliases_may_not_nest_what_is_written_flat() -> None:
    text = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 9))
    # the map around it, and nine lists
    assert size_of(read_yaml(text, small())).depth == 10
    with pytest.raises(NestedTooDeeply):
        read_yaml(text, small(depth=9))


def test_yaml_at_the_limit_of_depth_is_read_and_one_more_is_not() -> None:
    for opening, closing in (("[", "]"), ("- ", ""), ("{a: ", "}")):
        text = opening * MAX_DEPTH + "1" + closing * MAX_DEPTH
        assert size_of(read_yaml(text, Budget(REQUEST))).depth == MAX_DEPTH
        with pytest.raises(NestedTooDeeply):
            read_yaml(opening + text + closing, Budget(REQUEST))


def test_merges_keep_their_order_and_precedence() -> None:
    text = "a: &a {p: 1, q: 1}\nb: &b {q: 2, r: 2}\nc: {r: 3, <<: [*a, *b], s: 3}"
    merged = read_yaml(text, Budget(REQUEST))["c"]  # type: ignore[index]
    assert list(merged.items()) == [("q", 1), ("r", 3), ("p", 1), ("s", 3)]


@pytest.mark.parametrize(("text", "value"), [("9" * 5_000, "9" * 5_000), ("0x" + "f" * 5_000, "0x" + "f" * 5_000)])
def test_an_integer_of_thousands_of_digits_is_text_as_in_go(text: str, value: str) -> None:
    assert read_yaml(f"a: {text}", Budget(REQUEST)) == {"a": value}


def test_zeros_in_front_make_no_number_longer() -> None:
    assert read_yaml(f"[0x{'0' * 5_000}10, {'9' * 30}]", Budget(REQUEST)) == [16, 1e30]


def test_a_file_may_hold_whatever_it_is_long_enough_for() -> None:
    text = "\n".join(f"- {{name: n{n}, labels: {{a: b}}}}" for n in range(60_000))
    assert len(read_yaml(text, Budget(file_limits(len(text))))) == 60_000  # type: ignore[arg-type]
    with pytest.raises(InvalidYaml):
        read_yaml(text, Budget(REQUEST))


def test_aliases_of_a_file_may_add_a_million_values_and_no_more() -> None:
    text = "a: &a [" + "x, " * 1_000 + "]\nb: [" + "*a, " * 1_100 + "]"
    with pytest.raises(ExcessiveYaml):
        list(documents(text))
