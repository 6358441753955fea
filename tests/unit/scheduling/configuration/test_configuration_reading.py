"""Document to record: strict about names and types, lenient about absence, as Go's decoder is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

import msgspec
import pytest

from tonnage.scheduling.configuration.strict_decoding import Int64, Problem, Seconds, Section, read


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


class Inner(Section):
    name: str
    weight: int = 1


class Outer(Section):
    gone: ClassVar[Mapping[str, str]] = {"old": "write new instead"}

    count: int = 7
    large: Int64 = 0
    ratio: float = 0.5
    is_on: bool = True
    wait_s: Seconds = msgspec.field(name="wait", default=15.0)
    limit_s: Seconds | None = msgspec.field(name="limit", default=10.0)
    colour: Colour = Colour.RED
    inner: Inner = Inner(name="default")
    maybe: Inner | None = None
    inners: tuple[Inner, ...] = ()
    labels: Mapping[str, str] = {}
    raw: Any = None


def found(doc: Any) -> Outer:
    problems: list[Problem] = []
    outer = read(Outer, doc, "", problems)
    assert problems == []
    return outer


def told(doc: Any) -> list[tuple[str, str]]:
    problems: list[Problem] = []
    read(Outer, doc, "", problems)
    return [(problem.message, problem.remedy) for problem in problems]


def test_what_is_absent_or_null_takes_its_default() -> None:
    assert found({}) == Outer()
    nulls = {"count": None, "isOn": None, "limit": None, "inner": None, "inners": None, "labels": None, "raw": None}
    assert found(nulls) == Outer()


def test_every_type_is_read() -> None:
    assert found(
        {
            "count": -3,
            "large": 2**40,
            "ratio": 2,
            "isOn": False,
            "wait": "1m30s",
            "limit": "500ms",
            "colour": "Blue",
            "inner": {"name": "a", "weight": 5},
            "maybe": {},
            "inners": [{"name": "b"}, None],
            "labels": {"x": "y", "z": None},
            "raw": [1, {"any": "thing"}],
        }
    ) == Outer(
        count=-3,
        large=2**40,
        ratio=2.0,
        is_on=False,
        wait_s=90.0,
        limit_s=0.5,
        colour=Colour.BLUE,
        inner=Inner(name="a", weight=5),
        maybe=Inner(name=""),
        inners=(Inner(name="b"), Inner(name="")),
        labels={"x": "y", "z": ""},
        raw=[1, {"any": "thing"}],
    )


@pytest.mark.parametrize(
    ("doc", "message", "remedy"),
    [
        ({"count": "12"}, 'count="12" is not a whole number', "write 12, without quotes"),
        ({"count": 1.0}, "count=1.0 is not a whole number", "write a number such as 3"),
        ({"count": True}, "count=true is not a whole number", "write a number such as 3"),
        ({"count": 2**31}, "count=2147483648 is not a whole number of 32 bits", "write a number up to 2147483647"),
        (
            {"large": 2**63},
            "large=9223372036854775808 is not a whole number of 64 bits",
            "write a number up to 9223372036854775807",
        ),
        ({"ratio": "x"}, 'ratio="x" is not a number', "write a number such as 3 or 0.5"),
        ({"ratio": 1e39}, "ratio=1e39 is not a number of 32 bits", "write a number such as 3 or 0.5"),
        ({"isOn": "true"}, 'isOn="true" is not true or false', "write true or false, without quotes"),
        ({"wait": 15}, "wait=15 is not a duration", "write a number with its unit, such as 15s or 1m30s"),
        ({"wait": None}, "wait=null is not a duration", "write a number with its unit, such as 15s or 1m30s"),
        ({"inner": []}, "inner=[] is not a map", "write a name and a colon before each of its values"),
        ({"inner": {"name": 3}}, "inner.name=3 is not text", 'write "3", in quotes'),
        ({"inner": {"name": {}}}, "inner.name={} is not text", "write text there"),
        ({"inners": {}}, "inners={} is not a list", "write a dash and a blank before each of its items"),
        ({"inners": [{}, "x"]}, 'inners[1]="x" is not a map', "write a name and a colon before each of its values"),
        ({"labels": "x"}, 'labels="x" is not a map', "write a name and a colon before each of its values"),
        ({"labels": {"a": False}}, "labels[a]=false is not text", 'write "false", in quotes'),
        (
            {"colour": "Green"},
            'colour: Unsupported value: "Green": supported values: "Red", "Blue"',
            "write one of Red, Blue",
        ),
        ({"colour": 3}, 'colour: Unsupported value: 3: supported values: "Red", "Blue"', "write one of Red, Blue"),
        ({"Count": 3}, 'unknown field "Count"', 'did you mean "count"?'),
        ({"old": 3}, 'unknown field "old"', "write new instead"),
        ({"inner": {"q": 1}}, 'unknown field "inner.q"', "take it away; the fields there are name, weight"),
    ],
)
def test_what_does_not_fit_is_told_with_value_and_remedy(doc: Any, message: str, remedy: str) -> None:
    assert told(doc) == [(message, remedy)]


def test_a_long_value_is_cut() -> None:
    ((message, _),) = told({"count": "x" * 100})
    assert message == f'count="{"x" * 59}… is not a whole number'


def test_reading_goes_on_behind_a_mistake() -> None:
    assert [message for message, _ in told({"count": "x", "zzz": 1, "inners": [{"weight": "y"}]})] == [
        'unknown field "zzz"',
        'count="x" is not a whole number',
        'inners[0].weight="y" is not a whole number',
    ]
