"""From a configuration file's text to a plain document: YAML or JSON, read the way kube-scheduler reads it.

A text that starts with `{` is JSON, everything else YAML, of which the first document counts
(`objects/texts/yaml_text`). A field that stands twice in one map is a problem with its path and lines; merged keys
(`<<`) count as standing there.

What fields mean is `strict_decoding`'s affair.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from tonnage.objects.texts.decode_budget import MAX_DEPTH, Budget, BudgetExceeded, file_limits
from tonnage.objects.texts.json_text import measure
from tonnage.objects.texts.yaml_text import ExcessiveYaml, InvalidYaml, YamlEntries, YamlEntry, first_document
from tonnage.scheduling.configuration.strict_decoding import Problem, Problems

_MAX_DIGITS = 100
"""Of a number in JSON; those of any use have fewer than twenty."""


def document_of(text: str, problems: Problems, notes: list[str]) -> Any:
    """The document in a text: dicts with text keys, lists, text, numbers, truth values and None."""
    try:
        return _settled(_from_json(text) if text.lstrip()[:1] == "{" else _from_yaml(text, notes), "", problems)
    except (BudgetExceeded, ExcessiveYaml) as exc:
        exceeded = exc.exceeded if isinstance(exc, ExcessiveYaml) else exc
        remedy = "flatten the file" if exceeded.is_depth else "write out what its aliases stand for"
        problems.append(Problem("", None, exc.message, remedy))
    except InvalidYaml as exc:
        remedy = "correct the YAML there" if exc.line else "save the file as UTF-8 text"
        problems.append(Problem("", None, exc.message, remedy))
    except json.JSONDecodeError as exc:
        remedy = "correct the JSON there, or take the braces away to write YAML"
        problems.append(Problem("", None, f"json: line {exc.lineno} column {exc.colno}: {exc.msg}", remedy))
    return None


def _settled(value: Any, path: str, problems: Problems) -> Any:
    """The same with entries as dicts; the last of several values of one field stands."""
    if isinstance(value, YamlEntries):
        first_at: dict[str, int] = {}
        settled: dict[str, Any] = {}
        for name, item, line in value:
            key = _whole(name)
            where = f"{path}.{key}" if path else key
            if key in settled:
                lines = f"lines {first_at[key]} and {line}" if line != first_at[key] else f"line {line}"
                told = f'duplicate field "{where}"' + (f" ({lines})" if line else "")
                problems.append(Problem(where, item, told, f"leave one {key} there"))
            first_at.setdefault(key, line)
            settled[key] = _settled(item, where, problems)
        return settled
    if isinstance(value, list):
        return [_settled(item, f"{path}[{position}]", problems) for position, item in enumerate(value)]
    return _whole(value) if isinstance(value, str) else value


def _whole(text: str) -> str:
    """Text that can be written again: half a surrogate pair, which escapes can spell, becomes the replacement sign."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _from_json(text: str) -> Any:
    def constant(name: str) -> NoReturn:
        raise json.JSONDecodeError(f"{name} is not JSON", text, max(text.find(name), 0))

    def entries(pairs: list[tuple[str, Any]]) -> YamlEntries:
        return YamlEntries(YamlEntry(key, value) for key, value in pairs)

    def integer(digits: str) -> int:
        if len(digits) > _MAX_DIGITS:
            raise json.JSONDecodeError(f"a number of {len(digits)} digits", text, max(text.find(digits), 0))
        return int(digits)

    data = text.encode(errors="surrogatepass")
    measure(data, Budget(file_limits(len(data))))
    try:
        return json.loads(text, object_pairs_hook=entries, parse_constant=constant, parse_int=integer)
    except RecursionError:  # brackets that are not balanced cannot be measured
        raise BudgetExceeded("depth", MAX_DEPTH) from None


def _from_yaml(text: str, notes: list[str]) -> Any:
    found, is_followed = first_document(text)
    if is_followed:
        notes.append("only the first YAML document is read; what follows it has no effect")
    return found
