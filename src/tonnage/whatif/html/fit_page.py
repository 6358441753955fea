"""`fit -o html`: how many more, where they go, what stops the next one, and the disks with them on it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from tonnage.whatif.html.amounts import count_text, number_text, number_ticks
from tonnage.whatif.html.capacity_map import capacity_map
from tonnage.whatif.html.charts import Axis, Table, bar_chart, details
from tonnage.whatif.html.page import Html, HtmlPage, element

_BARS: Final = 40


def fit_page(answer: Mapping[str, Any]) -> HtmlPage:
    """A report of `fit`'s answer."""
    count, by_node = answer["count"], answer["byNode"]
    some = "at least " if answer["partial"] else ""
    said = f"{some}{count:,} more {'fits' if count == 1 else 'fit'}"
    page = HtmlPage("fit", f"{answer['workload']}: {said}", _lead(answer), bool(answer.get("interrupted")))
    page.figure("more fit", f"{'≥ ' if some else ''}{count:,}", "good" if count else "bad")
    page.figure("nodes take them", number_text(len(by_node)))
    if answer["byZone"]:
        page.figure("zones", number_text(len(answer["byZone"])))
    if "nodesNeeded" in answer:
        needed = answer["nodesNeeded"]
        page.figure(f"nodes like {needed['template']} for {needed['pods']:,} pods", number_text(needed["nodes"]))
    page.section("places", "Where they fit", *_places(answer))
    page.section("disks", "The disks, with them", *_disks(answer))
    page.section("stops", "What stops the next one", *_stops(answer))
    page.section("remedies", "The least that would let it in", *_remedies(answer))
    return page


def _lead(answer: Mapping[str, Any]) -> str:
    if answer["partial"]:
        return "Counting ended before one fitted nowhere, so more may fit."
    if not answer["stops"]:
        return "No replica was refused."
    first = answer["stops"][0]
    return f"The next one fits nowhere. On {count_text(first['nodes'], 'node')}: {first['reason']}."


def _places(answer: Mapping[str, Any]) -> list[Html]:
    ordered = sorted(answer["byNode"].items(), key=lambda each: (-each[1], each[0]))
    if not ordered:
        return [element("p", "Nowhere.", class_="empty")]
    axis = Axis("more replicas", partial(number_ticks, whole=True))
    left = len(ordered) - _BARS
    note = f"{left:,} nodes that take fewer are not drawn." if left > 0 else ""
    found = [bar_chart("places-chart", "More replicas by node", ordered[:_BARS], axis, note=note)]
    if left > 0:
        rows = [(node, number_text(count)) for node, count in ordered]
        found.append(details("All nodes", Table(("Node", "More"), rows).html()))
    if answer["byZone"]:
        found.append(element("h3", "By zone"))
        found.append(Table(("Zone", "More"), [(zone, f"{n:,}") for zone, n in answer["byZone"].items()]).html())
    return found


def _disks(answer: Mapping[str, Any]) -> list[Html]:
    note = (
        "Hatched claims are promised: those of the replicas that fit, and others that wait for their volume. "
        "Which pool a driver picks is its own choice; drawn is one way in which all of them fit."
    )
    return [capacity_map("disks-map", "Pools and claims once they are placed", answer["disks"], note=note)]


def _stops(answer: Mapping[str, Any]) -> list[Html]:
    rows = [(number_text(each["nodes"]), each["reason"]) for each in answer["stops"]]
    return [Table(("Nodes", "Reason"), rows, words=frozenset({1})).html()] if rows else []


def _remedies(answer: Mapping[str, Any]) -> list[Html]:
    if not answer["wouldHelp"]:
        return []
    return [
        element(
            "p", "Each was tried: with it the next one fits, and with anything less of its kind not.", class_="note"
        ),
        element("ol", *(element("li", each) for each in answer["wouldHelp"]), class_="plain"),
    ]
