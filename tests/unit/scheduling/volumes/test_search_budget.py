"""A decision searches so much and no more, over all objects; what it did not find out is told apart and found later."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tonnage.scheduling.volumes.packing import pool_fits, pool_grades
from tonnage.scheduling.volumes.packing.pool_fits import MOST_STEPS_A_DECISION, SearchBudget, Sizes, descending, fits
from tonnage.scheduling.volumes.packing.pool_grades import Grade, fits_beside_one, grades

SIZES = descending([211, 199, 193, 181, 173, 167, 157, 151, 149, 139, 137, 131, 127])
"""Thirteen claims, no two alike: the most that is searched exactly."""


@pytest.fixture(autouse=True)
def forgotten() -> None:
    for found in (pool_fits._placements, pool_grades._filled, pool_grades._found):
        found.clear()


def tight_objects(count: int, *, fitting: bool) -> list[Sizes]:
    """Objects of five pools with hardly more room in all than the claims take, no two alike.

    Those that fit are made by dealing the claims out; first-fit-decreasing need not find the same.
    """
    rng = random.Random(7)
    found: dict[Sizes, None] = {}
    while len(found) < count:
        if fitting:
            dealt = rng.sample(SIZES, len(SIZES))
            pools = [sum(dealt[place::5]) for place in range(5)]
        else:
            pools = [sum(SIZES) // 5 + rng.randrange(-9, 10) for _ in range(5)]
            pools[-1] += sum(SIZES) - sum(pools)
        found[descending(pools)] = None
    return list(found)


def test_a_thousand_tight_objects_take_no_more_steps_than_a_decision_has() -> None:
    objects = np.array(tight_objects(1_000, fitting=False), dtype=np.int64)
    search = SearchBudget()
    fits(objects, SIZES, search)
    assert search.is_spent and search.undecided > 0
    assert -search._left <= 2 * 13 * pool_fits.EXACT_SETS  # the search that was under way came to its end


def test_no_is_the_answer_for_what_was_not_searched() -> None:
    objects = tight_objects(200, fitting=True)
    search = SearchBudget(1)
    found = fits(np.array(objects, dtype=np.int64), SIZES, search)
    by_first_fit = [pool_fits._first_fit(pools, SIZES) is not None for pools in objects]
    # One search was begun, and was brought to its end; the others were not.
    assert found.sum() <= sum(by_first_fit) + 1
    assert search.undecided == len(objects) - sum(by_first_fit) - 1


def test_tried_again_it_gets_further_until_all_is_known() -> None:
    objects = tight_objects(120, fitting=False) + tight_objects(120, fitting=True)
    pools = np.array(objects, dtype=np.int64)
    search, tries = SearchBudget(200_000), 0
    while True:
        search.renew()
        tries += 1
        found = fits(pools, SIZES, search)
        if not search.undecided:
            break
    assert tries > 1
    assert found.tolist() == fits(pools, SIZES).tolist()


def test_what_rests_on_a_question_without_an_answer_is_not_remembered() -> None:
    pools, sizes, promised = (9, 9), (5, 4), (3, 2, 2)
    spent = SearchBudget(1)
    spent.spend(1)
    assert not fits_beside_one(pools, sizes, promised, spent)
    assert spent.undecided
    assert fits_beside_one(pools, sizes, promised)


def test_grades_of_a_thousand_objects_are_bounded_too() -> None:
    objects = np.array(tight_objects(1_000, fitting=True), dtype=np.int64)
    search = SearchBudget()
    found = grades(objects, SIZES, search)
    assert -search._left <= 2 * 13 * pool_fits.EXACT_SETS
    assert found.max() <= Grade.GUARANTEED


def test_the_limit_lets_an_exact_search_through() -> None:
    """One object is always searched to its end, whatever there was before it."""
    assert MOST_STEPS_A_DECISION > 2 * 13 * pool_fits.EXACT_SETS
