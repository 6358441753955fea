"""`doctor -o html`: findings, the worst first, drivers, settings, and the disks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tonnage.whatif.html.amounts import number_text
from tonnage.whatif.html.capacity_map import capacity_map
from tonnage.whatif.html.charts import Table
from tonnage.whatif.html.page import Html, HtmlPage, element, lines

_SEVERITIES: Final = (("error", "Errors", "bad"), ("warning", "Warnings", "warn"), ("info", "Good to know", ""))


def doctor_page(answer: Mapping[str, Any]) -> HtmlPage:
    """A report of `doctor`'s answer."""
    source = answer.get("source", "a cluster")
    page = HtmlPage("doctor", f"What Tonnage finds in {source}", _lead(answer), bool(answer.get("partial")))
    for severity, said, tone in _SEVERITIES:
        count = len(_found(answer, severity))
        page.figure(said.lower(), number_text(count), tone if count else "")
    for severity, said, tone in _SEVERITIES:
        page.section(severity, said, *(_finding(each, tone) for each in _found(answer, severity)))
    page.section("drivers", "Drivers", *_drivers(answer.get("drivers") or {}))
    page.section("configuration", "Settings that fit", *_configuration(answer.get("configuration")))
    page.section("server", "API server", *_server(answer.get("server")))
    if "disks" in answer:
        page.section("disks", "Disks", capacity_map("disks-map", "Pools and claims", answer["disks"]))
    return page


def _found(answer: Mapping[str, Any], severity: str) -> list[Mapping[str, Any]]:
    return [each for each in answer["findings"] if each["severity"] == severity]


def _lead(answer: Mapping[str, Any]) -> str:
    if _found(answer, "error"):
        return "Some storage cannot be used rightly as it stands. Each finding has its remedy."
    if _found(answer, "warning"):
        return "Pods run, but something is wrong or will be. Each finding has its remedy."
    return "Nothing has to be done."


def _finding(finding: Mapping[str, Any], tone: str) -> Html:
    kind = " ".join(("badge", *([tone] if tone else [])))
    parts = [
        element("h3", element("span", finding["severity"], class_=kind), " ", element("code", finding["name"])),
        element("p", element("b", finding["object"])),
        element("p", finding["message"]),
    ]
    if finding["remedy"]:
        parts.append(element("p", "Remedy: ", finding["remedy"]))
    return element("article", *parts, class_=f"finding {finding['severity']}")


def _drivers(drivers: Mapping[str, Mapping[str, Any]]) -> list[Html]:
    """A row for each, a column for each figure that any of them has."""
    columns = list(dict.fromkeys(key for figures in drivers.values() for key in figures))
    rows = [(name, *(_plain(figures.get(key)) for key in columns)) for name, figures in drivers.items()]
    table = Table(("Driver", *columns), rows, words=frozenset(range(len(columns) + 1)))
    wide = element("div", table.html(), class_="wide", tabindex=0, role="region", aria_label="Drivers")
    return [wide] if rows else []


def _configuration(found: Mapping[str, Any] | None) -> list[Html]:
    """The settings, each with its reason, and a file with them."""
    if not found:
        return []
    why: Mapping[str, str] = found.get("why") or {}
    rows = [(key, _plain(value), why.get(key, "")) for key, value in found.items() if key not in ("why", "file")]
    words = frozenset({0, 1, 2})
    parts = [Table(("Setting", "Value", "Why"), rows, words, names=frozenset({0, 1})).html()]
    if found.get("file"):
        parts += [element("h3", "As a file"), element("pre", element("code", lines(found["file"])), tabindex=0)]
    return parts


def _server(server: Mapping[str, Any] | None) -> list[Html]:
    if not server:
        return []
    gates = [(name, _plain(sign)) for name, sign in (server.get("gates") or {}).items()]
    parts = [element("p", f"Version {server.get('version') or 'not known'}.")]
    return [*parts, *([Table(("Feature gate", "What shows"), gates, words=frozenset({0, 1})).html()] if gates else [])]


def _plain(value: Any) -> str:
    """A value of any shape as a person reads it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {_plain(each)}" for key, each in value.items()) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(_plain(each) for each in value) or "–"
    return value if isinstance(value, str) else json.dumps(value)
