"""Keys that a map of YAML has twice, told as upstream's strict reader tells them.

    a: 1
    a: 2        -> line 2: key "a" already set in map

The reader that everybody uses lets the last one stand. Finding the others takes a slow second reading, which is made
only of texts that have more colons than keys, and are not long.
"""

from __future__ import annotations

from typing import Any, Final

from tonnage.objects.texts.yaml_text import ExcessiveYaml, InvalidYaml, YamlEntries, first_document

_MAX_CHARS: Final = 128 * 1024
"""Longer texts are not looked at: reading them again would take longer than all the rest."""


def duplicate_keys(text: str, value: Any) -> list[str]:
    """A sentence for each key of the first document that was there before. `value` is that document, already read."""
    if len(text) > _MAX_CHARS or text.count(":") <= _keys_in(value):
        return []
    try:
        found, _ = first_document(text)
    except (InvalidYaml, ExcessiveYaml):  # the other reader had nothing against it
        return []
    told: list[str] = []
    pending: list[Any] = [found]
    while pending:
        item = pending.pop()
        if isinstance(item, YamlEntries):
            seen: set[str] = set()
            for key, _, line in item:
                if key in seen:
                    told.append(f'line {line}: key "{key}" already set in map')
                seen.add(key)
            pending += [entry.value for entry in reversed(item)]
        elif isinstance(item, list):
            pending += reversed(item)
    return told


def _keys_in(value: Any) -> int:
    count, pending = 0, [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            count += len(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return count
