"""32-bit FNV hashes, as Go's hash/fnv: short names from contents, equal on every machine and in every run."""

from __future__ import annotations

from typing import Final

_OFFSET: Final = 0x811C9DC5
_PRIME: Final = 0x01000193
_MASK: Final = 0xFFFFFFFF


def fnv1(data: bytes) -> int:
    value = _OFFSET
    for byte in data:
        value = (value * _PRIME & _MASK) ^ byte
    return value


def fnv1a(data: bytes) -> int:
    value = _OFFSET
    for byte in data:
        value = (value ^ byte) * _PRIME & _MASK
    return value
