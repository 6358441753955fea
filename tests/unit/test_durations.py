"""Durations, read and written as Go does."""

from __future__ import annotations

import pytest

from tonnage.clock import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15.0),
        ("0", 0.0),
        ("-0", 0.0),
        ("1h1m1s", 3661.0),
        ("1.5h", 5400.0),
        ("20s100ms", 20.1),
        (".5s", 0.5),
        ("5.s", 5.0),
        ("-1.5m", -90.0),
        ("+1s", 1.0),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1ns", 1e-9),
        ("1.0000000009s", 1.0),  # cut off below a nanosecond
        ("9223372036s", 9223372036.0),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "15", "s", ".s", "1d", "1S", "1 s", "--1s", "1m-1s", "1e3s", "9223372037s", "-"])
def test_what_is_no_duration_is_none(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (15, "15s"),
        (600, "10m0s"),
        (3600, "1h0m0s"),
        (5461.5, "1h31m1.5s"),
        (-90, "-1m30s"),
        (0.5, "500ms"),
        (0.0015, "1.5ms"),
        (1.5e-6, "1.5µs"),
        (2e-9, "2ns"),
    ],
)
def test_a_duration_is_written(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
    assert parse_duration(text) == seconds
