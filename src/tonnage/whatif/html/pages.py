"""`-o html` of doctor, fit and simulate --recording; `PAGES` has the page of every answer.

doctor      findings, the worst first, drivers, settings, and the disks
fit         how many more replicas fit and where, what stops the next one, and the disks with them
recording   how many recorded decisions are repeated, the first difference, and why
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from tonnage.whatif.html.capacity_map import capacity_map
from tonnage.whatif.html.charts import WHOLE, Axis, Table, bar_chart, details, table
from tonnage.whatif.html.drain_page import drain_page
from tonnage.whatif.html.page import Html, HtmlPage, element, lines, paragraph
from tonnage.whatif.html.simulate_page import simulate_page
from tonnage.whatif.page import count_text, number_text

Answer = Mapping[str, Any]

_SEVERITIES: Final = (("error", "Errors", "bad"), ("warning", "Warnings", "warn"), ("info", "Good to know", ""))
_BARS: Final = 40
_MOST_NODES: Final = 40
_NOWHERE: Final = "nowhere"


# -- doctor -----------------------------------------------------------------------------------------------------------


def doctor_page(answer: Answer) -> HtmlPage:
    source, found = answer.get("source", "a cluster"), answer["findings"]
    by_severity = {name: [each for each in found if each["severity"] == name] for name, _, _ in _SEVERITIES}
    lead = "Nothing has to be done."
    if by_severity["error"]:
        lead = "Some storage cannot be used as it is. Each finding has its remedy."
    elif by_severity["warning"]:
        lead = "Pods run, but something is wrong or will be. Each finding has its remedy."
    page = HtmlPage("doctor", f"What Tonnage finds in {source}", lead, bool(answer.get("partial")))
    for severity, said, tone in _SEVERITIES:
        count = len(by_severity[severity])
        page.figure(said.lower(), number_text(count), tone if count else "")
    for severity, said, tone in _SEVERITIES:
        page.section(severity, said, *(_finding(each, tone) for each in by_severity[severity]))
    page.section("drivers", "Drivers", *_drivers(answer.get("drivers") or {}))
    page.section("configuration", "Settings that fit", *_configuration(answer.get("configuration")))
    page.section("server", "API server", *_server(answer.get("server")))
    if "disks" in answer:
        page.section("disks", "Disks", capacity_map("disks-map", "Pools and claims", answer["disks"]))
    return page


def _finding(finding: Answer, tone: str) -> Html:
    badge = element("span", finding["severity"], class_=f"badge {tone}".rstrip())
    parts = [
        element("h3", badge, " ", element("code", finding["name"])),
        paragraph(element("b", finding["object"])),
        paragraph(finding["message"]),
    ]
    if finding["remedy"]:
        parts.append(element("p", "Remedy: ", finding["remedy"]))
    return element("article", *parts, class_=f"finding {finding['severity']}")


def _drivers(drivers: Mapping[str, Answer]) -> list[Html]:
    """A row per driver, a column per figure that any driver has."""
    columns = list(dict.fromkeys(key for figures in drivers.values() for key in figures))
    rows = [(name, *(_plain(figures.get(key)) for key in columns)) for name, figures in drivers.items()]
    shown = table(("Driver", *columns), "n" + "w" * len(columns), rows)
    return [element("div", each, class_="wide", tabindex=0, role="region", aria_label="Drivers") for each in shown]


def _configuration(found: Answer | None) -> list[Html]:
    if not found:
        return []
    why: Mapping[str, str] = found.get("why") or {}
    rows = [(key, _plain(value), why.get(key, "")) for key, value in found.items() if key not in ("why", "file")]
    parts = table(("Setting", "Value", "Why"), "nnw", rows)
    if found.get("file"):
        parts += [element("h3", "As a file"), element("pre", element("code", lines(found["file"])), tabindex=0)]
    return parts


def _server(server: Answer | None) -> list[Html]:
    if not server:
        return []
    gates = [(name, _plain(sign)) for name, sign in (server.get("gates") or {}).items()]
    return [
        paragraph(f"Version {server.get('version') or 'not known'}."),
        *table(("Feature gate", "What shows"), "nw", gates),
    ]


def _plain(value: Any) -> str:
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


# -- fit --------------------------------------------------------------------------------------------------------------


def fit_page(answer: Answer) -> HtmlPage:
    count, by_node, stops = answer["count"], answer["byNode"], answer["stops"]
    some, lead = "at least " if answer["partial"] else "", "No replica was refused."
    if some:
        lead = "Counting ended before one fitted nowhere, so more may fit."
    elif stops:
        lead = f"The next one fits nowhere. On {count_text(stops[0]['nodes'], 'node')}: {stops[0]['reason']}."
    page = HtmlPage("fit", f"{answer['workload']}: {answer['text']}", lead, bool(answer.get("interrupted")))
    page.figure("more fit", f"{'≥ ' if some else ''}{count:,}", "good" if count else "bad")
    if answer["atMost"] > count:
        page.figure("if the driver packs well", number_text(answer["atMost"]))
    page.figure("nodes take them", number_text(len(by_node)))
    if answer["byZone"]:
        page.figure("zones", number_text(len(answer["byZone"])))
    if "nodesNeeded" in answer:
        needed = answer["nodesNeeded"]
        page.figure(
            f"more nodes like {needed['template']} for all {needed['pods']:,} pods", number_text(needed["nodes"])
        )
    page.section("places", "Where they fit", *_places(answer))
    note = (
        "Hatched claims are promised: those of the replicas that fit, and others that wait for their volume. "
        "Where it is not known which pool the driver picks, the worst pool is drawn."
    )
    disks = capacity_map("disks-map", "Pools and claims once they are placed", answer["disks"], note=note)
    page.section("disks", "The disks, with them", disks)
    preempting = [(each["pod"], each["node"], ", ".join(each["victims"])) for each in answer["preempting"]]
    page.section("preempting", "Who has to go", *table(("Replica", "Node", "Preempts"), "nnw", preempting))
    refused = [(number_text(each["nodes"]), each["reason"]) for each in stops]
    page.section("stops", "What stops the next one", *table(("Nodes", "Reason"), "1w", refused))
    page.section("remedies", "The smallest changes that would make it fit", *_remedies(answer["wouldHelp"]))
    return page


def _places(answer: Answer) -> list[Html]:
    ordered = sorted(answer["byNode"].items(), key=lambda each: (-each[1], each[0]))
    if not ordered:
        return [paragraph("Nowhere.", "empty")]
    left = len(ordered) - _BARS
    note = f"{left:,} nodes that take fewer are not drawn." if left > 0 else ""
    axis = Axis("more replicas", WHOLE)
    found = [bar_chart("places-chart", "More replicas by node", ordered[:_BARS], axis, note=note)]
    if left > 0:
        rows = [(node, number_text(count)) for node, count in ordered]
        found.append(details("All nodes", *table(("Node", "More"), "n1", rows)))
    zones = [(zone, f"{count:,}") for zone, count in answer["byZone"].items()]
    return found + table(("Zone", "More"), "n1", zones, title="By zone")


def _remedies(helps: list[str]) -> list[Html]:
    if not helps:
        return []
    note = "Each was tried: with it the next one fits, and with anything less of its kind not."
    return [paragraph(note, "note"), element("ol", *(element("li", each) for each in helps), class_="plain")]


# -- simulate --recording ---------------------------------------------------------------------------------------------


def recording_page(answer: Answer) -> HtmlPage:
    repeated, runs = answer["repeated"], answer["runs"]
    title = f"Repeated: {count_text(repeated['decisions'], 'decision')} of a live scheduler"
    lead = f"Recorded from {answer['since']} to {answer['until']}, seed {answer['seed']}."
    lead = f"{lead} The recording ends early: {answer['ending']}." if answer["ending"] else lead
    page = HtmlPage("simulate", title, lead, bool(answer["partial"]))
    page.figure("decisions", number_text(repeated["decisions"]))
    first = repeated["firstDifference"]
    page.figure("equal", number_text(repeated["equal"]), "good" if first is None else "bad")
    for name, run in runs.items() if len(runs) == 1 else ():
        differing = _differing(run)
        page.figure(f"otherwise by {name}", number_text(differing), "warn" if differing else "good")
    bars = [("decided again", repeated["equal"]), *((name, run["agreed"]) for name, run in runs.items())]
    chart = bar_chart("agreed-bars", "Decisions that come out as recorded", bars, Axis("decisions", WHOLE))
    same = [paragraph("The same configuration decides all of them as it did.")]
    page.section("repeated", "Decided again", *(same if first is None else _first_difference(first)), chart)
    counted = [
        (name, *(number_text(run[key]) for key in ("decisions", "agreed", "ties")), number_text(_differing(run)))
        for name, run in runs.items()
    ]
    heads = ("Policy", "Decisions", "As recorded", "of them between equals", "Otherwise")
    page.section("policies", "By other policies", *table(heads, "n1111", counted))
    page.section("differences", "Where they differ", *(_differences(name, run) for name, run in runs.items()))
    return page


def _differing(run: Answer) -> int:
    return len(run["differences"]) + int(run["differencesLeftOut"])


def _first_difference(first: Answer) -> list[Html]:
    """The recorded and the new decision with the verdict on each node; nothing was compared after them."""
    now = first["repeated"] or _NOWHERE
    if first["what"] == "pop":
        said = f"At {first['at']} they part: {first['recorded'] or 'no pod'} was tried, and now it is {now}."
    else:
        what = "went to" if first["what"] == "attempt" else "was to make room on"
        said = f"At {first['at']} they part: {first['pod']} {what} {first['recorded'] or _NOWHERE}, and now {now}."
    parts = [paragraph(said), paragraph("Nothing was compared after that.")]
    explanation = first.get("explanation")
    if explanation:
        nodes, left = explanation["nodes"][:_MOST_NODES], len(explanation["nodes"]) - _MOST_NODES
        rows = [(each["name"], "yes" if each["feasible"] else "no", _judged(each)) for each in nodes]
        more = [paragraph(f"… and {count_text(left, 'node')} more.")] if left > 0 else []
        judged = details("How each node is judged now", Table(("Node", "Fits", "Why"), rows, "nnw").html(), *more)
        parts += [paragraph(explanation["message"]), judged]
    return parts


def _judged(node: Answer) -> str:
    if node["feasible"]:
        return f"scores {number_text(node['total'])}"
    return f"{node['rejectedBy']}: {', '.join(node['reasons'])}"


def _differences(name: str, run: Answer) -> Html:
    rows = [
        (each["pod"], each["theirs"] or _NOWHERE, each["ours"] or _NOWHERE, each["why"]) for each in run["differences"]
    ]
    parts = table(("Pod", "Recorded", name, "Why"), "nnnw", rows) or [paragraph("It decides all of them as recorded.")]
    if rows and run["differencesLeftOut"]:
        parts.append(paragraph(f"… and {number_text(run['differencesLeftOut'])} more."))
    return element("article", element("h3", name), *parts)


PAGES: Final[Mapping[str, Callable[[Answer], HtmlPage]]] = {
    "doctor": doctor_page,
    "drain-preview": drain_page,
    "fit": fit_page,
    "recording": recording_page,
    "simulate": simulate_page,
}
