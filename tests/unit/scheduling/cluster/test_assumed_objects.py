"""Objects between a decision and the informer's word: assumed, confirmed, restored."""

from __future__ import annotations

import pytest

from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.scheduling.cluster.storage import AssumedObjects, OutOfSync
from tonnage.testing.storage_builders import claim

KEY = "default/data"


def data(version: str, node: str = "", uid: str = "life-1") -> PersistentVolumeClaim:
    return claim("data", selected_node=node, metadata={"resourceVersion": version, "uid": uid})


class Told:
    """A store of claims, and what its listener was told: (node before, node after), None for not there."""

    def __init__(self, *objects: PersistentVolumeClaim) -> None:
        self.changes: list[tuple[str | None, str | None]] = []
        self.objects: AssumedObjects[PersistentVolumeClaim] = AssumedObjects(self._listen)
        for each in objects:
            self.objects.put(each)
        self.changes.clear()

    def _listen(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        self.changes.append((old.selected_node if old else None, new.selected_node if new else None))

    @property
    def seen(self) -> str | None:
        found = self.objects.get(KEY)
        return found.selected_node if found is not None else None

    @property
    def known(self) -> str | None:
        found = self.objects.api(KEY)
        return found.selected_node if found is not None else None


def test_decisions_see_what_was_assumed_and_the_api_is_as_it_was():
    told = Told(data("5"))
    told.objects.assume(data("5", "a"))
    assert (told.seen, told.known) == ("a", "")
    assert told.objects.is_assumed(KEY) and told.changes == [("", "a")]
    assert [each.selected_node for each in told.objects] == ["a"]


def test_restoring_goes_back_to_what_the_informer_knows():
    told = Told(data("5"))
    told.objects.assume(data("5", "a"))
    told.objects.restore(KEY)
    assert (told.seen, told.known) == ("", "") and told.changes == [("", "a"), ("a", "")]
    told.objects.restore(KEY)
    told.objects.restore("default/nobody")
    assert len(told.changes) == 2


def test_a_newer_version_from_the_informer_ends_an_assumption():
    told = Told(data("5"))
    told.objects.assume(data("5", "a"))
    told.objects.put(data("6", "b"))
    assert (told.seen, told.known) == ("b", "b") and not told.objects.is_assumed(KEY)
    assert told.changes == [("", "a"), ("a", "b")]
    told.objects.restore(KEY)  # too late: nothing happens
    assert told.seen == "b"


@pytest.mark.parametrize("version", ["5", "4"])
def test_the_version_an_assumption_is_based_on_or_an_older_one_does_not_end_it(version: str):
    told = Told(data("5"))
    told.objects.assume(data("5", "a"))
    told.objects.put(data(version))
    assert (told.seen, told.known) == ("a", "") and told.changes == [("", "a")]


def test_an_assumption_about_an_object_that_has_changed_is_refused():
    told = Told(data("7"))
    with pytest.raises(OutOfSync) as caught:
        told.objects.assume(data("6", "a"))
    assert caught.value.message == '"default/data" is out of sync (stored: 7, assume: 6)'
    assert told.seen == "" and told.changes == []


def test_an_assumption_about_an_object_that_is_gone_is_refused():
    told = Told()
    with pytest.raises(OutOfSync) as caught:
        told.objects.assume(data("6", "a"))
    assert caught.value.message == 'persistentvolumeclaims "default/data" not found'


def test_an_object_that_is_deleted_takes_its_assumption_with_it():
    told = Told(data("5"))
    told.objects.assume(data("5", "a"))
    told.objects.remove(KEY)
    assert told.seen is None and told.known is None and told.changes == [("", "a"), ("a", None)]
    told.objects.remove(KEY)
    assert len(told.changes) == 2 and list(told.objects) == []


def test_another_life_of_the_object_ends_an_assumption_whatever_its_version():
    told = Told(data("5"))
    told.objects.assume(data("5", "a"))
    told.objects.put(data("3", uid="life-2"))
    assert told.seen == "" and not told.objects.is_assumed(KEY)


def test_one_assumption_may_follow_another():
    told = Told(data("5"))
    told.objects.assume(data("5", "a"))
    told.objects.assume(data("5", "b"))
    assert told.seen == "b"
    told.objects.restore(KEY)
    assert told.seen == ""


def test_objects_from_manifests_have_no_version_and_may_always_be_replaced():
    told = Told(data(""))
    told.objects.assume(data("", "a"))
    assert told.seen == "a"
    told.objects.put(data("", "b"))
    assert told.seen == "b" and not told.objects.is_assumed(KEY)


@pytest.mark.parametrize(
    ("text", "number"), [("", 0), ("12", 12), ("9999999999999999999999", 9999999999999999999999), ("x", 0)]
)
def test_versions_compare_as_numbers(text: str, number: int):
    assert data(text).metadata.revision == number
