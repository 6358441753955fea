"""The heap under the queues: items by name, in order, and no left-overs that add up."""

from __future__ import annotations

from support.held_memory import entries_held
from tonnage.keyed import KeyedHeap


def drained(heap: KeyedHeap[str]) -> list[str]:
    found = []
    while (item := heap.pop()) is not None:
        found.append(item)
    return found


def test_the_smallest_comes_first_and_equals_in_the_order_they_came() -> None:
    heap: KeyedHeap[str] = KeyedHeap()
    for name, order in (("a", 2), ("b", 1), ("c", 2), ("d", 0)):
        heap.put(name, order, name.upper())
    assert list(heap) == ["D", "B", "A", "C"]
    assert drained(heap) == ["D", "B", "A", "C"]


def test_an_item_put_again_is_there_once_in_its_new_place() -> None:
    heap: KeyedHeap[str] = KeyedHeap()
    heap.put("a", 1, "old")
    heap.put("b", 2, "b")
    heap.put("a", 3, "new")
    assert len(heap) == 2
    assert heap.get("a") == "new"
    assert drained(heap) == ["b", "new"]


def test_a_removed_item_does_not_come_up() -> None:
    heap: KeyedHeap[str] = KeyedHeap()
    heap.put("a", 1, "a")
    heap.put("b", 2, "b")
    assert heap.remove("a") == "a"
    assert heap.remove("a") is None
    assert "a" not in heap
    assert heap.peek() == "b"
    assert drained(heap) == ["b"]


def test_left_overs_are_swept_out() -> None:
    heap: KeyedHeap[str] = KeyedHeap()
    heap.put("rock", -1, "rock")
    for turn in range(10_000):
        heap.put("a", turn, "a")
        heap.put("b", turn, "b")
        heap.remove("b")
    # Two items by their keys: at most 64 + 2 * 2 entries to take them from, whatever happened before.
    assert entries_held(heap) <= 68 + 2 * 5
    assert drained(heap) == ["rock", "a"]
