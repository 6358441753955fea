"""Stored documents that nest more deeply than is accepted now: found, and made fit to be read, changed and deleted.

Earlier versions took values of any shape (managedFields, parameters of devices) as deep as Python's stack allowed, and
then could not touch the object again. What lies below the limit is taken out of such a document, once, when a server
starts; from then on every walk over it ends.
"""

from __future__ import annotations

from typing import Any

from tonnage.objects.document import Doc
from tonnage.objects.texts.decode_budget import MAX_DEPTH, Budget, BudgetExceeded, Limits
from tonnage.objects.texts.json_text import measure

_ANY_SIZE = 1 << 62


def is_too_deep(document: bytes) -> bool:
    """Does a stored document nest beyond the limit? A few counts for nearly every one."""
    try:
        measure(document, Budget(Limits(values=_ANY_SIZE, text_bytes=_ANY_SIZE)))
    except BudgetExceeded:
        return True
    return False


def cut_to_depth(doc: Doc, depth: int = MAX_DEPTH) -> None:
    """Take out, in place, every map and list that lies deeper than so many levels. Needs no stack."""
    level: list[Any] = [doc]
    for _ in range(depth - 1):
        level = [item for around in level for item in _items(around) if isinstance(item, (dict, list))]
    for innermost in level:
        if isinstance(innermost, dict):
            for key in [key for key, item in innermost.items() if isinstance(item, (dict, list))]:
                del innermost[key]
        else:
            innermost[:] = [item for item in innermost if not isinstance(item, (dict, list))]


def _items(around: Any) -> Any:
    return around.values() if isinstance(around, dict) else around
