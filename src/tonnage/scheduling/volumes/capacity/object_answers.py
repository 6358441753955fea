"""What the objects of a class said to groups of claims, remembered by the group's sizes.

Pods of a workload ask one after the other for the same, and between two of them a few objects change: the one that took
the last pod, one whose figures came in. So an answer is kept for all objects, and those that changed since are asked
again, in plain numbers while they are few. The answers are those that `Reading` gives; it keeps nothing here that a
search had to leave open for want of steps, because with more of them it may be another.

The latest few groups are kept, each with two arrays as long as the table of objects.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.scheduling.cluster.columns import Changes, row_count, row_numbers
from tonnage.scheduling.volumes.packing import SearchBudget, Sizes

T = TypeVar("T", bound=np.generic)

REMEMBERED: Final = 32
"""Groups of different sizes whose answers are kept; a workload has few kinds of pods at a time."""
_FEW: Final = 16
"""Up to so many objects are asked one by one: a dozen operations on arrays cost more."""


class ObjectAnswers(Generic[T]):
    """Answers by group and object. `ask` gives those of many, of so many objects in use; `ask_one` that of one."""

    def __init__(
        self,
        dtype: type[T],
        changes: Changes,
        search: SearchBudget,
        *,
        ask: Callable[[slice | npt.NDArray[np.intp], Sizes, int], np.ndarray[tuple[int], np.dtype[T]]],
        ask_one: Callable[[int, Sizes], bool | int],
    ) -> None:
        self._dtype = dtype
        self._changes = changes
        self._search = search
        self._ask = ask
        self._ask_one = ask_one
        self._asked_before: Sizes = ()
        """The group that some objects were asked about last."""
        self._kept: OrderedDict[Sizes, tuple[int, np.ndarray[tuple[int], np.dtype[T]]]] = OrderedDict()

    def clear(self) -> None:
        """What objects say depends on something else that changed."""
        self._kept.clear()

    def of(self, sizes: Sizes, objects: int) -> np.ndarray[tuple[int], np.dtype[T]]:
        """The answers of the first so many objects by number; the last place, number -1, is that of none, and 0.

        It is what is kept: to be read at once, not to be changed.
        """
        tick, undecided = self._changes.tick, self._search.undecided
        known = self._kept.get(sizes)
        if known is None or len(known[1]) != objects + 1:
            found = np.zeros(objects + 1, dtype=self._dtype)
            found[:-1] = self._ask(slice(0, objects), sizes, objects)
        elif known[0] == tick:
            return known[1]
        else:
            asked_at, found = known
            changed = self._changes.since(asked_at, objects)
            if row_count(changed) > _FEW:
                found[:-1] = self._ask(slice(0, objects), sizes, objects)
            else:
                for number in row_numbers(changed).tolist():
                    found[number] = self._ask_one(number, sizes)
        if self._search.undecided != undecided:
            self._kept.pop(sizes, None)
            return found
        self._kept[sizes] = (tick, found)
        self._kept.move_to_end(sizes)
        if len(self._kept) > REMEMBERED:
            self._kept.popitem(last=False)
        return found

    def of_some(self, numbers: npt.NDArray[np.intp], sizes: Sizes, objects: int) -> np.ndarray[tuple[int], np.dtype[T]]:
        """The answers of some objects by number; for number -1 what `ask` says of it.

        Of few objects it is not worth asking all, unless somebody asked the same before: then others will.
        """
        if len(numbers) * 4 < objects and sizes not in self._kept and sizes != self._asked_before:
            self._asked_before = sizes
            return self._ask(numbers, sizes, objects)
        return self.of(sizes, objects)[numbers]
