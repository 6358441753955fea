"""Uids and generated names. Upstream: uuid.NewUUID and names.SimpleNameGenerator."""

from __future__ import annotations

import random
import uuid

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words by accident
_SUFFIX_LENGTH = 5
_MAX_BASE = 63 - _SUFFIX_LENGTH


class NameGenerator:
    """Uids and names for new objects, from the randomness it is given."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def uid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def generate_name(self, base: str) -> str:
        """A name that begins with `base`, shortened where it leaves no room for the suffix."""
        return base[:_MAX_BASE] + "".join(self._rng.choice(_SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))
