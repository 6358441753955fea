"""What objects said to a group is kept, and those that changed are asked again; the answers are those asked anew."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.volumes.capacity.class_capacity import NOTHING
from tonnage.scheduling.volumes.capacity.pools import Room
from tonnage.scheduling.volumes.capacity.reading import REMEMBERED, CapacityPolicy, Held, Question, Reading
from tonnage.scheduling.volumes.packing import pool_grades
from tonnage.scheduling.volumes.packing.pool_fits import SearchBudget, Sizes, descending
from tonnage.scheduling.volumes.packing.pool_grades import Grade, Grades, fits_beside_one
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.testing.storage_builders import capacity

OBJECTS = 200
EVERY = np.arange(OBJECTS)


class Asked(Reading):
    """Objects of one pool each, and which of them were judged for whom."""

    def __init__(self, search: SearchBudget | None = None) -> None:
        self.sizes = [10] * OBJECTS
        self.at_once: list[tuple[Sizes, int]] = []
        self.alone: list[int] = []
        policy = CapacityPolicy(lambda each: Room((self.sizes[int(each.name)],)), lambda each: 0)
        super().__init__(policy, OBJECTS + 1, search or SearchBudget())
        for number in range(OBJECTS):
            self.write(number, capacity(name=str(number)))

    def change(self, number: int, size: int) -> None:
        self.sizes[number] = size
        self.write(number, capacity(name=str(number)))

    def ask(self, size: int, numbers: npt.NDArray[np.intp] = EVERY) -> list[bool]:
        return [bool(each) for each in self.says(Question.FITS, (size,), numbers)]

    def _judged(self, question: Question, sizes: Sizes, numbers: npt.NDArray[np.intp]) -> Grades:
        self.at_once.append((sizes, len(numbers)))
        return super()._judged(question, sizes, numbers)

    def _verdict(self, question: Question, sizes: Sizes, number: int, held: Held, own: Collection[Key] = ()) -> Grade:
        self.alone.append(number)
        return super()._verdict(question, sizes, number, held, own)


def test_only_objects_that_changed_are_asked_again():
    asked = Asked()
    assert asked.ask(10) == [True] * OBJECTS
    asked.change(3, 5)
    asked.change(7, 20)
    asked.change(3, 6)
    found = asked.ask(10)
    assert [number for number in range(OBJECTS) if not found[number]] == [3]
    assert asked.ask(10) == found
    assert asked.says(Question.FITS, (10,), np.array([NOTHING, 7])).tolist() == [Grade.NONE, Grade.POSSIBLE]
    assert (asked.at_once, asked.alone) == ([((10,), OBJECTS)], [3, 7])


def test_many_that_changed_are_asked_at_once():
    asked = Asked()
    asked.ask(10)
    for number in range(30):
        asked.change(number, 1)
    assert asked.ask(10).count(True) == OBJECTS - 30
    assert (asked.at_once, asked.alone) == ([((10,), OBJECTS), ((10,), 30)], [])


def test_more_objects_are_asked_anew():
    asked = Asked()
    asked.ask(10)
    asked.write(OBJECTS, None)
    assert asked.ask(10) == [True] * OBJECTS
    assert asked.at_once == [((10,), OBJECTS)] * 2


def test_an_answer_that_was_left_open_is_not_kept():
    search = SearchBudget(limit=0)
    room = Room(descending((10, 9)))
    reading = Reading(CapacityPolicy(lambda each: room, lambda each: 0), 2, search)
    reading.write(0, capacity(name="0"))
    sizes = (5, 4, 4, 3, 3)  # first-fit-decreasing fails: 4 + 3 + 3 and 5 + 4 have to be searched for
    assert reading.says(Question.FITS, sizes, np.array([0])).tolist() == [Grade.NONE]
    assert (reading.says_one(Question.FITS, sizes, 0), search.undecided) == (Grade.NONE, 2)
    search.limit = 10_000
    search.renew()
    assert reading.says(Question.FITS, sizes, np.array([0])).tolist() == [Grade.POSSIBLE]


def test_the_groups_asked_about_latest_are_kept():
    asked = Asked()
    for size in range(REMEMBERED + 1):
        asked.ask(size)
    asked.ask(1)  # kept
    asked.ask(0)  # not any more
    assert [size for (size,), _ in asked.at_once] == [*range(REMEMBERED + 1), 0]


def test_only_the_objects_that_are_asked_about_are_judged():
    asked = Asked()
    asked.change(3, 5)
    for _ in range(2):
        assert asked.ask(10, np.array([3, 7, 3])) == [False, True, False]
    assert (asked.at_once, asked.alone) == ([], [3, 7])
    assert asked.ask(10) == [number != 3 for number in range(OBJECTS)]
    assert asked.at_once == [((10,), OBJECTS - 2)]


amounts = st.integers(0, 6)
said = st.tuples(st.lists(amounts, max_size=3).map(descending), st.lists(amounts, max_size=2).map(descending))


@settings(max_examples=tries(60), deadline=None)
@given(
    st.lists(said, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), said), max_size=8),
    st.lists(st.lists(amounts, min_size=1, max_size=3).map(descending), min_size=1, max_size=2),
    st.sampled_from(Grade),
)
def test_what_is_kept_is_what_objects_say_now(
    objects: list[tuple[Sizes, Sizes]],
    changes: list[tuple[int, tuple[Sizes, Sizes]]],
    groups: list[Sizes],
    least: Grade,
) -> None:
    now = list(objects)

    def promised(each: CSIStorageCapacity, own: object) -> Sizes:
        return tuple(size for size in now[int(each.name)][1] if size)

    policy = CapacityPolicy(
        lambda each: Room(now[int(each.name)][0]), lambda each: 0, held=promised, must_be=max(least, Grade.POSSIBLE)
    )
    reading = Reading(policy, len(now) + 1)
    for number in range(len(now)):
        reading.write(number, capacity(name=str(number)))
    for place, told in [(0, now[0]), *changes]:
        number = place % len(now)
        now[number] = told
        reading.write(number, capacity(name=str(number)))
        for sizes in groups:
            assert_all_at_once_as_one_by_one(policy, reading, sizes)


def assert_all_at_once_as_one_by_one(policy: CapacityPolicy, reading: Reading, sizes: Sizes) -> None:
    """What is kept, what is judged one by one, and what is judged in one go."""
    count = len(reading.rooms) - 1
    anew = Reading(policy, count + 1)
    for number in range(count):
        anew.write(number, capacity(name=str(number)))
    every = np.arange(count)
    for question in Question:
        alone = [anew.says_one(question, sizes, number) for number in range(count)]
        assert reading.says(question, sizes, every).tolist() == alone
        at_once = anew._judged(question, sizes, every)
        if question in (Question.GRADE, Question.GRADE_WITH_ORDER):
            assert at_once.tolist() == alone
        assert (at_once > Grade.NONE).tolist() == [each > Grade.NONE for each in alone]


wider = st.lists(st.integers(0, 30), min_size=2, max_size=4).map(descending)
several = st.lists(st.integers(1, 9), min_size=1, max_size=6).map(descending)


@pytest.mark.parametrize("most_left", [4, 1_024])
def test_several_claims_beside_promises_are_told_the_same_in_one_table_and_one_by_one(
    most_left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a table has fewer rows than there are ways."""

    @settings(max_examples=tries(60), deadline=None)
    @given(st.lists(st.tuples(wider, several), min_size=1, max_size=5), st.lists(several, min_size=1, max_size=3))
    def same(objects: list[tuple[Sizes, Sizes]], groups: list[Sizes]) -> None:
        pool_grades._found.clear()
        pool_grades._found_finely.clear()
        policy = CapacityPolicy(
            lambda each: Room(objects[int(each.name)][0]),
            lambda each: 0,
            held=lambda each, own: objects[int(each.name)][1],
        )
        reading = Reading(policy, len(objects) + 1)
        for number in range(len(objects)):
            reading.write(number, capacity(name=str(number)))
        for sizes in groups:
            alone = [fits_beside_one(pools, sizes, promised) for pools, promised in objects]
            found = reading._judged(Question.FITS, sizes, np.arange(len(objects)))
            assert (found > Grade.NONE).tolist() == alone

    monkeypatch.setattr(pool_grades, "MOST_LEFT", most_left)
    monkeypatch.setattr(pool_grades, "MOST_LEFT_FINELY", 3 * most_left)
    try:
        same()
    finally:
        pool_grades._found.clear()
        pool_grades._found_finely.clear()


def test_how_a_driver_picks_pools_is_asked_for_anew():
    policy = CapacityPolicy(lambda each: Room((6, 4)), lambda each: 0, must_be=Grade.GUARANTEED)
    reading = Reading(policy, 2)
    reading.write(0, capacity(name="0"))
    # A driver may put the claim of 4 into the pool of 6; one that takes the pool with least room does not.
    assert [reading.says_one(each, (6, 4), 0) for each in (Question.FITS, Question.GRADE)] == [Grade.NONE] * 2
    reading.choose_by(PoolPolicy.BEST_FIT)
    assert reading.says_one(Question.FITS, (6, 4), 0) > Grade.NONE
    assert reading.says_one(Question.GRADE, (6, 4), 0) is Grade.GUARANTEED
