"""The published test vectors of FNV-1 and FNV-1a, 32 bits."""

from __future__ import annotations

import pytest

from tonnage.objects.names import fnv1, fnv1a


@pytest.mark.parametrize(
    ("text", "one", "one_a"),
    [("", 0x811C9DC5, 0x811C9DC5), ("a", 0x050C5D7E, 0xE40C292C), ("foobar", 0x31F0B262, 0xBF9CF968)],
)
def test_published_vectors(text: str, one: int, one_a: int) -> None:
    assert (fnv1(text.encode()), fnv1a(text.encode())) == (one, one_a)
