"""A seeded mutator: bytes that are nearly right.

Random bytes are refused by the first character; what breaks a decoder is mostly a good input with one thing wrong. A
mutation cuts, doubles, swaps or overwrites a stretch, splices another input in, or puts in a piece that has broken
decoders before (`PIECES`): numbers at the edge of their types, brackets without an end, aliases, line ends. The same
generator gives the same inputs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

MAX_BYTES = 20_000
"""Inputs stay small, so that a run tries many; size is the matter of tests of their own."""

PIECES: tuple[bytes, ...] = (
    *(b"0", b"-1", b"1e999", b"-0", b"9223372036854775808", b"18446744073709551616", b"0x7f", b"1_0", b"00", b".5"),
    *(b"9" * 400, b"9" * 5_000, b"1e-400", b"NaN", b"Infinity", b"0.1", b"1Ei", b"1e18", b"12e"),
    *(
        b"null",
        b"true",
        b"{}",
        b"[]",
        b'""',
        b'"',
        b"'",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\\",
        b"\\u0000",
        b"\\ud800",
    ),
    *(b"\0", b"\n", b"\r\n", b"\r", b"\t", b" ", b"\x1b[2J", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x80\xae"),
    *(
        b"\xef\xbb\xbf",
        b"---\n",
        b"...\n",
        b"&a ",
        b"*a",
        b"<<: *a\n",
        b"!!binary ",
        b"!!python/object:x ",
        b"? ",
        b"|\n",
    ),
    *(b"[" * 200, b'{"a":' * 200, b"- " * 100, b"&a [*a]", b"{a: &b {c: *b}}", b"2026-13-45", b"0001-01-01T00:00:00Z"),
    *(
        b"$patch: delete\n",
        b'"$patch":"replace"',
        b'"$setElementOrder/x":[1]',
        b'"$retainKeys":[""]',
        b"~1",
        b"~",
        b"/-",
    ),
    *(b"/0", b"metadata", b"spec", b"k8s\0", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\x0a\xff\xff\xff\xff\x0f"),
    *(
        b"Content-Length: ",
        b"Transfer-Encoding: chunked\r\n",
        b"0\r\n\r\n",
        b"HTTP/1.1 ",
        b"-5\r\n",
        b"f" * 17 + b"\r\n",
    ),
    *(b"k:.", b'k:{"name":"c"}', b"f:", b"v:1", b"i:-1", b" in (", b"notin", b"!=", b"=="),
)


class Mutator:
    """Makes inputs out of seeds; seeds that were told to be interesting are used more."""

    def __init__(self, rng: random.Random, seeds: Sequence[bytes]) -> None:
        self._rng = rng
        self._seeds = list(seeds) or [b""]

    def next(self) -> bytes:
        rng = self._rng
        data = bytearray(rng.choice(self._seeds))
        for _ in range(1 + min(int(rng.expovariate(0.5)), 12)):
            self._change(data)
        return bytes(data[:MAX_BYTES])

    def _change(self, data: bytearray) -> None:
        rng = self._rng
        at = rng.randrange(len(data) + 1)
        length = min(1 + int(rng.expovariate(0.2)), len(data) - at)
        match rng.randrange(9):
            case 0:
                del data[at : at + length]
            case 1:
                data[at:at] = data[at : at + length] * rng.randrange(1, 4)
            case 2 | 3:
                data[at:at] = rng.choice(PIECES)
            case 4 | 5:
                data[at : at + length] = rng.choice(PIECES)
            case 6:
                data[at : at + length] = rng.randbytes(length)
            case 7 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case _:
                other = rng.choice(self._seeds)
                start = rng.randrange(len(other) + 1)
                data[at : at + length] = other[start : start + rng.randrange(1, 60)]


def smaller(data: bytes, still_fails: object, *, tries: int = 200) -> bytes:
    """The same finding with less around it: stretches are left out as long as `still_fails(data)`."""
    assert callable(still_fails)
    size = len(data) // 2
    while size and tries:
        at = 0
        while at < len(data) and tries:
            tries -= 1
            shorter = data[:at] + data[at + size :]
            if still_fails(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data
