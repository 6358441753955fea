"""Objects are found by their parts, and the same event is written once in a while."""

from __future__ import annotations

from tonnage.client.cache import Cache
from tonnage.clock import VirtualClock
from tonnage.controllers.event_deduplication import DeduplicatingRecorder
from tonnage.controllers.lookup import Lookup, claim_keys
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.testing.storage_builders import claim, pod_with


def test_pods_are_found_by_their_claims_as_they_come_change_and_go() -> None:
    cache: Cache[Pod] = Cache(Pod)
    cache.put(pod_with("old", "data", metadata={"resourceVersion": "1"}))
    found = Lookup(cache, claim_keys)
    cache.put(pod_with("p", "data", "logs", metadata={"resourceVersion": "2"}))
    assert [pod.name for pod in found("default/data")] == ["old", "p"]
    cache.put(pod_with("p", "logs", metadata={"resourceVersion": "3"}))
    assert [pod.name for pod in found("default/data")] == ["old"]
    cache.remove("default/old")
    assert found("default/data") == ()
    assert [pod.name for pod in found("default/logs")] == ["p"]


class Notes:
    """A recorder that keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def event(self, about: Object, type: str, reason: str, action: str, note: str, related: Object | None) -> None:
        self.notes.append(note)


def test_the_same_words_are_said_again_only_after_a_while() -> None:
    clock, recorder = VirtualClock(), Notes()
    deduplicating = DeduplicatingRecorder(recorder, clock, repeat_after_s=60.0)  # type: ignore[arg-type]

    def say(note: str) -> None:
        deduplicating.event(claim("c"), "Normal", "Waiting", "Binding", note)

    say("a")
    say("a")
    say("b")
    clock.advance(59.0)
    say("a")
    assert recorder.notes == ["a", "b"]
    clock.advance(1.0)
    say("a")
    assert recorder.notes == ["a", "b", "a"]
