"""How large an object may be, and that one that is too large already may shrink."""

from __future__ import annotations

import pytest

from tonnage.documents.object_size import MAX_OBJECT_BYTES, refuse_too_large
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
