"""YAML as Kubernetes reads it: what scalars mean, keys as text, aliases as copies, and what is not YAML."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tonnage.objects.texts.yaml_text import InvalidYaml, documents, meaning


def values(text: str) -> list[Any]:
    return [each.value for each in documents(text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", True),
        ("y", True),
        ("No", False),
        ("~", None),
        ("12", 12),
        ("-3", -3),
        ("0x1F", 31),
        ("017", 15),
        ("0o17", 15),
        ("08", 8.0),
        ("1_000", 1000),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1:30", "1:30"),
        ("2026-11-15", "2026-11-15"),
        ("10Gi", "10Gi"),
        ("100m", "100m"),
        ("1.2.3", "1.2.3"),
        ("18446744073709551616", 18446744073709551616.0),
        ("web", "web"),
    ],
)
def test_a_bare_word_means_what_it_means_to_go(text, value):
    assert meaning(text) == value
    assert type(meaning(text)) is type(value)


def test_quotes_and_tags_make_text():
    assert values("['12', \"on\", !!str 12, !!str on]") == [["12", "on", "12", "on"]]


def test_a_float_without_a_fraction_becomes_a_whole_number():
    assert values("a: 16.0\nb: 1e3\nc: 0.5\n") == [{"a": 16, "b": 1000, "c": 0.5}]


def test_block_scalars_keep_their_lines():
    assert values("a: |\n  one\n  two\nb: >-\n  one\n  two\n") == [{"a": "one\ntwo\n", "b": "one two"}]


def test_keys_are_text():
    assert values("8080: a\non: b\n1.5: c\n") == [{"8080": "a", "true": "b", "1.5": "c"}]


def test_documents_are_counted_with_the_empty_ones():
    assert values("# a comment\n---\na: 1\n---\n---\nb: 2\n...\n") == [{"a": 1}, None, {"b": 2}]
    assert values("") == []


def test_an_alias_is_a_copy():
    (found,) = values("a: &x {b: [1]}\nc: *x\n")
    assert found == {"a": {"b": [1]}, "c": {"b": [1]}}
    assert found["c"] is not found["a"]
    assert found["c"]["b"] is not found["a"]["b"]


def test_a_map_wins_over_what_it_merges_and_the_first_merged_over_the_next():
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz: {<<: [*x, *y], a: 0}\n"
    assert values(text)[0]["z"] == {"a": 0, "b": 1, "c": 2}


def test_a_quoted_merge_key_is_a_key():
    assert values('"<<": 1\n') == [{"<<": 1}]


def test_of_a_repeated_key_the_last_counts_and_it_is_told():
    (found,) = documents("a:\n  b: 1\n  c: 1\n  b: 2\n")
    assert found.value == {"a": {"b": 2, "c": 1}}
    assert found.repeated == (("b", 4),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {b", "yaml: line 2: did not find expected ',' or '}'"),
        ("a:\n\tb: 1", "yaml: line 2: found character that cannot start any token"),
        ("a: 1\nb: *q", "yaml: line 2: unknown anchor 'q' referenced"),
        ("a: &x [*x]", "yaml: line 1: unknown anchor 'x' referenced"),
        ("? {a: 1}\n: b", "yaml: line 1: a key is text"),
        ("~: b", "yaml: line 1: a key is text"),
        ("a: !!int x", "yaml: line 1: cannot decode `x` as a !!int"),
        ("a: .nan", "yaml: line 1: unsupported value: .nan"),
        ("<<: 3", "yaml: line 1: map merge requires map or sequence of maps as the value"),
        (
            "[" * 2000,
            "yaml: line 1: maps and lists are nested too deeply to be read: the limit is 100 levels",
        ),
    ],
)
def test_what_is_no_yaml_is_told_with_its_line(text, message):
    with pytest.raises(InvalidYaml) as caught:
        values(text)
    assert caught.value.message == message


def test_a_bomb_of_aliases_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(InvalidYaml, match="excessive aliasing"):
        values("\n".join(lines))


def test_what_pyyaml_writes_is_read_back():
    doc = {"a": ["12", 12, None, True, "on", 1.5, "2026-11-15", "", "é\n"], "b": {"c": {}, "d": []}}
    assert values(yaml.safe_dump_all([doc, doc])) == [doc, doc]
