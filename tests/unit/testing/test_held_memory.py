"""What an object holds is counted wherever it lies, and what all share is not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from support.held_memory import entries_held

SHARED = list(range(100))


class Outer:
    kinds = SHARED

    def __init__(self) -> None:
        self.names: dict[str, list[int]] = {}
        self.inner = Inner()
        self.callbacks: list[Callable[[], int]] = []


class Inner:
    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[int] = deque()


def test_every_container_on_the_way_counts_once():
    outer = Outer()
    assert entries_held(outer) == 0
    both = [1, 2]
    outer.names["a"] = both
    outer.names["b"] = both
    outer.inner.waiting.append(7)
    # Two names, one list of two, one that waits.
    assert entries_held(outer) == 5


def test_what_a_callback_remembers_counts_and_what_its_module_has_does_not():
    outer, kept = Outer(), [1, 2, 3]
    outer.callbacks.append(lambda: len(kept) + len(SHARED))
    assert entries_held(outer) == 4  # the callback, and what it keeps


def test_what_was_taken_out_again_is_not_held():
    outer = Outer()
    outer.names["a"] = [1]
    del outer.names["a"]
    assert entries_held(outer) == 0
