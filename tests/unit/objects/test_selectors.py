"""Label and field selectors: grammar, judgement, and refusals as a kube-apiserver 1.36 words them."""

from __future__ import annotations

import pytest

from tonnage.errors import BadRequest
from tonnage.objects.codec import convert
from tonnage.objects.selectors import (
    FieldSelector,
    InvalidSelector,
    LabelSelector,
    Requirement,
    selects,
)

KEY_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def requirement(key: str, operator: str, *values: str) -> Requirement:
    return Requirement(key=key, operator=operator, values=values)


def refusal(text: str) -> str:
    with pytest.raises(InvalidSelector) as caught:
        LabelSelector.parse(text)
    return caught.value.message


# The text of label selectors


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a=b", [requirement("a", "In", "b")]),
        ("a==b", [requirement("a", "In", "b")]),
        ("a!=b", [requirement("a", "NotIn", "b")]),
        ("a in (x,y)", [requirement("a", "In", "x", "y")]),
        ("a notin (z)", [requirement("a", "NotIn", "z")]),
        ("a", [requirement("a", "Exists")]),
        ("!a", [requirement("a", "DoesNotExist")]),
        ("a>1", [requirement("a", "Gt", "1")]),
        ("a<2", [requirement("a", "Lt", "2")]),
        ("a=", [requirement("a", "In", "")]),
        ("a!=,b", [requirement("a", "NotIn", ""), requirement("b", "Exists")]),
        ("a in ()", [requirement("a", "In", "")]),
        ("a in (,x,,y)", [requirement("a", "In", "", "x", "y")]),
        ("a in (y,x,y)", [requirement("a", "In", "x", "y")]),
        ("in in (in,notin)", [requirement("in", "In", "in", "notin")]),
        ("notin", [requirement("notin", "Exists")]),
        ("b=1,a=1", [requirement("a", "In", "1"), requirement("b", "In", "1")]),
        ("a=b,a=c", [requirement("a", "In", "b"), requirement("a", "In", "c")]),
        (" a \t=\n b , c  in( d )", [requirement("a", "In", "b"), requirement("c", "In", "d")]),
        ("topology.tonnage.dev/node=n1", [requirement("topology.tonnage.dev/node", "In", "n1")]),
        ("", []),
        ("  ", []),
    ],
)
def test_text_is_read_into_requirements(text: str, read: list[Requirement]) -> None:
    assert list(LabelSelector.parse(text).requirements()) == read


# Each read off GET /api/v1/namespaces/default/configmaps?labelSelector=… of kube-apiserver 1.36.4, which answers 400.
REFUSALS = {
    "a=b=c": "found '=', expected: ',' or 'end of string'",
    "a=b c": "found 'c', expected: ',' or 'end of string'",
    "!a=b": "found '=', expected: ',' or 'end of string'",
    "a in (x)y": "found 'y', expected: ',' or 'end of string'",
    ",a": "found ',', expected: !, identifier, or 'end of string'",
    "(": "found '(', expected: !, identifier, or 'end of string'",
    "=": "found '=', expected: !, identifier, or 'end of string'",
    "<>": "found '<', expected: !, identifier, or 'end of string'",
    "a,,b": "found ',', expected: identifier after ','",
    "a,": "found '', expected: identifier after ','",
    "!": "unable to parse requirement: found '', expected: identifier",
    "!!a": "unable to parse requirement: found '!', expected: identifier",
    "a=!b": "unable to parse requirement: found '!', expected: identifier",
    "a=(": "unable to parse requirement: found '(', expected: identifier",
    "a=>b": "unable to parse requirement: found '>', expected: identifier",
    "a<=b": "unable to parse requirement: found '=', expected: identifier",
    "a b": "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
    "a !b": "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt",
    "a in x": "unable to parse requirement: found 'x' expected: '('",
    "a in": "unable to parse requirement: found '' expected: '('",
    "a in (x": "unable to parse requirement: found '', expected: ',' or ')'",
    "a in (x y)": "unable to parse requirement: found 'y', expected: ',' or ')'",
    "a in (=)": "unable to parse requirement: found '=', expected: ',', ')' or identifier",
    "a in (x,=)": "unable to parse requirement: found '=', expected: ',', or identifier",
    "a>x": (
        'unable to parse requirement: values[0]: Invalid value: "x": '
        "for 'Gt', 'Lt' operators, the value must be an integer"
    ),
    "-a": f'unable to parse requirement: <nil>: Invalid value: "-a": name part {KEY_RULE}',
    '"a"=b': f'unable to parse requirement: <nil>: Invalid value: "\\"a\\"": name part {KEY_RULE}',
    "/x": 'unable to parse requirement: <nil>: Invalid value: "/x": prefix part must be non-empty',
    "a=@": f'unable to parse requirement: values[0][a]: Invalid value: "@": {VALUE_RULE}',
    "a<-2": f'unable to parse requirement: values[0][a]: Invalid value: "-2": {VALUE_RULE}',
    "a in (b,-c)": f'unable to parse requirement: values[0][a]: Invalid value: "-c": {VALUE_RULE}',
    "a in (-b,-c)": (
        f'unable to parse requirement: [values[0][a]: Invalid value: "-b": {VALUE_RULE}, '
        f'values[1][a]: Invalid value: "-c": {VALUE_RULE}]'
    ),
    "a>-": (
        "unable to parse requirement: [values[0]: Invalid value: \"-\": for 'Gt', 'Lt' operators, the value must be an "
        f'integer, values[0][a]: Invalid value: "-": {VALUE_RULE}]'
    ),
}


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_has_upstream_s_words(text: str) -> None:
    assert refusal(text) == REFUSALS[text]


def test_a_refusal_is_a_bad_request() -> None:
    with pytest.raises(BadRequest) as caught:
        LabelSelector.parse("a=b=c")
    assert caught.value.code == 400


