"""Python's collector of circles, made to look less often while a simulation runs.

A run makes objects that stay: pods, claims, volumes, the scheduler's tables. Python looks through new objects after
every 700 of them, and through all there are whenever a quarter came on top, in search of circles that a run hardly
makes: a tenth of the time for 50,000 pods. So it looks after every 100,000, and puts it off longer until it looks at
old ones again. Memory stays the same, for what is in no circle goes as soon as nobody holds it.

The settings are the process's own: they are as they were when the run is over, however it ends.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NEW_OBJECTS: Final = 100_000
_ROUNDS: Final = 20
"""How many looks at younger objects come before one at older ones."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """For a piece of work that makes objects which stay."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _NEW_OBJECTS) if before[0] else 0, *(max(each, _ROUNDS) for each in before[1:]))
    try:
        yield
    finally:
        gc.set_threshold(*before)
