"""Warnings as headers: safe to send, bounded as upstream bounds them."""

from __future__ import annotations

import re

import pytest

from tonnage.apiserver.responses import MAX_COUNT, MAX_CUT, MAX_TOTAL, warning_headers


def test_warnings_are_quoted_and_told_once() -> None:
    assert warning_headers(['unknown field "a"', "b\\c", "", 'unknown field "a"']) == [
        '299 - "unknown field \\"a\\""',
        '299 - "b\\\\c"',
    ]


@pytest.mark.parametrize(
    ("text", "sent"),
    [("a\rb", "a\\\\x0db"), ("a\nb", "a\\\\x0ab"), ("\x00", "\\\\x00"), ("\x7f\x9f", "\\\\x7f\\\\x9f"), ("é", "é")],
)
def test_control_characters_are_shown_by_their_number(text: str, sent: str) -> None:
    assert warning_headers([text]) == [f'299 - "{sent}"']


def test_one_long_warning_is_whole_up_to_the_total_and_cut_beyond() -> None:
    assert warning_headers(["x" * MAX_TOTAL]) == [f'299 - "{"x" * MAX_TOTAL}"']
    assert warning_headers(["x" * (MAX_TOTAL + 1)]) == [f'299 - "{"x" * MAX_CUT}"']


@pytest.mark.parametrize("character", ["x", '"', "\r", "é"])
def test_many_warnings_are_cut_and_the_rest_left_out(character: str) -> None:
    headers = warning_headers(f"{number}{character * 10_000}" for number in range(5_000))
    assert 1 < len(headers) <= MAX_COUNT
    assert sum(map(len, headers)) <= MAX_TOTAL + len(headers) * len('299 - ""')
    # Every quote but the last is escaped, and every escape is whole.
    assert all(re.fullmatch(r'299 - "(?:[^"\\]|\\["\\])*"', header) for header in headers)


def test_many_short_ones_are_as_many_as_a_client_takes() -> None:
    assert len(warning_headers(map(str, range(5_000)))) == MAX_COUNT
