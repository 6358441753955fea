"""resourceVersion as a number.

To a client a resourceVersion is text; since Kubernetes 1.35 (KEP-5504) it may rely on those of one resource being
decimal numbers that grow with every write. `revision_of` is that number for whoever compares two states of an object
and can live with one that cannot be compared: it counts as the oldest. `parse_revision` is for a server, which tells
its clients.
"""

from __future__ import annotations


class InvalidRevision(ValueError):
    """A resourceVersion that is no number of 64 bits; the message is the one of Go's strconv."""

    def __init__(self, text: str) -> None:
        why = "value out of range" if _is_decimal(text) else "invalid syntax"
        super().__init__(f'strconv.ParseUint: parsing "{text}": {why}')


def parse_revision(text: str) -> int:
    """The number of a resourceVersion; empty is 0. Raises InvalidRevision."""
    if text and not (_is_decimal(text) and len(text) <= _MAX_DIGITS and int(text) < 1 << 64):
        raise InvalidRevision(text)
    return int(text or "0")


def revision_of(text: str) -> int:
    """The number of a resourceVersion, 0 for none and for one that is no number, or none that anybody counts to."""
    return int(text) if _is_decimal(text) and len(text) <= _MAX_DIGITS else 0


_MAX_DIGITS = 1_000
"""Reading a number takes longer than its text does, and Python itself refuses beyond 4,300 digits."""


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdigit()
