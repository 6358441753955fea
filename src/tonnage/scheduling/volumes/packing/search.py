"""How much one decision may search, over all objects together, and what was found before.

A search for one object ends by itself after some milliseconds (`EXACT_SETS`, `MOST_STEPS`). A thousand objects that are
all nearly full may each need one, and a decision that takes seconds holds up every pod behind it. So a decision has a
number of steps; when they are used up, objects that nobody has searched before are not searched, the answer for them is
no, and that is counted: a no for want of steps is told apart from a no for want of room.

What was found is remembered. The same question tomorrow costs nothing, so that a pod that is tried again gets as many
objects further each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MOST_STEPS_A_DECISION: Final = 1_000_000
"""About a quarter of a second. The hardest question that is answered exactly takes 50,000: twenty objects of that kind,
or thousands of an ordinary one. First-fit-decreasing, which settles most objects, takes none."""

_REMEMBERED: Final = 16_384


class SearchBudget:
    """The steps of one decision. `limit` None: as many as it takes."""

    __slots__ = ("_left", "limit", "undecided")

    def __init__(self, limit: int | None = MOST_STEPS_A_DECISION) -> None:
        self.limit = limit
        self._left = limit or 0
        self.undecided = 0
        """How many questions were answered with no because the steps were used up."""

    @property
    def is_spent(self) -> bool:
        return self.limit is not None and self._left <= 0

    def renew(self) -> None:
        """Another decision begins."""
        self._left, self.undecided = self.limit or 0, 0

    def spend(self, steps: int) -> None:
        self._left -= steps


UNLIMITED: Final = SearchBudget(None)


class Found(Generic[T]):
    """Answers by question, the latest so many."""

    __slots__ = ("_answers", "_remembered")

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._remembered = remembered
        self._answers: dict[Hashable, T] = {}

    def clear(self) -> None:
        self._answers.clear()

    def ask(self, question: Hashable, search: SearchBudget, answer: Callable[[SearchBudget], T], *, worst: T) -> T:
        """The answer as it is known, or worked out now; `worst` when there are no steps left for it."""
        try:
            return self._answers[question]
        except KeyError:
            pass
        if search.is_spent:
            search.undecided += 1
            return worst
        undecided = search.undecided
        found = answer(search)
        if search.undecided == undecided:  # else it rests on a question that was not answered
            if len(self._answers) >= self._remembered:
                for oldest in list(self._answers)[: self._remembered // 2]:
                    del self._answers[oldest]
            self._answers[question] = found
        return found
