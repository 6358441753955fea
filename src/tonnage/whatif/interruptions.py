"""Questions that end before their time: by Ctrl-C, or because whoever asked waits no longer.

try:
    ...                       # long work that calls `step` now and then, which may raise
except INTERRUPTIONS:
    ...                       # what is known by then is the answer, and says that it is partial
"""

from __future__ import annotations

from typing import Final


class OutOfTime(Exception):
    """Nobody waits any longer. Raised by the `step` of whoever asks, not by the work itself."""


INTERRUPTIONS: Final = (KeyboardInterrupt, OutOfTime)
