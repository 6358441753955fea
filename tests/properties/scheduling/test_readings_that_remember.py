"""What is kept of capacity objects (whether a group fits, what promises may leave) is true of them as they are now.

Objects are refreshed with other pools, come and go; promises are made and end; the driver's way to pick pools changes.
After each change groups are asked about, of one object and of all, and must be answered as by a reading that was made
just now.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.configuration.plugin_args import LegacyPools
from tonnage.scheduling.volumes.capacity.pools import room_of, scored_capacity
from tonnage.scheduling.volumes.capacity.reading import CapacityPolicy, Question, Reading
from tonnage.scheduling.volumes.packing.pool_fits import Sizes
from tonnage.scheduling.volumes.packing.pool_grades import Grade
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.testing.storage_builders import capacity

GI = 1 << 30
OBJECTS = 5


class Story:
    """One reading that is told of every change, and what it is told."""

    def __init__(self, seed: int, must_be: Grade) -> None:
        self.rng = random.Random(seed)
        self.promised: dict[str, Sizes] = {}
        self.policy = CapacityPolicy(
            lambda each: room_of(each, LegacyPools.BOUNDED),
            lambda each: scored_capacity(each, with_pools=True),
            held=lambda each, own: self.promised.get(each.name, ()),
            must_be=must_be,
        )
        self.pool_policy = PoolPolicy.UNKNOWN
        self.objects: list[CSIStorageCapacity | None] = [None] * OBJECTS
        self.reading = self.fresh()

    def fresh(self) -> Reading:
        found = Reading(self.policy, OBJECTS + 1)
        found.choose_by(self.pool_policy)
        for number, each in enumerate(self.objects):
            found.write(number, each)
        return found

    def sizes(self, most: int, largest: int) -> Sizes:
        found = [self.rng.randint(1, largest) * GI for _ in range(self.rng.randint(1, most))]
        return tuple(sorted(found, reverse=True))

    def happen(self, step: int) -> None:
        """One change; objects get more pools as time goes by."""
        rng, number = self.rng, self.rng.randrange(OBJECTS)
        known = self.objects[number]
        match rng.randrange(8):
            case 0:
                self.pool_policy = rng.choice((PoolPolicy.UNKNOWN, PoolPolicy.MOST_FREE, PoolPolicy.BEST_FIT))
                self.reading.choose_by(self.pool_policy)
            case 1:
                self.objects[number] = None
                self.reading.write(number, None)
            case 2 | 3 | 4:
                pools = [f"{rng.randint(2, 20)}Gi" for _ in range(rng.randint(1, 2 + step // 8))]
                maximum = rng.choice((None, None, "8Gi"))
                most = rng.choice((None, None, rng.randint(0, 6)))
                made = self.objects[number] = capacity(
                    name=f"object-{number}", node="a", pools=pools, maximum=maximum, free_volumes=most
                )
                self.reading.write(number, made)
            case _ if known is not None:
                self.promised[known.name] = self.sizes(3, 8) if rng.random() < 0.8 else ()
                self.reading.write(number, known)

    def compare(self, sizes: Sizes) -> None:
        every = np.arange(-1, OBJECTS)
        for question in Question:
            told = self.fresh().says(question, sizes, every)
            if self.rng.random() < 0.5:
                some = every[1 :: self.rng.randint(1, 3)]
                assert self.reading.says(question, sizes, some).tolist() == told[some + 1].tolist()
            assert self.reading.says(question, sizes, every).tolist() == told.tolist()
            assert [self.reading.says_one(question, sizes, number) for number in range(OBJECTS)] == told[1:].tolist()


@pytest.mark.parametrize("must_be", [Grade.POSSIBLE, Grade.GUARANTEED])
@settings(max_examples=tries(12), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_reading_that_remembers_answers_as_a_fresh_one(seed: int, must_be: Grade):
    story = Story(seed, must_be)
    groups = [story.sizes(4, 10) for _ in range(4)]
    for step in range(24):
        story.happen(step)
        for sizes in story.rng.sample(groups, len(groups)):
            story.compare(sizes)
