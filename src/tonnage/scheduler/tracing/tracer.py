"""The seam between what is traced and how it gets to a collector. Times are seconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

Attribute = str | int | float | bool
Attributes = Mapping[str, Attribute]


class Span(Protocol):
    """Something that took time."""

    @property
    def is_recording(self) -> bool:
        """Whether anybody will see it: most pods are not sampled, and nothing need be worked out for them."""
        ...

    def child(self, name: str, start_s: float, attributes: Attributes) -> Span: ...

    def end(self, end_s: float, attributes: Attributes | None = None, error: str = "") -> None:
        """It is over. With an `error` it failed."""
        ...


class Tracer(Protocol):
    def start(self, name: str, start_s: float, attributes: Attributes) -> Span:
        """Begin a trace of its own."""
        ...

    def close(self) -> None:
        """Send what was not sent yet, within some seconds."""
        ...
