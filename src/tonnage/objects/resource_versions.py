"""resourceVersion as a number.

To a client a resourceVersion is text; since Kubernetes 1.35 (KEP-5504) it may rely on those of one resource being
decimal numbers that grow with every write. `revision_of` is that number for whoever compares two states of an object
and can live with one that cannot be compared: it counts as the oldest. `parse_revision` is for a server, which tells
its clients.
"""

from __future__ import annotations


class InvalidRevision(ValueError):
    """A resourceVersion that is no number; the message is the one of Go's strconv."""

    def __init__(self, text: str) -> None:
        super().__init__(f'strconv.ParseUint: parsing "{text}": invalid syntax')


def parse_revision(text: str) -> int:
    """The number of a resourceVersion; empty is 0. Raises InvalidRevision."""
    if text and not (text.isascii() and text.isdigit()):
        raise InvalidRevision(text)
    return int(text or "0")


def revision_of(text: str) -> int:
    """The number of a resourceVersion, 0 for none and for one that is no number."""
    return int(text) if text.isascii() and text.isdigit() else 0
