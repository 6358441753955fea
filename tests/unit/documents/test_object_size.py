"""How large an object may be, and that one that is too large already may shrink."""

from __future__ import annotations

import pytest

from tonnage.documents.creation import MAX_OBJECT_BYTES, STATUS_ROOM_BYTES, refuse_too_large
from tonnage.errors import RequestEntityTooLarge
from tonnage.objects.document import Doc, encode
from tonnage.objects.resources import BY_KIND

MAPS = BY_KIND["v1", "ConfigMap"]


def sized(size_bytes: int) -> Doc:
    doc: Doc = {"metadata": {"name": "a"}, "data": {"k": ""}}
    doc["data"]["k"] = "x" * (size_bytes - len(encode(doc)))
    return doc


def test_an_object_at_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    refuse_too_large(MAPS, sized(MAX_OBJECT_BYTES))
    with pytest.raises(RequestEntityTooLarge) as caught:
        refuse_too_large(MAPS, sized(MAX_OBJECT_BYTES + 1))
    assert caught.value.message == (
        'Request entity too large: configmaps "a" takes 1572865 bytes with its defaults: limit is 1572864; '
        "split it into several objects"
    )


def test_one_that_is_too_large_already_may_shrink_and_not_grow() -> None:
    old = sized(2 * MAX_OBJECT_BYTES)
    refuse_too_large(MAPS, sized(2 * MAX_OBJECT_BYTES - 1), old)
    refuse_too_large(MAPS, sized(2 * MAX_OBJECT_BYTES), old)
    with pytest.raises(RequestEntityTooLarge):
        refuse_too_large(MAPS, sized(2 * MAX_OBJECT_BYTES + 1), old)


def test_a_full_object_still_takes_a_status_and_its_managers_and_nothing_else() -> None:
    old = sized(MAX_OBJECT_BYTES)
    managers = {**old["metadata"], "managedFields": [{"manager": "kubelet"}]}
    refuse_too_large(MAPS, {**old, "metadata": managers, "status": {"phase": "Failed"}}, old)
    with pytest.raises(RequestEntityTooLarge):
        refuse_too_large(MAPS, {**old, "metadata": {**managers, "labels": {"a": "b"}}}, old)
    with pytest.raises(RequestEntityTooLarge):
        refuse_too_large(MAPS, {**old, "status": {"message": "x" * STATUS_ROOM_BYTES}}, old)
    with pytest.raises(RequestEntityTooLarge):
        refuse_too_large(MAPS, {**old, "status": {"phase": "Failed"}})
