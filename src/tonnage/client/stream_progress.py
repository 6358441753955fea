"""How far an informer has come, in the server's versions: for whoever puts the news of several in one order.

Informers follow their kinds apart from one another. After a cut one is back before another, and what it tells may be
about objects that the other has not heard of yet. Versions that are numbers tell which came first.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StreamProgress:
    """Of one informer. Versions that are no numbers count as 0, which is no version."""

    reached: int = 0
    """All that happened to its kind up to this version has been told."""
    telling: int = 0
    """The version of what handlers are being called for; of a state that was fetched, that of the state."""
    gap: tuple[int, int] = (0, 0)
    """The last state that was fetched: what happened after the first version, up to the second, was told as one
    change. From 0: nothing before it is known."""
    open_since_s: float | None = None
    """When the present stream began, by the client's clock; None while there is none."""
    has_spoken: bool = False
    """The present stream has brought something."""

    def opened(self, now_s: float) -> None:
        self.open_since_s, self.has_spoken = now_s, False

    def closed(self) -> None:
        self.open_since_s = None

    def fetched(self, version: int, *, rewound: bool) -> None:
        """A whole state is about to be told; `rewound`: it is older than what was known."""
        self.gap = (0 if rewound else self.reached, version)
        self.telling = version

    def came_to(self, version: int) -> None:
        """Everything up to this version is told; 0 says nothing."""
        self.reached = version or self.reached
