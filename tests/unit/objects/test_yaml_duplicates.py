"""Keys that YAML has twice."""

from __future__ import annotations

import pytest

from tonnage.objects.texts.yaml_text import documents, duplicate_keys


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: 2\n", []),
        ("a: 'x:y:z'\n", []),
        ("a: 1\na: 2\n", ['line 2: key "a" already set in map']),
        (
            "a:\n  b: 1\n  b: 2\nc:\n- d: 1\n  d: 1\n",
            ['line 3: key "b" already set in map', 'line 6: key "d" already set in map'],
        ),
        ('{"a": {"b": 1, "b": 2}}', ['line 1: key "b" already set in map']),
        ("a: 1\na: 1\na: 1\n", [f'line {line}: key "a" already set in map' for line in (2, 3)]),
        ("a: 1\n---\nb: 1\nb: 2\n", []),
    ],
)
def test_what_comes_twice_is_told_with_its_line(text: str, told: list[str]) -> None:
    assert duplicate_keys(text, next(documents(text)).value) == told


def test_long_texts_are_not_read_again() -> None:
    text = "a: 1\na: 2\nb: " + "x" * 200_000
    assert duplicate_keys(text, {"a": 2, "b": "x"}) == []
