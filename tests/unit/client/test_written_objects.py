"""Our own writes are known before an informer shows them, and no longer than until it has caught up."""

from __future__ import annotations

import pytest

from support.virtual_clock import VirtualClock
from tonnage.client.cache import KEPT_S, Cache, MutationCache
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.testing.storage_builders import claim

KEY = "default/c"


class Following(Cache[PersistentVolumeClaim]):
    """A cache that says how far it has come, as an informer does."""

    position = ""

    @property
    def resource_version(self) -> str:
        return self.position


def at(version: int | str, uid: str = "u") -> PersistentVolumeClaim:
    return claim("c", metadata={"resourceVersion": str(version), "uid": uid})


@pytest.fixture
def informer() -> Following:
    return Following(PersistentVolumeClaim)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def written(informer: Following, clock: VirtualClock) -> MutationCache[PersistentVolumeClaim]:
    return MutationCache(informer, clock=clock)


Written = MutationCache[PersistentVolumeClaim]


def test_a_write_is_shown_until_the_informer_has_caught_up(informer: Following, written: Written) -> None:
    informer.put(at(9))
    answer = written.store(at(11))
    assert written.get(KEY) is answer
    informer.put(at(10))
    assert written.get(KEY) is answer
    later = at(12)
    informer.put(later)
    assert written.get(KEY) is later


def test_a_write_that_the_informer_has_overtaken_is_not_shown(informer: Following, written: Written) -> None:
    shown = at(5)
    informer.put(shown)
    written.store(at(3))
    assert written.get(KEY) is shown


def test_of_two_writes_the_later_is_shown_whichever_is_answered_first(informer: Following, written: Written) -> None:
    informer.put(at(5))
    later = written.store(at(8))
    earlier = at(7)
    assert written.store(earlier) is earlier
    assert written.get(KEY) is later


def test_an_object_just_created_is_shown_before_the_informer_comes_to_it(informer: Following, written: Written) -> None:
    informer.position = "4"
    made = written.store(at(5))
    assert written.get(KEY) is made


def test_an_object_that_the_informer_has_seen_go_is_gone(informer: Following, written: Written) -> None:
    informer.put(at(4))
    written.store(at(5))
    informer.remove(KEY)
    assert written.get(KEY) is None


def test_the_answer_to_a_write_that_comes_after_the_deletion_is_not_shown(
    informer: Following, written: Written
) -> None:
    # Written at 5, deleted at 6; the informer shows the deletion before the answer of the write is taken in.
    informer.put(at(4))
    informer.remove(KEY)
    informer.position = "6"
    written.store(at(5))
    assert written.get(KEY) is None


def test_an_object_deleted_while_nobody_was_listening_is_gone(informer: Following, written: Written) -> None:
    written.store(at(5))
    informer.replace(())
    informer.position = "9"
    assert written.get(KEY) is None


def test_an_object_made_anew_is_not_hidden_by_a_write_to_the_old_one(informer: Following, written: Written) -> None:
    again = at(6, uid="another")
    informer.put(again)
    written.store(at(5))
    assert written.get(KEY) is again


def test_an_object_that_we_made_anew_is_not_hidden_by_the_old_one(informer: Following, written: Written) -> None:
    informer.put(at(6))
    again = written.store(at(8, uid="another"))
    assert written.get(KEY) is again
    informer.remove(KEY)  # the old one, by its uid
    assert written.get(KEY) is again


def test_what_we_deleted_ourselves_is_as_the_informer_shows_it(informer: Following, written: Written) -> None:
    written.store(at(5))
    written.forget(KEY)
    assert written.get(KEY) is None


def test_a_write_that_the_informer_never_comes_to_is_forgotten(
    informer: Following, written: Written, clock: VirtualClock
) -> None:
    shown = at(3)
    informer.put(shown)
    answer = written.store(at(900))
    clock.advance(KEPT_S)
    assert written.get(KEY) is answer
    clock.advance(0.1)
    assert written.get(KEY) is shown


def test_versions_that_are_no_numbers_never_win(informer: Following, written: Written) -> None:
    shown = at("abc")
    informer.put(shown)
    written.store(at("abd"))
    assert written.get(KEY) is shown
