"""Taints and tolerations; cases mirror Toleration.ToleratesTaint and FindMatchingUntoleratedTaint."""

from __future__ import annotations

import pytest

from tonnage.objects.requirements import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    Taint,
    Toleration,
    find_untolerated,
    tolerates,
)


def taint(key: str = "dedicated", value: str = "db", effect: str = NO_SCHEDULE) -> Taint:
    return Taint(key=key, value=value, effect=effect)


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(key="dedicated", operator="Equal", value="db", effect=NO_SCHEDULE), True),
        (Toleration(key="dedicated", value="db"), True),  # the operator is Equal, the effect any
        (Toleration(key="dedicated", operator="", value="db"), True),
        (Toleration(key="dedicated", value="web"), False),
        (Toleration(key="dedicated"), False),  # Equal to the empty value
        (Toleration(key="other", value="db"), False),
        (Toleration(key="dedicated", value="db", effect=NO_EXECUTE), False),
        (Toleration(key="dedicated", operator="Exists"), True),
        (Toleration(key="dedicated", operator="Exists", effect=PREFER_NO_SCHEDULE), False),
        (Toleration(operator="Exists"), True),  # everything
        (Toleration(operator="Exists", effect=NO_EXECUTE), False),
        (Toleration(value="db"), True),  # an empty key is any key
        (Toleration(key="dedicated", operator="Near", value="db"), False),
    ],
)
def test_a_toleration_covers_a_taint(toleration: Toleration, tolerated: bool) -> None:
    assert tolerates(toleration, taint()) is tolerated


@pytest.mark.parametrize("operator", ["Lt", "Gt"])
def test_comparing_tolerations_tolerate_nothing_since_they_are_off_upstream(operator: str) -> None:
    assert not tolerates(Toleration(key="dedicated", operator=operator, value="5"), taint(value="4"))


def test_the_first_untolerated_taint_is_found() -> None:
    first, second, third = taint("a"), taint("b"), taint("c")
    assert find_untolerated((first, second, third), (Toleration(key="a", operator="Exists"),)) == second


def test_nothing_is_found_when_everything_is_tolerated_or_there_is_nothing() -> None:
    assert find_untolerated((taint("a"), taint("b")), (Toleration(operator="Exists"),)) is None
    assert find_untolerated((), ()) is None


def test_soft_taints_keep_no_pod_away_unless_they_are_asked_about() -> None:
    soft, hard = taint(effect=PREFER_NO_SCHEDULE), taint(effect=NO_EXECUTE)
    assert find_untolerated((soft,), ()) is None
    assert find_untolerated((soft, hard), ()) == hard
    assert find_untolerated((hard, soft), (), effects=(PREFER_NO_SCHEDULE,)) == soft
