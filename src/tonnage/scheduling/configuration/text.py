"""From a configuration file's text to a plain document: YAML or JSON, read the way kube-scheduler reads it.

A text that starts with `{` is JSON, everything else YAML, of which the first document counts. Two things differ from
what PyYAML does by itself:

- Scalars mean what they mean to Go's YAML: `y` and `on` are true, `1e3`, `08` and `0o17` are numbers, `1:30` and dates
  are text. A file that works there must not mean something else here.
- A field that stands twice in one map is a problem with its path and lines; merged keys (`<<`) count as standing there.

What fields mean is `configuration_reading`'s affair.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple, NoReturn

import yaml

from tonnage.objects.yaml_text import meaning
from tonnage.scheduling.configuration.errors import Problem, Problems


class _Entry(NamedTuple):
    key: str
    value: Any
    line: int = 0
    """From 1; 0 when unknown."""


class _Entries(list[_Entry]):
    """A map with its keys in order, before it is known that each stands there once."""


def document_of(text: str, problems: Problems, notes: list[str]) -> Any:
    """The document in a text: dicts with text keys, lists, text, numbers, truth values and None."""
    try:
        return _settled(_from_json(text) if text.lstrip()[:1] == "{" else _from_yaml(text, notes), "", problems)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        problems.append(Problem("", None, f"yaml: {where}{exc.problem or exc.context}", "correct the YAML there"))
    except yaml.YAMLError as exc:
        problems.append(Problem("", None, f"yaml: {' '.join(str(exc).split())}", "save the file as UTF-8 text"))
    except json.JSONDecodeError as exc:
        remedy = "correct the JSON there, or take the braces away to write YAML"
        problems.append(Problem("", None, f"json: line {exc.lineno} column {exc.colno}: {exc.msg}", remedy))
    except RecursionError:
        problems.append(Problem("", None, "maps and lists are nested too deeply to be read", "flatten the file"))
    return None


def _settled(value: Any, path: str, problems: Problems) -> Any:
    """The same with entries as dicts; the last of several values of one field stands."""
    if isinstance(value, _Entries):
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

    def entries(pairs: list[tuple[str, Any]]) -> _Entries:
        return _Entries(_Entry(key, value) for key, value in pairs)

    return json.loads(text, object_pairs_hook=entries, parse_constant=constant)


# -- YAML --------------------------------------------------------------------------------------------------------------

_PLAIN = "tonnage:plain"
"""Tag of a scalar without quotes and without a tag of its own: its text says what it is."""
_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.BaseLoader):
    """Leaves it to us what scalars mean, and allows tabs between a colon and a value."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        return _PLAIN if kind is yaml.ScalarNode and implicit[0] else f"{_TAG}str"

    def scan_to_next_token(self) -> None:
        super().scan_to_next_token()
        # A tab may not indent, so it is passed over only where no field can begin. PyYAML refuses it everywhere.
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()


def _from_yaml(text: str, notes: list[str]) -> Any:
    loader = _Loader(text.removeprefix("\ufeff"))
    try:
        node = loader.get_node() if loader.check_node() else None
        if node is None:
            return None
        if _is_followed(loader):
            notes.append("only the first YAML document is read; what follows it has no effect")
        return _value(node, ())
    finally:
        loader.dispose()


def _is_followed(loader: _Loader) -> bool:
    """Whether another document follows; what is in it, even broken YAML, is nobody's affair."""
    try:
        return bool(loader.check_node())
    except yaml.YAMLError:
        return True


def _value(node: yaml.Node, around: tuple[yaml.Node, ...]) -> Any:
    if node in around:
        raise yaml.MarkedYAMLError(problem="an anchor's value contains itself", problem_mark=node.start_mark)
    if isinstance(node, yaml.MappingNode):
        return _entries(node, (*around, node))
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*around, node)) for item in node.value]
    return _scalar(node)


def _entries(node: yaml.MappingNode, around: tuple[yaml.Node, ...]) -> _Entries:
    found = _Entries()
    for key, item in node.value:
        if key.tag in (_PLAIN, f"{_TAG}merge") and key.value == "<<":
            for merged in item.value if isinstance(item, yaml.SequenceNode) else [item]:
                if not isinstance(merged, yaml.MappingNode):
                    told = "map merge requires map or sequence of maps as the value"
                    raise yaml.MarkedYAMLError(problem=told, problem_mark=item.start_mark)
                found += _entries(merged, (*around, merged))
        else:
            found.append(_Entry(_key(key), _value(item, around), key.start_mark.line + 1))
    return found


def _key(node: yaml.Node) -> str:
    name = _scalar(node) if isinstance(node, yaml.ScalarNode) else None
    if name is None:
        raise yaml.MarkedYAMLError(problem="a field's name is text", problem_mark=node.start_mark)
    return str(name).lower() if isinstance(name, bool) else str(name)


def _scalar(node: yaml.Node) -> Any:
    text = node.value
    if node.tag == _PLAIN:
        value = meaning(text)
    elif node.tag in _EXPLICIT:
        value = meaning(text)
        if not isinstance(value, _EXPLICIT[node.tag]) or (isinstance(value, bool) != node.tag.endswith("bool")):
            told = f"cannot decode `{text}` as a !!{node.tag.removeprefix(_TAG)}"
            raise yaml.MarkedYAMLError(problem=told, problem_mark=node.start_mark)
    else:
        return text
    if isinstance(value, float):
        if not math.isfinite(value):
            raise yaml.MarkedYAMLError(problem=f"unsupported value: {text}", problem_mark=node.start_mark)
        return int(value) if value.is_integer() and abs(value) < 1e21 else value  # Go writes 16.0 as 16
    return value


_EXPLICIT: dict[str, type | tuple[type, ...]] = {
    f"{_TAG}bool": bool,
    f"{_TAG}int": int,
    f"{_TAG}float": (int, float),
    f"{_TAG}null": type(None),
}
