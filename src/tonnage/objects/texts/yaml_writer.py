"""JSON data as YAML in block form: sorted keys, texts unquoted where no reader takes them for another type.

PyYAML's own writer takes a second for a hundred kilobytes, and its C form holds the GIL for as long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*(?:[:@][A-Za-z0-9_./-]+)*")
_WORDS = frozenset({"y", "n", "yes", "no", "true", "false", "on", "off", "null", "none", "nan", "inf"})
"""Words that some reader takes for a boolean, null or a number."""
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_MAX_KEY_CHARS = 1000
"""YAML searches so far for the colon (1024); longer keys need a `?` in front."""


def write_yaml(value: Any) -> str:
    """A JSON value as a YAML document, with a line break at its end."""
    return "".join(yaml_pieces(value))


def yaml_pieces(value: Any) -> Iterator[str]:
    if isinstance(value, (dict, list)) and value:
        yield from _block(value, "")
    else:
        yield f"{_scalar(value)}\n"


def _block(value: dict[str, Any] | list[Any], indent: str) -> Iterator[str]:
    """A map or list that is not empty, every line indented by `indent`."""
    if isinstance(value, dict):
        for key in sorted(value):
            name = _text(key)
            head = f"{indent}{name}:" if len(name) <= _MAX_KEY_CHARS else f"{indent}? {name}\n{indent}:"
            yield from _entry(head, value[key], indent)
        return
    for item in value:
        if isinstance(item, dict) and item:
            # The first key stands behind the dash, the others below it.
            lines = _block(item, f"{indent}  ")
            yield f"{indent}- {next(lines)[len(indent) + 2 :]}"
            yield from lines
        elif isinstance(item, list) and item:
            yield f"{indent}-\n"
            yield from _block(item, f"{indent}  ")
        else:
            yield f"{indent}- {_scalar(item)}\n"


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        yield f"{head}\n"
        yield from _block(value, f"{indent}  ")
    elif isinstance(value, list) and value:
        yield f"{head}\n"
        yield from _block(value, indent)
    else:
        yield f"{head} {_scalar(value)}\n"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        text = repr(value)
        return text if "." in text or "e" not in text else text.replace("e", ".0e")  # else YAML reads text
    return json.dumps(value)  # numbers, booleans, null, {} and []


def _text(text: str) -> str:
    if len(text) < 1000 and _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
