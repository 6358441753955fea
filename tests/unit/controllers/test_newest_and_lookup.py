"""Our own writes are known before an informer shows them; objects are found by their parts; news is told once."""

from __future__ import annotations

from tonnage.client.cache import Cache
from tonnage.clock import VirtualClock
from tonnage.controllers.event_deduplication import Told
from tonnage.controllers.lookup import Lookup, claim_keys
from tonnage.controllers.written_objects import Newest
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.testing.storage_builders import claim, pod_with


def at(version: int, uid: str = "u") -> PersistentVolumeClaim:
    return claim("c", metadata={"resourceVersion": str(version), "uid": uid})


def test_a_write_is_shown_until_the_informer_has_caught_up() -> None:
    cache: Cache[PersistentVolumeClaim] = Cache(PersistentVolumeClaim)
    newest = Newest(cache)
    cache.put(at(9))
    written = newest.note(at(11))
    assert newest.get("default/c") is written
    cache.put(at(10))
    assert newest.get("default/c") is written
    later = at(12)
    cache.put(later)
    assert newest.get("default/c") is later


def test_an_object_that_is_gone_is_gone_whatever_was_written() -> None:
    cache: Cache[PersistentVolumeClaim] = Cache(PersistentVolumeClaim)
    newest = Newest(cache)
    assert newest.note(at(5)) and newest.get("default/c") is None
    cache.put(at(4))
    cache.remove("default/c")
    again = at(6, uid="another")
    cache.put(again)
    assert newest.get("default/c") is again


def test_an_object_made_anew_is_not_hidden_by_a_write_to_the_old_one() -> None:
    cache: Cache[PersistentVolumeClaim] = Cache(PersistentVolumeClaim)
    newest = Newest(cache)
    again = at(6, uid="another")
    cache.put(again)
    newest.note(at(7))
    assert newest.get("default/c") is again


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
    told = Told(recorder, clock, again_s=60.0)  # type: ignore[arg-type]  # all that is used of a recorder

    def say(note: str) -> None:
        told.say(claim("c"), "Normal", "Waiting", "Binding", note)

    say("a")
    say("a")
    say("b")
    clock.advance(59.0)
    say("a")
    assert recorder.notes == ["a", "b"]
    clock.advance(1.0)
    say("a")
    assert recorder.notes == ["a", "b", "a"]
