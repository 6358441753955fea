"""What may have been meant by a name that does not exist."""

from __future__ import annotations

from tonnage.errors import closest, did_you_mean


def test_capitals_do_not_count_and_the_known_spelling_is_given():
    assert closest("nodename", ["NodeName", "NodePorts"]) == ["NodeName"]


def test_the_nearest_comes_first():
    assert closest("db-1", ["web", "db-0", "db-10"], most=3) == ["db-10", "db-0"]


def test_nothing_near_is_nothing_said():
    assert did_you_mean("filter", ["scoer"]) == ""
    assert did_you_mean("fliter", ["filter"]) == 'did you mean "filter"?'
