"""JSON values as Go prints them, for the few error messages of upstream that show a value raw.

`map[image:nginx name:web]` looks odd in a Python program, but it is what people search for. Most messages quote values
as JSON instead; that is `fielderrors.go_value`.
"""

from __future__ import annotations

import json
from typing import Any


def plain(value: Any) -> str:
    """As %v prints it: text bare, lists in brackets, maps sorted by key."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{plain(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(plain, value)) + "]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def literal(value: Any) -> str:
    """As %#v prints it: Go source."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(key)}:{literal(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{inside}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(literal, value))}}}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return plain(value)


def type_name(value: Any) -> str:
    """As %T prints it."""
    if value is None:
        return "<nil>"
    names = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool", int: "int64"}
    return names.get(type(value), "float64")
