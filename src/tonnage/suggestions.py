"""What a person may have meant by a name that does not exist: the known names that are spelled most like it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, known: Iterable[str], *, most: int = 1) -> list[str]:
    """The known names nearest to `name`, the nearest first; capitals do not count."""
    by_lower = {each.lower(): each for each in known}
    return [by_lower[each] for each in get_close_matches(name.lower(), by_lower, n=most)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean "filter"?`, or nothing when no known name is near."""
    return "".join(f'did you mean "{each}"?' for each in closest(name, known))
