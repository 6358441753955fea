"""How often a wrong token is answered as such: ten times at once, then once in a second, for all who try together.

Everybody on a machine has the same address, so that nobody is counted alone. It holds up nobody who shows the right
token, or a cookie that was given for it: what keeps guesses out is that a token has at least sixteen characters.
"""

from __future__ import annotations

from typing import Final

from tonnage.clock import Clock

AT_ONCE: Final = 10
EVERY_S: Final = 1.0


class Attempts:
    """Wrong tokens that may still be tried now: a bucket that fills up again with time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = float(AT_ONCE)
        self._at = clock.monotonic()

    def wait_s(self) -> float:
        """How long until a token is looked at again; 0 is now."""
        now = self._clock.monotonic()
        self._left = min(AT_ONCE, self._left + (now - self._at) / EVERY_S)
        self._at = now
        return max(0.0, (1.0 - self._left) * EVERY_S)

    def failed(self) -> None:
        """A token was wrong."""
        self._left -= 1.0
