"""Keys that YAML has twice."""

from __future__ import annotations

import pytest

from tonnage.objects.texts.yaml_text import documents


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        ("a: 1\nb: 2\n", []),
        ("a: 'x:y:z'\n", []),
        ("a: 1\na: 2\n", [("a", 2)]),
        ("a:\n  b: 1\n  b: 2\nc:\n- d: 1\n  d: 1\n", [("b", 3), ("d", 6)]),
        ('{"a": {"b": 1, "b": 2}}', [("b", 1)]),
        ("a: 1\na: 1\na: 1\n", [("a", 2), ("a", 3)]),
        ("a: 1\n---\nb: 1\nb: 2\n", []),
        ("a: &a {b: 1}\nc: {<<: *a, b: 2}\n", []),
    ],
)
def test_what_comes_twice_is_told_with_its_line(text: str, repeated: list[tuple[str, int]]) -> None:
    assert [*next(documents(text)).repeated] == repeated
