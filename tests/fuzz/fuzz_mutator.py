"""A seeded mutator: bytes that are nearly right.

Random bytes are refused by the first character; what breaks a decoder is mostly a good input with one thing wrong. A
mutation cuts, doubles, swaps or overwrites a stretch, splices another input in, or puts in a piece that has broken
decoders before (`PIECES`): numbers at the edge of their types, brackets without an end, aliases, line ends. Of a
seed that is JSON every other input stays JSON: a value is left out, doubled, wrapped, replaced by another or by one of
`VALUES`, so that the rules behind the grammar are reached too. The same generator gives the same inputs.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

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


VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 0.5, -0.0, 1e300, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30),
    *(
        "",
        " ",
        "a",
        "A",
        "-",
        ".",
        "..",
        "/",
        "a/b",
        "a/b/c",
        "\0",
        "\n",
        "\x1b[2J",
        "\u202e",
        "é",
        "\U0001f600",
        "a" * 300,
    ),
    *(
        "1",
        "-1",
        "0",
        "1Gi",
        "1e30",
        "100m",
        "0.0000000001",
        "10 GB",
        "9" * 100,
        "true",
        "null",
        "~",
        "2026-11-15T02:29:13Z",
    ),
    *([], {}, [[]], [{}], [None], {"": ""}, {"a": None}, {"$patch": "delete"}, {"name": None}, {"key": {}}, ["a", "a"]),
)


class Mutator:
    """Makes inputs out of seeds; seeds that were told to be interesting are used more."""

    def __init__(self, rng: random.Random, seeds: Sequence[bytes]) -> None:
        self._rng = rng
        self._seeds = list(seeds) or [b""]
        self._decoded: dict[bytes, Any] = {}

    def next(self) -> bytes:
        rng = self._rng
        seed = rng.choice(self._seeds)
        if rng.random() < 0.5 and (found := self._json(seed)) is not None:
            return self._rewritten(found)
        data = bytearray(seed)
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

    def _json(self, seed: bytes) -> Any:
        if seed not in self._decoded:
            try:
                found = json.loads(seed)
            except ValueError:
                found = None
            self._decoded[seed] = found if isinstance(found, dict | list) else None
        return self._decoded[seed]

    def _rewritten(self, value: Any) -> bytes:
        rng = self._rng
        made = json.loads(json.dumps(value))
        for _ in range(1 + min(int(rng.expovariate(0.7)), 8)):
            places = list(_places(made))
            if not places:
                break
            container, key = rng.choice(places)
            match rng.randrange(7):
                case 0:
                    del container[key]
                case 1:
                    container[key] = [container[key], container[key]]
                case 2 if isinstance(container, list):
                    container.insert(key, copy.deepcopy(container[key]))
                case 3 if isinstance(container, dict):
                    container[str(rng.choice(VALUES))] = container.pop(key)
                case 4 | 5:
                    container[key] = copy.deepcopy(rng.choice(VALUES))
                case _:
                    other, at = rng.choice(places)
                    container[key] = copy.deepcopy(other[at])
        return json.dumps(made, ensure_ascii=False).encode(errors="replace")[:MAX_BYTES]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a value that holds another."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def smaller(data: bytes, still_fails: Callable[[bytes], bool], *, tries: int = 200) -> bytes:
    """The same finding with less around it: stretches are left out as long as it is one."""
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
