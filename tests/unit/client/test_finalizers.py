"""Finalizers are written for the state that was seen."""

from __future__ import annotations

from tonnage.client.cache import add_finalizer, remove_finalizer
from tonnage.testing.storage_builders import claim


def test_finalizers_are_written_for_the_state_that_was_seen() -> None:
    found = claim("c", metadata={"resourceVersion": "7", "finalizers": ["a"]})
    assert add_finalizer(found, "b") == {"metadata": {"resourceVersion": "7", "finalizers": ["a", "b"]}}
    assert remove_finalizer(found, "a") == {"metadata": {"resourceVersion": "7", "finalizers": []}}
    assert add_finalizer(found, "a") is None
    assert remove_finalizer(found, "b") is None
    noted = add_finalizer(found, "a", annotations={"k": "v"})
    assert noted == {"metadata": {"resourceVersion": "7", "annotations": {"k": "v"}}}
