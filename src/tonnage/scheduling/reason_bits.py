"""Reasons as bits: how a judgement says in one integer which of its reasons hold against a node.

There is room for 63. A plugin that words its reasons by node may have thousands; those that find no room go by one
name together, so that a node is never let in because its reason had no bit.
"""

from __future__ import annotations

from collections.abc import Iterable

MAX_REASONS = 63
"""A judgement names at most so many reasons: they are the bits of an integer."""
SEARCH_ENDED = "node(s) may have enough free storage, but the search for it ended at its limit of steps"
"""Not a refusal for good: whoever is told this is tried again, and the search goes on where it ended."""

OTHER_REASONS = "node(s) were refused for other reasons"
"""Stands for those that found no room among them."""


def with_reasons(known: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    """Reasons with more appended, each once. When there is no room left, `OTHER_REASONS` stands for the rest."""
    found = dict.fromkeys(known)
    for reason in more:
        if reason not in found:
            found[reason if len(found) < MAX_REASONS - 1 else OTHER_REASONS] = None
    return tuple(found)


def reason_place(reasons: tuple[str, ...], reason: str) -> int:
    """Which bit a reason has."""
    return reasons.index(reason if reason in reasons else OTHER_REASONS)
