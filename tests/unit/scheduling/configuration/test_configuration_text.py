"""Text to document: what bare words mean, which fields stand twice, what is not YAML and no JSON."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.scheduling.configuration.strict_decoding import Problem, document_of


def read(text: str) -> Any:
    problems: list[Problem] = []
    doc = document_of(text, problems, [])
    assert problems == []
    return doc


def wrong(text: str) -> list[str]:
    problems: list[Problem] = []
    document_of(text, problems, [])
    return [problem.message for problem in problems]


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("y", True),
        ("On", True),
        ("NO", False),
        ("off", False),
        ("tRue", "tRue"),
        ("~", None),
        ("", None),
        ("nUll", "nUll"),
        ("16", 16),
        ("+16", 16),
        ("-0", 0),
        ("1_000", 1000),
        ("010", 8),  # octal
        ("0o17", 15),
        ("08", 8),  # no octal digit: a float that is whole
        ("0x1F", 31),
        ("0b101", 5),
        ("16.0", 16),
        ("1e3", 1000),
        ("20e-1", 2),
        ("16.5", 16.5),
        (".5", 0.5),
        ("1e400", "1e400"),  # more than a float holds
        ("18446744073709551615", 2**64 - 1),
        ("1:30", "1:30"),
        ("2026-11-15", "2026-11-15"),
        ("0x", "0x"),
        ("'16'", "16"),
        ('"y"', "y"),
        ("!!str 16", "16"),
        ('!!int "16"', 16),
        ("!!float 3", 3),
        ("!mine 3", "3"),
    ],
)
def test_a_scalar_means_what_it_means_to_go(word: str, meaning: Any) -> None:
    found = read(f"value: {word}\n")["value"]
    assert found == meaning
    assert type(found) is type(meaning)


def test_json_keeps_whole_numbers_and_floats_apart() -> None:
    found = read('{"whole": 16, "float": 16.0}')
    assert [type(value) for value in found.values()] == [int, float]


def test_names_that_are_no_text_become_text() -> None:
    assert read("{}") == {}
    assert read("1: a\ny: b\n1.5: c\n") == {"1": "a", "true": "b", "1.5": "c"}


def test_a_merge_adds_what_it_names() -> None:
    assert read("base: &b {p: 1}\nmore:\n  <<: [*b, {q: 2}]\n  r: 3\n")["more"] == {"p": 1, "q": 2, "r": 3}


def test_half_a_surrogate_pair_becomes_the_replacement_sign() -> None:
    assert read('{"name": "a\\ud83d"}') == {"name": "a\ufffd"}


def test_a_field_twice_is_told_with_path_and_lines() -> None:
    assert wrong("list:\n- a: 1\n  b: 2\n  a: 3\n") == ['duplicate field "list[0].a" (lines 2 and 4)']
    assert wrong("map: {a: 1, a: 2}\n") == ['duplicate field "map.a" (line 1)']
    assert wrong('{"map": {"a": 1, "a": 2}}') == ['duplicate field "map.a"']
    assert wrong("map:\n  <<: {a: 1}\n  a: 2\n") == ['duplicate field "map.a" (lines 2 and 3)']


def test_what_cannot_be_read_is_told_with_its_line() -> None:
    assert wrong("a: [\n") == ["yaml: line 2: expected the node content, but found '<stream end>'"]
    assert wrong("a: *b\n") == ["yaml: line 1: found undefined alias 'b'"]
    assert wrong("a: &b [*b]\n") == ["yaml: line 1: an anchor's value contains itself"]
    assert wrong("a: .nan\n") == ["yaml: line 1: unsupported value: .nan"]
    assert wrong("a: !!int x\n") == ["yaml: line 1: cannot decode `x` as a !!int"]
    assert wrong("a:\n  <<: 3\n") == ["yaml: line 2: map merge requires map or sequence of maps as the value"]
    assert wrong("? [a]\n: 1\n") == ["yaml: line 1: a field's name is text"]
    assert wrong("~: 1\n") == ["yaml: line 1: a field's name is text"]
    assert wrong("a: \x00\n") == [
        'yaml: unacceptable character #x0000: special characters are not allowed in "<unicode string>", position 3'
    ]
    assert wrong('{"a": 1} x') == ["json: line 1 column 10: Extra data"]
    assert wrong('{"a": NaN}') == ["json: line 1 column 7: NaN is not JSON"]
    assert wrong("[" * 100_000) == [
        "yaml: line 1: maps and lists are nested too deeply to be read: the limit is 100 levels"
    ]


def test_a_tab_may_separate_and_may_not_indent() -> None:
    assert read("a:\t1\nb: [1,\t2]\n") == {"a": 1, "b": [1, 2]}
    assert wrong("a:\n\tb: 1\n") == ["yaml: line 2: found character '\\t' that cannot start any token"]


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "null\n"])
def test_an_empty_text_is_no_document(text: str) -> None:
    assert read(text) is None


def test_only_the_first_document_is_read_and_that_is_noted() -> None:
    notes: list[str] = []
    assert document_of("a: 1\n---\nb: [\n", [], notes) == {"a": 1}
    assert notes == ["only the first YAML document is read; what follows it has no effect"]
