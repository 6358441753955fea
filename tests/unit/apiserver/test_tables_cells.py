"""The wording of ages, selectors and lists, each border of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tonnage.apiserver.tables import cells

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
DAY_S = 24 * 3600


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"),
        (-1.9, "0s"),  # clocks differ: less than 2 s ahead is now
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 - 1, "7h59m"),
        (8 * 3600 + 1800, "8h"),
        (2 * DAY_S - 1, "47h"),
        (2 * DAY_S, "2d"),
        (2 * DAY_S + 3600, "2d1h"),
        (8 * DAY_S - 1, "7d23h"),
        (8 * DAY_S + 3600, "8d"),
        (2 * 365 * DAY_S - 1, "729d"),
        (2 * 365 * DAY_S, "2y"),
        ((2 * 365 + 1) * DAY_S, "2y1d"),
        ((8 * 365 - 1) * DAY_S, "7y364d"),
        (8 * 365 * DAY_S, "8y"),
        (20 * 365 * DAY_S, "20y"),
    ],
)
def test_a_duration_keeps_two_or_three_figures(seconds: float, shown: str) -> None:
    assert cells.elapsed(timedelta(seconds=seconds)) == shown


def test_an_age_counts_from_the_timestamp_to_now() -> None:
    assert cells.age("2026-03-01T11:58:30Z", NOW) == "90s"
    assert cells.age("2026-03-01T11:58:30.250000Z", NOW) == "89s"  # 89.75 s, cut


def test_the_age_of_what_was_never_dated_is_unknown() -> None:
    assert cells.age(None, NOW) == "<unknown>"
    assert cells.age("", NOW) == "<unknown>"


def test_sizes_are_shown_in_canonical_form_and_a_missing_one_is_zero() -> None:
    assert cells.size("2048Mi") == "2Gi"
    assert cells.size("0.5Gi") == "512Mi"
    assert cells.size(None) == "0"


def test_labels_are_sorted_and_none_when_there_are_none() -> None:
    assert cells.labels({"b": "2", "a": "1"}) == "a=1,b=2"
    assert cells.labels(None) == "<none>"


def test_a_selector_reads_as_kubectl_takes_it_sorted_by_key() -> None:
    wanted = {
        "matchLabels": {"tier": "db"},
        "matchExpressions": [
            {"key": "zone", "operator": "Exists"},
            {"key": "env", "operator": "In", "values": ["prod", "canary"]},
            {"key": "age", "operator": "NotIn", "values": ["old"]},
            {"key": "gone", "operator": "DoesNotExist"},
        ],
    }
    assert cells.selector(wanted) == "age notin (old),env in (canary,prod),!gone,tier=db,zone"


def test_a_selector_that_asks_for_nothing_is_empty() -> None:
    assert cells.selector(None) == ""
    assert cells.selector({}) == ""


def test_access_modes_stand_in_a_fixed_order_each_once() -> None:
    modes = ["ReadWriteOncePod", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteMany"]
    assert cells.access_modes(modes) == "RWO,ROX,RWX,RWOP"
    assert cells.access_modes(None) == ""
