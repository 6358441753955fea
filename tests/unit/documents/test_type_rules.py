"""The rules in the lines of schema files: what every word asks, the order of errors, and lines that make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.schema import SchemaError, Struct, load, structs
from tonnage.documents.strategy import TypeRules, complete
from tonnage.objects.field_errors import FieldError, invalid
from tonnage.objects.field_rules import OfWhole

META = """\
package io.k8s.apimachinery.pkg.apis.meta.v1

type ObjectMeta
  name string
"""


def read(*lines: str) -> Struct:
    """The type `T` of a file with these fields; `type` begins another type."""
    texts = [line if line.startswith("type ") else f"  {line}" for line in lines]
    return load({"meta_v1": META, "core_v1": "\n".join(("package io.k8s.api.core.v1", "type T", *texts))})["core_v1"][
        "T"
    ]


def errors(value: dict[str, Any], *lines: str) -> list[str]:
    return [str(error) for error in TypeRules(read(*lines))(value, "")]


@pytest.mark.parametrize(
    ("line", "value", "told"),
    [
        ("x string required", None, "x: Required value"),
        ("x string required", "", "x: Required value"),
        ('x [string] required:"at least one"', [], "x: Required value: at least one"),
        ("x string nonempty", "", "x: Required value"),
        ('x string required:"one of {enum}" enum=A,B', "", 'x: Required value: one of ["A" "B"]'),
        ("x string enum=A,B", "C", 'x: Unsupported value: "C": supported values: "A", "B"'),
        ("x string strict enum=A,B", None, 'x: Unsupported value: "": supported values: "A", "B"'),
        ("x string enum=A,B:\"must be 'A' or 'B'\"", "C", "x: Invalid value: \"C\": must be 'A' or 'B'"),
        ("x int32 minimum=0", -1, "x: Invalid value: -1: must be greater than or equal to 0"),
        ("x Quantity minimum=0", "-1Gi", 'x: Invalid value: "-1Gi": must be greater than or equal to 0'),
        ("x [int64] minimum=0", [1, -2], "x[1]: Invalid value: -2: must be greater than or equal to 0"),
        ("x int32 range=1..9", 10, "x: Invalid value: 10: must be between 1 and 9, inclusive"),
        ("x int32 strict range=1..9", None, "x: Invalid value: 0: must be between 1 and 9, inclusive"),
        ("x string maxBytes=2", "éé", "x: Too long: may not be more than 2 bytes"),
        ("x [string] maxItems=1", ["a", "b"], "x: Too many: 2: must have at most 1 item"),
        ("x [string] unique", ["a", "b", "a"], 'x[2]: Duplicate value: "a"'),
        ("x string format=noBacksteps", "a/../b", "x: Invalid value: \"a/../b\": must not contain '..'"),
        ("x string format=pathSegment,noBacksteps", "..", "x: Invalid value: \"..\": may not be '..'"),
    ],
)
def test_a_value_that_breaks_a_rule_is_told_in_upstreams_words(line: str, value: Any, told: str) -> None:
    assert errors({} if value is None else {"x": value}, line)[0] == told


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("x string enum=A", None),
        ("x string optional enum=A", ""),
        ("x string nonempty enum=A", None),
        ("x string enum=,A", ""),
        ("x int32 minimum=0", 0),
        ("x [string] unique", ["a", "b"]),
        ("x string", "anything"),
    ],
)
def test_a_value_that_a_rule_allows_has_no_errors(line: str, value: Any) -> None:
    assert errors({} if value is None else {"x": value}, line) == []


def test_errors_come_in_the_order_of_lines_and_words() -> None:
    lines = ("b string required", "a string maxBytes=1 format=dnsLabel", "c int32 minimum=0")
    told = errors({"c": -1, "a": "A!"}, *lines)
    assert [text.split(":")[:2] for text in told] == [
        ["b", " Required value"],
        ["a", " Too long"],
        ["a", " Invalid value"],
        ["c", " Invalid value"],
    ]


def test_some_fields_can_be_judged_alone() -> None:
    rule = TypeRules(read("a string required", "b string required"))
    assert [error.field for error in rule({}, "spec", "b")] == ["spec.b"]


def test_some_lines_can_be_judged_from_one_to_another() -> None:
    rule = TypeRules(
        read("a string required", "b string required", "n string", "c string required", "d string required")
    )
    assert [error.field for error in rule({}, "", "b..c")] == ["b", "c"]


def test_the_rules_of_a_type_hold_only_where_it_must_be_valid() -> None:
    lines = ("parts [Part] valid", "other Part", "needed Part required valid", "type Part", "name string required")
    told = errors({"parts": [{"name": "a"}, {}], "other": {}}, *lines)
    assert told == ["parts[1].name: Required value", "needed: Required value"]
    assert errors({"needed": {}}, *lines) == ["needed.name: Required value"]


def test_of_a_part_only_what_is_missing_may_count() -> None:
    lines = ("part Part valid=required", "type Part", "a string required", "b string maxBytes=1")
    assert errors({"part": {"b": "long"}}, *lines) == ["part.a: Required value"]


def test_a_rule_by_hand_applies_at_its_line_after_the_other_words() -> None:
    struct = read("a string required", "b string optional maxBytes=1", "c string required")
    rule = TypeRules(struct, b=TypeRules(read("x string required")))
    assert [error.field for error in rule({"b": {}}, "")] == ["a", "c"]
    by_hand = TypeRules(struct, b=lambda value, path: TypeRules(read("x string required"))({}, path))
    assert [error.field for error in by_hand({"b": "long"}, "")] == ["a", "b", "b.x", "c"]


def test_immutable_fields_are_found_in_valid_parts_too() -> None:
    lines = ("b string immutable", "part Part valid", "other Part", "type Part", "a string immutable")
    assert TypeRules(read(*lines)).immutable == {"b": "", "part.a": ""}


@pytest.mark.parametrize(
    "line",
    [
        "x string minimum=0",
        "x int32 minimum=none",
        "x int32 enum=A",
        "x string format=nothing",
        "x string valid",
        "x int32 range=1",
        "x [string] maxItems=many",
    ],
)
def test_a_rule_that_does_not_suit_its_field_is_an_error(line: str) -> None:
    with pytest.raises(SchemaError, match=r"^T\.x has a rule that does not suit its type"):
        errors({}, line)


PAIR = ("a string", "b string", "n int32 @1?", "m int32 @2?", "flag bool")


@pytest.mark.parametrize(
    ("rule", "value", "told"),
    [
        ('if a !b: b required "with a"', {"a": "x"}, "b: Required value: with a"),
        ('if a=x,y: b forbidden "not with x"', {"a": "y", "b": "z"}, "b: Forbidden: not with x"),
        ('if a!=x: b invalid "only with x"', {"b": "z"}, 'b: Invalid value: "z": only with x'),
        ('if a=: b required "instead of a"', {}, "b: Required value: instead of a"),
        ('if flag=true: a required "flagged"', {"flag": True}, "a: Required value: flagged"),
        ('if n>m: n invalid "at most m"', {"n": 1}, "n: Invalid value: 1: at most m"),
        ('if n>=2: n invalid "below 2"', {"n": 2}, "n: Invalid value: 2: below 2"),
        ('if n<1: n required "positive"', {}, "n: Required value: positive"),
        ('if !a !b: . required "a or b"', {}, ": Required value: a or b"),
        ('if a=: a invalid "with b"', {}, 'a: Invalid value: "": with b'),
        ('if a b: . invalid=both "not {a} with b"', {"a": "x", "b": "y"}, ': Invalid value: "both": not x with b'),
        ("if a: b enum=x,y", {"a": "x"}, 'b: Unsupported value: "": supported values: "x", "y"'),
        ("if a: n range=1..9", {"a": "x", "n": 0}, "n: Invalid value: 0: must be between 1 and 9, inclusive"),
        ('if b: a forbidden "why: \'b\' says "no""', {"b": "z"}, "a: Forbidden: why: 'b' says \"no\""),
    ],
)
def test_a_rule_about_several_fields_names_the_wrong_one(rule: str, value: dict[str, Any], told: str) -> None:
    assert errors(value, *PAIR, rule) == [told]


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ('if a !b: b required "with a"', {"a": "x", "b": "y"}),
        ('if a=x b=y: b forbidden "both"', {"a": "x", "b": "z"}),
        ('if n>m: n invalid "at most m"', {"n": 1, "m": 1}),
        ('if n: a required "there"', {}),
    ],
)
def test_a_rule_about_several_fields_needs_all_of_its_conditions(rule: str, value: dict[str, Any]) -> None:
    assert errors(value, *PAIR, rule) == []


def test_rules_about_several_fields_come_at_their_place_among_the_lines() -> None:
    rule = TypeRules(
        read('if !a: a required "first"', "b string required", 'if !b: b invalid "second"', "c string required")
    )
    assert [error.field for error in rule({}, "")] == ["a", "b", "b", "c"]
    assert [error.field for error in rule({}, "", "b")] == ["b", "b"]
    assert [error.field for error in rule({}, "", "c")] == ["c"]


@pytest.mark.parametrize(
    "line", ['if a: b wrong "x"', 'if a b required "x"', 'if a?: b required "x"', "if a: b required"]
)
def test_a_rule_about_several_fields_that_cannot_be_read_is_an_error(line: str) -> None:
    with pytest.raises(SchemaError, match=r"^core_v1\.schema:5: cannot read"):
        read("a string", "b string", line)


def test_a_rule_by_hand_may_stand_below_a_field_or_judge_the_whole_part() -> None:
    struct = read("part Part valid", "c string required", "type Part", "x string required", "y string")

    def refuse(value: Any, path: str) -> list[FieldError]:
        return [invalid(path, value, "refused")]

    below = TypeRules(struct, **{"part.y": refuse})
    assert [error.field for error in below({"part": {"y": "v"}}, "")] == ["part.x", "part.y", "c"]
    whole = TypeRules(struct, part=OfWhole(refuse))
    assert [(error.field, error.value) for error in whole({}, "spec")] == [("spec", {}), ("spec.c", "")]


def test_an_immutable_field_with_a_sentence_is_forbidden_to_change() -> None:
    rule = TypeRules(read('a string immutable:"never"', "b string immutable"))
    assert rule.immutable == {"a": "never", "b": ""}


def test_every_rule_of_the_real_files_suits_its_field() -> None:
    for struct in structs():
        rule = TypeRules(struct)
        assert {line.partition("+")[0] for line in rule.by_field} <= {"", *struct.fields}
        assert isinstance(rule.immutable, dict)


@pytest.mark.parametrize(
    ("rule", "value", "filled"),
    [
        ("if a=x: b fill=y", {"a": "x"}, {"a": "x", "b": "y"}),
        ("if a=x: b fill=y", {"a": "x", "b": ""}, {"a": "x", "b": ""}),
        ("if a=x: b fill=y", {"a": "z"}, {"a": "z"}),
        ("if b=: b fill=y", {"b": ""}, {"b": "y"}),
        ("if !n: n fill=3", {}, {"n": 3}),
        ("if flag=true: part.name fill=p", {"flag": True}, {"flag": True, "part": {"name": "p"}}),
        ("if a: part fill={}", {"a": "x"}, {"a": "x", "part": {}}),
    ],
)
def test_a_line_may_fill_a_field_under_conditions(rule: str, value: dict[str, Any], filled: dict[str, Any]) -> None:
    complete(read(*PAIR, "part Part", rule, "type Part", "name string"), value)
    assert value == filled
