"""An object as the API server holds it: the whole JSON document, as plain dicts and lists.

An admitted document has no `null` (`admit` drops it, as a Go server would), and no empty maps and lists in optional
fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tonnage.objects.texts.json_text import shallow

Doc = dict[str, Any]
encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
_decode: Callable[[bytes | str], Any] = msgspec.json.Decoder().decode


def decode(text: bytes) -> Any:
    """JSON to plain dicts and lists. Invalid UTF-8 becomes U+FFFD, levels that are too deep are left out.

    Raises msgspec.DecodeError. For texts of clients there is `texts/json_text`.
    """
    try:
        return _decode(text)
    except UnicodeDecodeError:
        return _decode(text.decode(errors="replace"))
    except RecursionError:
        return _decode(shallow(text).decode(errors="replace"))


def copy(value: Any) -> Any:
    """A deep copy of JSON data; several times faster than copy.deepcopy, which must expect cycles and classes."""
    if isinstance(value, dict):
        return {key: copy(item) if isinstance(item, (dict, list)) else item for key, item in value.items()}
    if isinstance(value, list):
        return [copy(item) if isinstance(item, (dict, list)) else item for item in value]
    return value


def keys_in(value: Any) -> int:
    """How many keys a value has, at every depth. Strict decoding compares them with the colons of a text."""
    count, pending = 0, [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            count += len(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return count


def dig(doc: Doc, *path: str) -> Any:
    """The value at a path of field names; None if a step is missing."""
    value: Any = doc
    for step in path:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def same(left: Any, right: Any) -> bool:
    """Equality by upstream's semantic comparison: a missing field equals an empty map or list."""
    if isinstance(left, dict) and isinstance(right, dict):
        return all(same(left.get(key), right.get(key)) for key in left.keys() | right.keys())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if left is None or right is None:
        other = right if left is None else left
        return other is None or (isinstance(other, (dict, list)) and not other)
    return bool(left == right)
