"""How many examples a property is tried with.

    @settings(max_examples=tries(150), deadline=None)

`make test` draws the same examples every time, so that more of them find what they have found before: it tries a third.
`make test-all` (TONNAGE_ALL_EXAMPLES) tries all, and so does `make properties` (TONNAGE_RANDOM_EXAMPLES), which draws
others every time.
"""

from __future__ import annotations

import os
from typing import Final

ALL_EXAMPLES: Final = ("TONNAGE_ALL_EXAMPLES", "TONNAGE_RANDOM_EXAMPLES")
FEW: Final = 12
"""Who has not more than that is costly, and has been given few already."""


def tries(examples: int) -> int:
    """All of them where they are asked for, else a third, but not fewer than a few."""
    wants_all = any(os.environ.get(each) for each in ALL_EXAMPLES)
    return examples if wants_all else max(examples // 3, min(examples, FEW))