def test_a_selector_is_written_by_key_and_reads_the_same_again() -> None:
    selector = LabelSelector.parse("tier notin (b,a),app=web,!old,size>3,new,zone in (y,x)")
    assert str(selector) == "app=web,new,!old,size>3,tier notin (a,b),zone in (x,y)"
    assert LabelSelector.parse(str(selector)).requirements() == selector.requirements()


# Judgement of labels


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a=b", {"a": "c"}, False),
        ("a=b", {}, False),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a!=b", {"a": "c"}, True),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a in (b,c)", {"a": "c"}, True),
        ("a in (b,c)", {}, False),
        ("a notin (b,c)", {"a": "c"}, False),
        ("a notin (b,c)", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("!a", {"a": ""}, False),
        ("a>1", {"a": "2"}, True),
        ("a>1", {"a": "1"}, False),
        ("a<10", {"a": "9"}, True),  # as numbers: as texts "9" comes after "10"
        ("a>1", {"a": "many"}, False),
        ("a<1", {}, False),
        ("a>1", {"a": "9223372036854775808"}, False),  # 2^63 is no 64-bit integer
        ("a<1", {"a": "1_0"}, False),
        ("a=b,a=c", {"a": "b"}, False),
        ("a=b,c", {"a": "b", "c": "d", "e": "f"}, True),
    ],
)
def test_labels_are_judged(text: str, labels: dict[str, str], matches: bool) -> None:
    assert LabelSelector.parse(text).matches(labels) is matches


def test_a_selector_of_an_object_demands_all_labels_and_all_expressions() -> None:
    selector = convert(
        LabelSelector,
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["front", "back"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        },
    )
    assert selector.matches({"app": "web", "tier": "back"})
    assert not selector.matches({"app": "web"})
    assert not selector.matches({"app": "web", "tier": "back", "old": ""})


def test_an_absent_selector_picks_nothing_and_an_empty_one_everything() -> None:
    assert not selects(None, {"a": "b"})
    assert selects(LabelSelector(), {"a": "b"})
    assert selects(LabelSelector(), {})
    assert LabelSelector().is_empty


def test_selectors_that_ask_the_same_have_equal_requirements() -> None:
    labels = LabelSelector(match_labels={"b": "2", "a": "1"})
    expressions = LabelSelector(match_expressions=(requirement("a", "In", "1"), requirement("b", "In", "2")))
    assert labels.requirements() == expressions.requirements()
    assert hash(labels.requirements()) == hash(expressions.requirements())


@pytest.mark.parametrize(
    ("senseless", "told"),
    [
        (requirement("a", "Near", "b"), '"Near" is not a valid label selector operator'),
        (requirement("a", "In"), "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"),
        (
            requirement("a", "NotIn"),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            requirement("a", "Exists", "b"),
            'values: Invalid value: ["b"]: values set must be empty for exists and does not exist',
        ),
        (
            requirement("a", "Gt", "1", "2"),
            "values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators, exactly one value is required",
        ),
        (
            requirement("a", "Lt", "x"),
            "values: Invalid value: [\"x\"]: for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_a_requirement_that_makes_no_sense_is_an_error(senseless: Requirement, told: str) -> None:
    with pytest.raises(InvalidSelector) as caught:
        LabelSelector(match_expressions=(senseless,)).matches({"a": "b"})
    assert caught.value.message == told


# Field selectors


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("a=b", [requirement("a", "In", "b")]),
        ("a==b", [requirement("a", "In", "b")]),
        ("a!=b", [requirement("a", "NotIn", "b")]),
        ("b=1,a=2", [requirement("a", "In", "2"), requirement("b", "In", "1")]),
        ("a=", [requirement("a", "In", "")]),
        ("a = b", [requirement("a ", "In", " b")]),
        (r"a=x\,y\=z\\", [requirement("a", "In", "x,y=z\\")]),
        (r"a=\\\,,b=1", [requirement("a", "In", "\\,"), requirement("b", "In", "1")]),
        ("a=b,", [requirement("a", "In", "b")]),
        (",", []),
        ("=", []),
        ("!=,a=b", [requirement("a", "In", "b")]),
        ("", []),
    ],
)
def test_the_text_of_field_selectors_is_read(text: str, terms: list[Requirement]) -> None:
    assert list(FieldSelector.parse(text).terms) == terms


# Read off GET …/configmaps?fieldSelector=… of kube-apiserver 1.36.4.
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
        ("x>y", "invalid selector: 'x>y'; can't understand 'x>y'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a===b", "invalid field selector: unescaped character in value: 61"),
        (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        (r"c,a=b\z", r"invalid field selector: invalid escape sequence: \z"),
    ],
)
def test_a_refused_field_selector_has_upstream_s_words(text: str, told: str) -> None:
    with pytest.raises(InvalidSelector) as caught:
        FieldSelector.parse(text)
    assert caught.value.message == told


def test_fields_are_judged() -> None:
    matcher = FieldSelector.parse("spec.nodeName=,status.phase!=Failed").matcher
    assert matcher.matches({"spec.nodeName": "", "status.phase": "Pending"})
    assert not matcher.matches({"spec.nodeName": "n1", "status.phase": "Pending"})
    assert not matcher.matches({"spec.nodeName": "", "status.phase": "Failed"})
    assert FieldSelector().matcher.matches({"anything": "goes"})


def test_a_selector_names_its_fields_and_what_it_leaves_no_choice_about() -> None:
    selector = FieldSelector.parse("metadata.name=a,status.phase!=Failed,metadata.name!=b")
    assert selector.fields == ("metadata.name", "status.phase")
    assert selector.required("metadata.name") == "a"
    assert selector.required("status.phase") is None
