"""Which events are worth a write of their own: client-go's EventAggregator and EventSourceObjectSpamFilter.

    similar events (same object, type, reason; other words)   from the tenth within ten minutes on they become one:
                                                              "(combined from similar events): …", which is counted
    one object that is spoken of again and again              25 at once, then one in five minutes

Pure but for the clock's reading that is handed in. Numbers are client-go's. What it forgets when it remembers too much
is what was not heard of for the longest time. `expire` forgets what makes no difference any more: most objects are gone
when their events are, and a program that runs for long has written of very many.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

MAX_SIMILAR: Final = 10
SIMILAR_WITHIN_S: Final = 600.0
SPAM_BURST: Final = 25
SPAM_REFILL_S: Final = 300.0
MAX_REMEMBERED: Final = 4096
COMBINED: Final = "(combined from similar events): "


@dataclass(slots=True)
class _Similar:
    notes: dict[str, None] = field(default_factory=dict)
    last_at: float = 0.0


class EventAggregator:
    """Combines events that say much the same of one object."""

    def __init__(self) -> None:
        self._similar: OrderedDict[Hashable, _Similar] = OrderedDict()

    def is_combined(self, about: Hashable, note: str, now_s: float) -> bool:
        """Whether an event goes into the combined one. `about` is what similar events share."""
        found = self._similar.get(about)
        if found is None:
            found = self._similar[about] = _Similar()
            if len(self._similar) > MAX_REMEMBERED:
                self._similar.popitem(last=False)
        elif now_s - found.last_at > SIMILAR_WITHIN_S:
            found.notes.clear()
        self._similar.move_to_end(about)
        found.last_at = now_s
        found.notes[note] = None
        if len(found.notes) < MAX_SIMILAR:
            return False
        del found.notes[next(iter(found.notes))]  # keeps the list at its length
        return True

    def expire(self, now_s: float) -> None:
        """Forget objects whose next event would begin a new list."""
        for about, similar in tuple(self._similar.items()):
            if now_s - similar.last_at > SIMILAR_WITHIN_S:
                del self._similar[about]


@dataclass(slots=True)
class _Allowance:
    tokens: float
    filled_at: float


class SpamFilter:
    """Limits how many events are written about one object."""

    def __init__(self) -> None:
        self._allowances: OrderedDict[Hashable, _Allowance] = OrderedDict()

    def is_spam(self, about: Hashable, now_s: float) -> bool:
        """Count one more event about an object; whether it is one too many."""
        found = self._allowances.get(about)
        if found is None:
            found = self._allowances[about] = _Allowance(float(SPAM_BURST), now_s)
            if len(self._allowances) > MAX_REMEMBERED:
                self._allowances.popitem(last=False)
        self._allowances.move_to_end(about)
        found.tokens = min(found.tokens + (now_s - found.filled_at) / SPAM_REFILL_S, float(SPAM_BURST))
        found.filled_at = now_s
        if found.tokens < 1.0:
            return True
        found.tokens -= 1.0
        return False

    def expire(self, now_s: float) -> None:
        """Forget objects that have their whole allowance again."""
        for about, allowance in tuple(self._allowances.items()):
            if allowance.tokens + (now_s - allowance.filled_at) / SPAM_REFILL_S >= SPAM_BURST:
                del self._allowances[about]
