"""gzip is undone up to a limit, whatever it would become; other encodings are refused."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from tonnage.apiserver.bodies import encoding_of, inflate
from tonnage.errors import BadRequest, RequestEntityTooLarge, UnsupportedMediaType


def test_one_member_and_several_are_undone():
    assert inflate(gzip.compress(b"abc")) == b"abc"
    assert inflate(gzip.compress(b"abc") + gzip.compress(b"def") + bytes(512)) == b"abcdef"
    assert inflate(b"") == b""


def test_what_is_exactly_as_large_as_may_be_is_undone():
    assert len(inflate(gzip.compress(bytes(1000)), limit=1000)) == 1000
    with pytest.raises(RequestEntityTooLarge, match="limit is 1000"):
        inflate(gzip.compress(bytes(1001)), limit=1000)


def test_a_bomb_takes_no_more_memory_than_the_limit():
    bomb = gzip.compress(bytes(100 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(RequestEntityTooLarge):
            inflate(bomb, limit=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "body",
    [b"x", b"\x1f\x8b", gzip.compress(b"abc")[:-1], gzip.compress(b"abc")[:-8] + bytes(8), gzip.compress(b"") * 65],
    ids=["letters", "head alone", "cut off", "wrong sum", "many members"],  # what gzip makes holds the time of day
)
def test_what_is_no_gzip_is_a_bad_request(body: bytes):
    with pytest.raises(BadRequest):
        inflate(body)


@pytest.mark.parametrize(
    ("header", "encoding"), [("", "identity"), ("identity", "identity"), (" GZIP ", "gzip"), ("x-gzip", "gzip")]
)
def test_encodings_that_are_undone(header: str, encoding: str):
    assert encoding_of(header) == encoding


@pytest.mark.parametrize("header", ["deflate", "br", "zstd", "gzip, gzip", "gzip,identity", "\udcff", "compress"])
def test_encodings_that_are_refused(header: str):
    with pytest.raises(UnsupportedMediaType, match="send it plain, or as gzip"):
        encoding_of(header)
