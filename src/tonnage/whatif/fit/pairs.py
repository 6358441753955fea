"""Two changes of one node at once, where neither does by itself: a pool and an attach slot, a pool and processor.

A node refuses a pod by the first thing that is in the way; what else is, shows when that is gone. So for the nodes that
came nearest (`NODES_PAIRED`) all that may be changed about one is changed together first; where that lets the pod in,
each two of the changes are tried, and the first is made as small as it can be, then the second beside it. Of such a
pair nothing less does: with the second as large as may be the first cannot be smaller, and beside the first the second
cannot. More than two at once are not looked for; a node like another is the answer then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from tonnage.objects.meta import Object

NODES_PAIRED: Final = 8
MOST_KNOBS: Final = 12
"""What may be changed about one node; of more, the first. Twelve are 66 pairs."""

Fits = Callable[[Iterable[Object]], bool]


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing that may be changed about a node, by an amount from 1 to `most`."""

    rank: int
    kind: str
    target: Object
    changed: Callable[[Any, int], Object]
    """The object with so much more, whatever else was changed about it before."""
    told: Callable[[int], str]
    most: int = 1


@dataclass(frozen=True, slots=True)
class ChangePair:
    """Two changes that let the pod in together, and no less of either does."""

    changes: tuple[tuple[Knob, int], tuple[Knob, int]]

    @property
    def cost(self) -> tuple[tuple[int, int], ...]:
        """The cheaper kinds first, of the same kinds the smaller amounts."""
        return tuple(sorted((knob.rank, amount) for knob, amount in self.changes))

    @property
    def text(self) -> str:
        return " and ".join(knob.told(amount) for knob, amount in self.changes)

    def objects(self) -> list[Object]:
        return turned(self.changes)


def turned(changes: Iterable[tuple[Knob, int]]) -> list[Object]:
    """The objects as they are with these changes; two of one object add up."""
    found: dict[tuple[type[Object], str], Object] = {}
    for knob, amount in changes:
        place = (type(knob.target), knob.target.key)
        found[place] = knob.changed(found.get(place, knob.target), amount)
    return list(found.values())


def pairs(knobs: Sequence[Knob], fits: Fits) -> Iterator[ChangePair]:
    """Every pair of changes of one node that does, each as small as it can be."""
    knobs = knobs[:MOST_KNOBS]
    if len(knobs) < 2 or not fits(turned((knob, knob.most) for knob in knobs)):
        return
    for one, other in combinations(knobs, 2):
        first = least(one.most, lambda amount, a=one, b=other: fits(turned(((a, amount), (b, b.most)))))  # type: ignore[misc]
        if first is None:
            continue
        second = least(other.most, lambda amount, a=one, n=first, b=other: fits(turned(((a, n), (b, amount)))))  # type: ignore[misc]
        if second is not None:
            yield ChangePair(((one, first), (other, second)))


def least(most: int, does: Callable[[int], bool]) -> int | None:
    """The smallest amount from 1 on that does, by halving: more is never worse. None when even the most does not."""
    if not does(most):
        return None
    low, high = 0, most
    while low + 1 < high:
        middle = (low + high) // 2
        if does(middle):
            high = middle
        else:
            low = middle
    return high
