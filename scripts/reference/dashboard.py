"""The dashboard's JSON: endpoints from the routes and their module's docstring, rows from `dashboard/wire.py`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from reference import table
from tonnage.dashboard import wire
from tonnage.dashboard.server import routes
from tonnage.dashboard.server.access import ASKED_BY

HEAD = """\
# The dashboard's JSON

What `tonnage dashboard` serves to its page can be read by scripts too: version `{version}`, as `/api/{version}/about` says. Fields
may be added within a version; those that are here stay, and mean what they mean. It reads with the rights of the kubeconfig's user.

```
curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8080/api/{version}/state
```

The token is the one in the address that it prints, or that of `--token-file`. An error is `{{"error": …, "hint": …}}` with a
status of 4xx or 5xx, in the words of the command line. What is not a GET carries the header `{header}`, with any value.

"""

CHANGES = """\
## The state and its changes

`/api/{version}/state` is one message, and so is each event of `/api/{version}/changes` (server-sent events, `event: change`):

```json
{{"revision": 17, "at": "3f2a09c1-17", "set": {{"nodes": {{"node-1": {{"name": "node-1", "pods": 3}}}}}}, "gone": {{"pods": ["shop/db-0"]}}}}
```

`set` has rows by collection and key, whole, as they are now; `gone` has keys of rows that are not any more. The first message has
`"state": true` and every row: what was known before is to be forgotten. A reader that is slow is told of a row once, as it is when it
next reads. Fields that have their default are left out. Sizes are bytes, instants RFC 3339. Names and messages are the cluster's own,
and no markup.

Whoever has read a message, from `/api/{version}/state` or before a connection was cut, goes on with
`/api/{version}/changes?since=AT`, the message's `at`: the first event tells what changed since. Where that is not known any more
(long ago, or the dashboard was started again) the one event is `anew`, and the state is to be read again. An EventSource that
connects again by itself (`Last-Event-ID`) gets one or the other without being asked. `alive` comes every five seconds
in which nothing changes: a stream without a word for longer leads nowhere.
"""

_ROUTE = re.compile(r"^(GET|POST|DELETE) +(\S+) +(.+)$")


def page() -> str:
    parts = [HEAD.format(version=wire.VERSION, header=ASKED_BY) + "## Endpoints\n\n" + _endpoints()]
    parts.append(CHANGES.format(version=wire.VERSION).rstrip())
    described, classes = _collections(), _classes()
    listed: list[tuple[object, ...]] = [
        (f"`{name}`", f"[{kind.__name__}](#{kind.__name__.lower()})", described[name])
        for name, kind in wire.COLLECTIONS.items()
    ]
    parts.append("## Collections\n\n" + table(("collection", "rows", "by key"), listed))
    parts += [_row(classes[name]) for name in _in_order(classes)]
    return "\n\n".join(parts)


def _endpoints() -> str:
    found: list[tuple[object, ...]] = []
    tree = ast.parse(Path(routes.__file__).read_text("utf-8"))
    told = dict(_told(ast.get_docstring(tree) or ""))
    for method, route in _added(tree):
        if (method, route) not in told:
            raise SystemExit(f"{routes.__file__}: its docstring does not say what {method} {route} is")
        found.append((f"`{method}`", f"`{route}`", told[method, route]))
    return table(("", "path", "what it takes or answers"), found)


def _told(text: str) -> Iterator[tuple[tuple[str, str], str]]:
    for line in text.splitlines():
        if match := _ROUTE.match(line):
            method, path, meaning = match.groups()
            asked = path.partition("?")[2]
            meaning = re.sub(r"(\{.*\})", r"`\1`", meaning)
            yield (method, path.partition("?")[0]), f"`?{asked}`: {meaning}" if asked else meaning


def _added(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The routes that a module adds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add":
            method, path, *_ = node.args
            if isinstance(method, ast.Constant) and isinstance(path, ast.Constant):
                yield str(method.value), str(path.value)


def _collections() -> dict[str, str]:
    """What the table in the module's docstring says of each collection."""
    lines = [line.strip() for line in (wire.__doc__ or "").splitlines() if line.startswith("    ")]
    return {line.split()[0]: ": ".join(re.split("  +", line)[1:]) for line in lines}


def _classes() -> dict[str, ast.ClassDef]:
    tree = ast.parse(Path(wire.__file__).read_text("utf-8"))
    classes = [each for each in tree.body if isinstance(each, ast.ClassDef)]
    return {each.name: each for each in classes if [ast.unparse(base) for base in each.bases] == ["Row"]}


def _in_order(classes: dict[str, ast.ClassDef]) -> list[str]:
    """Rows of collections first, then what they consist of."""
    first = [kind.__name__ for kind in wire.COLLECTIONS.values()]
    return [*first, *(name for name in classes if name not in first)]


def _row(found: ast.ClassDef) -> str:
    told: list[tuple[object, ...]] = []
    body = found.body
    for number, each in enumerate(body):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            after = body[number + 1] if number + 1 < len(body) else None
            told.append(
                (f"`{_camel(each.target.id)}`", _type(ast.unparse(each.annotation)), _default(each), _text(after))
            )
    text = ast.get_docstring(found)
    head = f"### {found.name}\n\n" + (f"{text}\n\n" if text else "")
    return head + table(("field", "type", "default", ""), told)


def _text(after: ast.stmt | None) -> str:
    is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    text = " ".join(str(after.value.value).split()) if is_text else ""
    return re.sub(r"`(\w+)`", lambda match: f"`{_camel(match[1])}`", text).replace("|", "\\|")


def _default(field: ast.AnnAssign) -> str:
    if field.value is None:
        return "always there"
    text = ast.unparse(field.value)
    shown = {"''": "empty", "()": "none", "None": "absent", "True": "true", "False": "false"}.get(text, text)
    return shown.strip("'\"")


def _type(annotation: str) -> str:
    plain = annotation.removesuffix(" | None")
    if match := re.fullmatch(r"tuple\[(\w+), \.\.\.\]", plain):
        return f"list of {_type(match[1])}"
    names = {"str": "text", "int": "integer", "float": "number", "bool": "boolean", "datetime": "instant"}
    return names.get(plain) or f"[{plain}](#{plain.lower()})"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
