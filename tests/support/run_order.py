"""The order of a run on several workers: tests that wait beside tests that compute, and the long ones early.

pytest-xdist gives every worker an equal piece of the list; a worker that has ended its piece takes from the end of
another's (`--dist worksteal`). In the order of the folders some workers would get the tests that only compute, and all
of them would end with whole clusters, which wait: first the processors have too much to do, then too little. Here every
piece is alike:

    whole clusters, browsers     from the start of a piece to its middle
    servers, sockets, programs   from the start to near the end
    everything else              from the start to the end: short tests end a run evenly

The tests of one file stay together, and so do those of the dashboard, which share a browser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Final, TypeVar

T = TypeVar("T")

LONG: Final = ("tests/e2e", "tests/dashboard")
WAITING: Final = (
    "tests/attacks",
    "tests/contracts",
    "tests/docs",
    "tests/integration",
    "tests/test_examples_run.py",
    "tests/test_json_answers.py",
    "tests/truth",
    "tests/unit/client",
)
TOGETHER: Final = "tests/dashboard"
_ENDS: Final = {"long": 0.5, "waiting": 0.9, "computing": 1.0}


def spread(tests: Sequence[T], pieces: int, *, file_of: Callable[[T], str]) -> list[T]:
    """The same tests, as `pieces` pieces of about the same number of tests, one after the other."""
    kinds: dict[str, dict[str, list[T]]] = {kind: {} for kind in _ENDS}
    for test in tests:
        file = file_of(test)
        kinds[_kind(file)].setdefault(TOGETHER if _is_in(file, [TOGETHER]) else file, []).append(test)
    hands: list[list[tuple[float, list[T]]]] = [[] for _ in range(pieces)]
    for kind, files in kinds.items():
        piles = _by_size(files.values(), hands) if kind == "computing" else _in_turn(files.values(), pieces)
        for hand, pile in zip(hands, piles, strict=True):
            hand += [(_ENDS[kind] * number / len(pile), each) for number, each in enumerate(pile)]
    return [test for hand in hands for _, each in sorted(hand, key=lambda placed: placed[0]) for test in each]


def _in_turn(files: Iterable[list[T]], pieces: int) -> list[list[list[T]]]:
    """A file of tests that wait takes about as long as another, whatever their number."""
    every = list(files)
    return [every[first::pieces] for first in range(pieces)]


def _by_size(files: Iterable[list[T]], hands: list[list[tuple[float, list[T]]]]) -> list[list[list[T]]]:
    """Each file to the hand that has fewest tests by then."""
    sizes = [sum(len(each) for _, each in hand) for hand in hands]
    piles: list[list[list[T]]] = [[] for _ in hands]
    for file in files:
        smallest = sizes.index(min(sizes))
        piles[smallest].append(file)
        sizes[smallest] += len(file)
    return piles


def _kind(file: str) -> str:
    return "long" if _is_in(file, LONG) else "waiting" if _is_in(file, WAITING) else "computing"


def _is_in(file: str, folders: Iterable[str]) -> bool:
    return any(PurePath(file).is_relative_to(folder) for folder in folders)
