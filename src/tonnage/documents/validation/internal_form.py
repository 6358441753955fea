"""Parts of objects in upstream's in-memory form, as its messages show them.

When Kubernetes refuses a change of a whole struct, it prints the struct (or a diff) with the field names of its
internal types: every field in the order of declaration, `ReadOnly: false` and `FSType: ""` where the document has
nothing. Tools and people compare these messages. `unchanged` compares in the same form: an absent field equals its
zero, unless the type distinguishes them. The types stand in `schemas/internal_types.shapes`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from tonnage.objects.document import Doc, dig, same
from tonnage.quantity import Quantity

MAX_DIFF_LINES = 4_000
"""Of both sides together: a diff is quadratic in its lines. Beyond, only the first differing lines are shown."""
_CONTEXT_LINES = 3
_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)", re.MULTILINE)
_FIELD = re.compile(r"(\w+)(?::(\w+)|\?(\w*)|\.(\w+)|\[(\w+)\])?(?:=(\w+))?")
_ZERO = {"bool": False, "int": 0}


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    key: str
    zero: Any
    shape: str = ""
    is_list: bool = False
    is_always: bool = False


def internal(shape: str, value: Any) -> Any:
    """A part of a document as upstream's type `shape` would print it; quantities in canonical form."""
    return _formed(shape, value, str)


def diff(shape: str, old: Any, new: Any) -> str:
    """Upstream's diff of two structs: a unified diff of their printed forms, without its two head lines."""
    before, after = (
        [f"{line}\n" for line in json.dumps(internal(shape, each), indent=1, ensure_ascii=False).split("\n")]
        for each in (old, new)
    )
    start, more = 0, 0
    if len(before) + len(after) > MAX_DIFF_LINES:
        differing = (place for place, (one, other) in enumerate(zip(before, after, strict=False)) if one != other)
        start = max(0, next(differing, min(len(before), len(after))) - _CONTEXT_LINES)
        more = max(len(before), len(after)) - start - MAX_DIFF_LINES // 2
        before, after = (lines[start : start + MAX_DIFF_LINES // 2] for lines in (before, after))
    told = "".join(list(difflib.unified_diff(before, after, n=_CONTEXT_LINES))[2:])
    if start:
        told = _HUNK.sub(lambda found: f"@@ -{int(found[1]) + start}{found[2] or ''} +{int(found[3]) + start}", told)
    return told + (f"... and up to {more} more lines\n" if more > 0 else "")


def unchanged(shape: str, new: Any, old: Any) -> bool:
    """True if upstream considers both parts equal. Empty lists and maps equal none, `1Gi` equals `1024Mi`."""
    one, other = (_pruned(_formed(shape, each, lambda quantity: quantity)) for each in (new, old))
    return bool(one == other)


def _formed(shape: str, value: Any, amount: Callable[[Quantity], Any]) -> Any:
    if value is None:
        return None
    if shape == "LabelSelector":  # a type of the wire, printed with its wire names
        expressions = [
            {key: requirement[key] for key in ("key", "operator", "values") if key in requirement}
            for requirement in value.get("matchExpressions", [])
        ]
        labels = _formed("Map", value.get("matchLabels", {}), amount)
        return ({"matchLabels": labels} if labels else {}) | ({"matchExpressions": expressions} if expressions else {})
    if shape == "Map":
        return {key: value[key] for key in sorted(value)}
    if shape == "ResourceList":
        return {key: amount(Quantity.of(value[key])) for key in sorted(value)}
    by_key = {key.lower(): item for key, item in value.items()}
    shown: Doc = {}
    for field in _shapes()[shape]:
        found = by_key.get(field.key)
        if found is None:
            shown[field.name] = _formed(field.shape, {}, amount) if field.is_always else field.zero
        elif field.is_list:
            shown[field.name] = [_formed(field.shape, item, amount) for item in found]
        else:
            shown[field.name] = _formed(field.shape, found, amount) if field.shape else found
    return shown


def _pruned(value: Any) -> Any:
    """The value without nulls and empty lists; an empty struct stays, because it differs from none."""
    if isinstance(value, dict):
        return {key: _pruned(item) for key, item in value.items() if item is not None and item != []}
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    return value


@cache
def _shapes() -> dict[str, list[_Field]]:
    text = (files("tonnage.documents") / "schemas" / "internal_types.shapes").read_text()
    shapes: dict[str, list[_Field]] = {}
    for line in text.replace("\n ", " ").splitlines():
        if not line.startswith("#"):
            name, *words = line.split()
            parts = (shapes[word[1:]] if word.startswith("*") else [_field(word)] for word in words)
            shapes[name] = [field for part in parts for field in part]
    return shapes


def _field(word: str) -> _Field:
    found = _FIELD.fullmatch(word)
    assert found is not None, word
    name, scalar, optional, always, item, key = found.groups()
    zero: Any = None if optional is not None or item is not None else _ZERO.get(scalar or "", "")
    return _Field(
        name,
        key=(key or name).lower(),
        zero=zero,
        shape=optional or always or item or "",
        is_list=item is not None,
        is_always=always is not None,
    )


# Go escapes these three in JSON, for the sake of browsers.
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&"}
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")


def pod_spec_unchanged(new: Doc, old: Doc) -> bool:
    if new == old:  # nearly always, and a thousand times cheaper
        return True
    if not unchanged("PodSpec", _gathered(new), _gathered(old)):
        return False
    return same(_template_metadata(new), _template_metadata(old))


def pod_spec_diff(old: Doc, new: Doc) -> str:
    """The difference of two specs as upstream prints it: a unified diff with the names of its internal types."""
    return diff("PodSpec", _gathered(old), _gathered(new)).translate(_ESCAPED)


def _gathered(spec: Doc) -> Doc:
    host = {field: spec[field] for field in _HOST_FIELDS if field in spec}
    return {**spec, "securityContext": {**spec.get("securityContext", {}), **host}}


def _template_metadata(spec: Doc) -> list[Doc]:
    """Labels and annotations of ephemeral claims: upstream embeds them in the template, which no shape can express."""
    volumes = spec.get("volumes", [])
    return [dig(volume, "ephemeral", "volumeClaimTemplate", "metadata") or {} for volume in volumes]
