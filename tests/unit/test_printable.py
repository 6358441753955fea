"""Text of strangers made safe: nothing invisible is left, and what is visible stays as it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.printable import assembled, printable, printable_json, printable_lines, text

ANY = st.text(st.characters(), max_size=40) | st.text(
    st.sampled_from("a\x1b[]\r\n\t\0\x7f\x85\x9b\u202e\u2066\u2028\u200b\ufeff\ud800\U000e0041"), max_size=12
)


@pytest.mark.parametrize(
    ("given_", "shown"),
    [
        ("shop/db-0", "shop/db-0"),
        ("Größe 10 µs → ≥ 5 日本", "Größe 10 µs → ≥ 5 日本"),
        ("db\x1b[2J", r"db\x1b[2J"),
        ("a\nerror: b\r\tc", r"a\nerror: b\r\tc"),
        ("\x00\x7f\x9b31m", r"\x00\x7f\x9b31m"),
        ("x\u202ecod.exe\u2069", r"x\u202ecod.exe\u2069"),
        ("a\u2028b\ufeff\ud800\U000e0041", r"a\u2028b\ufeff\ud800\U000e0041"),
    ],
)
def test_what_cannot_be_seen_is_written_as_an_escape(given_, shown):
    assert printable(given_) == shown


def test_lines_stay_lines():
    assert printable_lines("a\tb\nc\x1b\rd") == "a\tb\nc\\x1b\\rd"


@given(ANY)
def test_nothing_invisible_is_left(content):
    assert not set(printable(content)) & set("\n\t")
    for shown in (printable(content), printable_lines(content), printable_json(content)):
        assert all(char in "\n\t" or ord(char) >= 0x20 for char in shown)
        assert not set(shown) & {"\x7f", "\x85", "\x9b", "\u202e", "\u2066", "\u2028", "\u200b", "\ufeff"}
        shown.encode()  # no half of a surrogate pair


@given(ANY)
def test_json_keeps_its_value(content):
    assert json.loads(printable_json(json.dumps([content], ensure_ascii=False))) == [content]


def test_pieces_of_a_page_are_only_text():
    assert text("[red]a\x1b[/red]").plain == r"[red]a\x1b[/red]"
    assert assembled("[b]", ("\n", "bold"), "c").plain == r"[b]\nc"
