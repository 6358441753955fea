"""The same event is written once in a while, however often it is recorded."""

from __future__ import annotations

from support.virtual_clock import VirtualClock
from tonnage.controllers.controller_context import DeduplicatingRecorder
from tonnage.objects.meta import Object
from tonnage.testing.storage_builders import claim


class Notes:
    """A recorder that keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def event(self, about: Object, type: str, reason: str, action: str, note: str, related: Object | None) -> None:
        self.notes.append(note)


def test_the_same_event_is_recorded_again_only_after_a_while() -> None:
    clock, recorder = VirtualClock(), Notes()
    deduplicating = DeduplicatingRecorder(recorder, clock)  # type: ignore[arg-type]

    def record(note: str) -> None:
        deduplicating.event(claim("c"), "Normal", "Waiting", "Binding", note)

    record("a")
    record("a")
    record("b")
    clock.advance(59.0)
    record("a")
    assert recorder.notes == ["a", "b"]
    clock.advance(1.0)
    record("a")
    assert recorder.notes == ["a", "b", "a"]


def test_what_may_be_recorded_again_is_forgotten() -> None:
    clock, recorder = VirtualClock(), Notes()
    deduplicating = DeduplicatingRecorder(recorder, clock)  # type: ignore[arg-type]
    for number in range(500):
        deduplicating.event(claim(f"c{number}"), "Normal", "Waiting", "Binding", "a")
        deduplicating.event(claim("c0"), "Normal", "Waiting", "Binding", "a")
        clock.advance(1.0)
    assert len(recorder.notes) == 500 + 8  # the first claim's once a minute
    assert len(deduplicating.recorded_at_s) <= 61
