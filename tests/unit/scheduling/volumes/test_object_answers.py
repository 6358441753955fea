"""What objects said to a group is kept, and those that changed are asked again; the answers are those asked anew."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.columns import Changes, Mask, few_rows
from tonnage.scheduling.volumes.capacity import reading as reading_module
from tonnage.scheduling.volumes.capacity.object_answers import REMEMBERED, ObjectAnswers
from tonnage.scheduling.volumes.capacity.pools import Room
from tonnage.scheduling.volumes.capacity.reading import CapacityPolicy, Reading
from tonnage.scheduling.volumes.packing import (
    Grade,
    PoolPolicy,
    SearchBudget,
    Sizes,
    descending,
    fits_beside_one,
    pool_grades,
)
from tonnage.testing.storage_builders import capacity

OBJECTS = 200


class Asked:
    """Objects that hold what is no larger than they are, and who was asked about what."""

    def __init__(self) -> None:
        self.sizes = [10] * OBJECTS
        self.changes = Changes(OBJECTS)
        self.search = SearchBudget()
        self.of_all: list[Sizes] = []
        self.of_some: list[Sizes] = []
        self.of_one: list[int] = []
        self.answers = ObjectAnswers(np.bool_, self.changes, self.search, ask=self._of_all, ask_one=self._of_one)

    def change(self, number: int, size: int) -> None:
        self.sizes[number] = size
        self.changes.note(number)

    def _of_all(self, numbers: slice | npt.NDArray[np.intp], sizes: Sizes, objects: int) -> Mask:
        (self.of_all if isinstance(numbers, slice) else self.of_some).append(sizes)
        return np.array(self.sizes[:objects])[numbers] >= sizes[0]

    def _of_one(self, number: int, sizes: Sizes) -> bool:
        self.of_one.append(number)
        return self.sizes[number] >= sizes[0]


def test_only_objects_that_changed_are_asked_again():
    asked = Asked()
    assert asked.answers.of((10,), OBJECTS).tolist() == [True] * OBJECTS + [False]
    asked.change(3, 5)
    asked.change(7, 20)
    asked.change(3, 6)
    found = asked.answers.of((10,), OBJECTS).tolist()
    assert [number for number in range(OBJECTS) if not found[number]] == [3]
    assert asked.answers.of((10,), OBJECTS).tolist() == found
    assert (asked.of_all, asked.of_one) == ([(10,)], [3, 7])


def test_many_that_changed_are_asked_at_once():
    asked = Asked()
    asked.answers.of((10,), OBJECTS)
    for number in range(30):
        asked.change(number, 1)
    assert np.count_nonzero(asked.answers.of((10,), OBJECTS)) == OBJECTS - 30
    assert (asked.of_all, asked.of_one) == ([(10,), (10,)], [])


def test_more_objects_are_asked_anew():
    asked = Asked()
    asked.answers.of((10,), 100)
    assert len(asked.answers.of((10,), 101)) == 102
    assert asked.of_all == [(10,), (10,)]


def test_an_answer_that_was_left_open_is_not_kept():
    asked = Asked()
    asked.search.undecided = 0

    def of_all(numbers: object, sizes: Sizes, objects: int) -> Mask:
        asked.search.undecided += 1
        return np.zeros(objects, dtype=np.bool_)

    asked.answers = ObjectAnswers(np.bool_, asked.changes, asked.search, ask=of_all, ask_one=lambda *_: False)
    asked.answers.of((10,), OBJECTS)
    asked.answers.of((10,), OBJECTS)
    assert asked.search.undecided == 2


def test_the_groups_asked_about_latest_are_kept():
    asked = Asked()
    for size in range(REMEMBERED + 1):
        asked.answers.of((size,), OBJECTS)
    asked.answers.of((1,), OBJECTS)  # kept
    asked.answers.of((0,), OBJECTS)  # not any more
    assert asked.of_all == [*((size,) for size in range(REMEMBERED + 1)), (0,)]


def test_few_objects_are_asked_alone_until_somebody_asks_the_same():
    asked = Asked()
    few, many = np.array([3, 7]), np.arange(OBJECTS)
    asked.change(3, 5)
    for size in (10, 9, 9, 9):  # the third will not be the last
        assert asked.answers.of_some(few, (size,), OBJECTS).tolist() == [False, True]
    assert (asked.of_some, asked.of_all) == ([(10,), (9,)], [(9,)])
    assert asked.answers.of_some(many, (8,), OBJECTS).tolist() == [number != 3 for number in range(OBJECTS)]
    assert asked.of_all == [(9,), (8,)]


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
        lambda each: Room(now[int(each.name)][0]), lambda each: 0, promised=promised, must_be=max(least, Grade.POSSIBLE)
    )
    reading = Reading(policy, len(now))
    for number in range(len(now)):
        reading.write(number, capacity(name=str(number)))
    for place, told in [(0, now[0]), *changes]:
        number = place % len(now)
        now[number] = told
        reading.write(number, capacity(name=str(number)))
        for sizes in groups:
            every = slice(0, len(now))
            fits = reading.fits(every, sizes)
            assert fits.tolist() == [reading.fits_one(number, sizes) for number in range(len(now))]
            assert reading.fitting(sizes, len(now)).tolist() == [*fits.tolist(), False]
            grades = np.where(fits, reading.grades(every, sizes), Grade.NONE)
            assert grades.tolist() == [
                reading.grade_of(number, sizes) if fits[number] else Grade.NONE for number in range(len(now))
            ]
            some = np.arange(len(now))[::2]
            assert reading.fits(some, sizes).tolist() == fits[some].tolist()
            assert np.where(fits[some], reading.grades(some, sizes), Grade.NONE).tolist() == grades[some].tolist()
            assert reading.graded(sizes, len(now)).tolist() == [*grades.tolist(), Grade.NONE]


wider = st.lists(st.integers(0, 30), min_size=2, max_size=4).map(descending)
several = st.lists(st.integers(1, 9), min_size=1, max_size=6).map(descending)


@pytest.mark.parametrize("most_left", [4, 1_024])
def test_several_claims_beside_promises_are_told_the_same_in_one_table_and_one_by_one(
    most_left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a table has fewer rows than there are ways, and where tables are forgotten for want of memory."""

    @settings(max_examples=tries(60), deadline=None)
    @given(st.lists(st.tuples(wider, several), min_size=1, max_size=5), st.lists(several, min_size=1, max_size=3))
    def same(objects: list[tuple[Sizes, Sizes]], groups: list[Sizes]) -> None:
        pool_grades._found.clear()
        pool_grades._found_finely.clear()
        policy = CapacityPolicy(
            lambda each: Room(objects[int(each.name)][0]),
            lambda each: 0,
            promised=lambda each, own: objects[int(each.name)][1],
        )
        reading = Reading(policy, len(objects))
        for number in range(len(objects)):
            reading.write(number, capacity(name=str(number)))
        for sizes in groups:
            alone = [fits_beside_one(pools, sizes, promised) for pools, promised in objects]
            assert reading.fits(slice(0, len(objects)), sizes).tolist() == alone

    monkeypatch.setattr(pool_grades, "MOST_LEFT", most_left)
    monkeypatch.setattr(pool_grades, "MOST_LEFT_FINELY", 3 * most_left)
    monkeypatch.setattr(reading_module, "_MOST_ROWS_LEFT", 5 * most_left)
    try:
        same()
    finally:
        pool_grades._found.clear()
        pool_grades._found_finely.clear()


def test_how_a_driver_picks_pools_is_asked_for_anew():
    policy = CapacityPolicy(lambda each: Room((6, 4)), lambda each: 0, must_be=Grade.GUARANTEED)
    reading = Reading(policy, 1)
    reading.write(0, capacity(name="0"))
    # A driver may put the claim of 4 into the pool of 6; one that takes the pool with least room does not.
    assert (reading.fitting((6, 4), 1).item(0), reading.graded((6, 4), 1).item(0)) == (False, Grade.NONE)
    reading.choose_by(PoolPolicy.BEST_FIT)
    assert (reading.fitting((6, 4), 1).item(0), reading.graded((6, 4), 1).item(0)) == (True, Grade.GUARANTEED)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(slice(4, 6), [4, 5]), (slice(0, 9), []), (np.array([8, 2]), [8, 2]), (np.arange(5), []), (slice(3, 3), [])],
)
def test_few_rows_are_plain_numbers(rows, expected):
    assert few_rows(rows, 4) == expected
