"""`-o html` of doctor, fit, drain-preview and simulate --recording; `PAGES` has the page of every answer.

doctor          findings, the worst first, drivers, settings, and the disks
fit             how many more replicas fit and where, what stops the next one, and the disks with them
drain-preview   the disks before and after, pods that move or are stuck and why, data that stays behind
recording       how many recorded decisions are repeated, the first difference, and why
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tonnage.whatif.html import charts
from tonnage.whatif.html.capacity_map import capacity_map, scales_of
from tonnage.whatif.html.charts import Html, HtmlPage, element, paragraph, table
from tonnage.whatif.html.simulate_page import simulate_page
from tonnage.whatif.page import byte_ticks, bytes_text, count_text, number_text

_DONE = {"rebuild": "rebuilt", "reattach": "reattached", "stays": "stays"}


def drain_page(answer: Answer) -> HtmlPage:
    drained = ", ".join(answer["drained"])
    how = " one by one" if answer.get("oneByOne") and len(answer["drained"]) > 1 else ""
    page = HtmlPage("drain-preview", f"Draining {drained}{how}", _lead(answer), bool(answer.get("partial")))
    page.figure("pods move", number_text(len(answer["moves"])))
    stuck = len(answer["stuck"])
    page.figure("stuck", number_text(stuck), "bad" if stuck else "good")
    page.figure("rebuilt", bytes_text(answer["bytesRebuilt"]["total"]))
    page.figure("all pods find a node", _yes(answer["holds"]), _tone(answer["holds"]))
    one_more = answer["survivesOneMore"]["holds"]
    page.figure("also if one more node fails", _yes(one_more), _tone(one_more))
    page.section("disks", "Before and after", *_maps(answer))
    page.section("stuck", "Who is stuck, and why", *_stuck(answer))
    page.section("moves", "Who moves where", *_moves(answer))
    page.section("rebuilt", "Bytes rebuilt", *_rebuilds(answer))
    page.section("behind", "Data that stays behind or is lost", *_data(answer))
    page.section("order", "The best order found", *_order(answer))
    page.section("one-more", "If one more node fails meanwhile", *_one_more(answer))
    return page


def _lead(answer: Answer) -> str:
    if answer["holds"] is None:
        return "It is not known yet whether a pod is stuck."
    if answer["holds"]:
        moves = count_text(len(answer["moves"]), "pod")
        return f"No pod is stuck: {moves} {'moves' if len(answer['moves']) == 1 else 'move'}."
    stuck = count_text(len(answer["stuck"]), "pod")
    return f"{stuck} {'has' if len(answer['stuck']) == 1 else 'have'} nowhere to go."


def _yes(holds: bool | None) -> str:
    return "not known" if holds is None else "yes" if holds else "no"


def _tone(holds: bool | None) -> str:
    return "warn" if holds is None else "good" if holds else "bad"


def _maps(answer: Answer) -> list[Html]:
    before, after = answer["disksBefore"], answer["disksAfter"]
    moved = {
        _key(each["pod"], volume["claim"])
        for each in (*answer["moves"], *answer.get("preempted", ()))
        for volume in each["volumes"]
        if volume["action"] == "rebuild"
    }
    scales = scales_of(before, after)
    note = "Volumes that are rebuilt stand out in both."
    return [
        capacity_map("disks-before", "Before", before, marked=moved, note=note, scales=scales),
        capacity_map("disks-after", "After", after, marked=moved, scales=scales),
    ]


def _key(pod: str, claim: str) -> str:
    return claim if "/" in claim else f"{pod.rpartition('/')[0]}/{claim}"


def _volumes(volumes: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{volume['claim']} {bytes_text(volume['bytes'])} {_DONE[volume['action']]}" for volume in volumes)


def _moves(answer: Answer) -> list[Html]:
    found = []
    for key, title in (("moves", ""), ("preempted", "Pods of other nodes that had to make room")):
        rows = [(each["pod"], each["from"], each["to"], _volumes(each["volumes"])) for each in answer.get(key, ())]
        found += table(("Pod", "From", "To", "Volumes"), "nnnw", rows, title)
    daemons = [(each["pod"], each["node"]) for each in answer.get("daemons", ())]
    return found + table(("Pod", "Node"), "nn", daemons, "Pods that stay: of DaemonSets, and static ones")


def _stuck(answer: Answer) -> list[Html]:
    rows = [(each["pod"], each["from"], each["message"], _volumes(each.get("volumes", ()))) for each in answer["stuck"]]
    budgets = [(each["name"], each["why"], ", ".join(each["pods"])) for each in answer.get("budgets", ())]
    return [
        *table(("Pod", "On", "Why", "Volumes"), "nnww", rows),
        *table(("PodDisruptionBudget", "Why", "Pods"), "nww", budgets, "Budgets that block"),
    ]


def _rebuilds(answer: Answer) -> list[Html]:
    bars = [(f"{each['from']} → {each['to']}", each["bytes"]) for each in answer["bytesRebuilt"]["moves"]]
    if not bars:
        return []
    axis = charts.Axis("bytes rebuilt", byte_ticks, bytes_text)
    return [charts.bar_chart("rebuilt-chart", "Bytes rebuilt, by source and target", bars, axis)]


def _data(answer: Answer) -> list[Html]:
    behind = [
        (
            each["what"],
            each["node"],
            each["claim"] or each["volume"] or "",
            _bytes(each["bytes"]),
            ", ".join(each["pods"]),
        )
        for each in answer.get("dataLeftBehind", ())
    ]
    lost = [(each["pod"], each["volume"], each["what"], _bytes(each["bytes"])) for each in answer.get("dataLost", ())]
    pods = [(each["pod"], each["from"], each["message"]) for each in answer.get("lost", ())]
    return [
        *table(("What stays", "On", "Claim", "Bytes", "Used by"), "wnn1w", behind),
        *table(("Pod", "Volume", "What", "Bytes"), "nww1", lost, "Data that is lost with its pod"),
        *table(("Pod", "On", "Why"), "nnw", pods, "Pods that no controller creates again"),
    ]


def _bytes(size_bytes: int | None) -> str:
    return "not known" if size_bytes is None else bytes_text(size_bytes)


def _order(answer: Answer) -> list[Html]:
    order = answer.get("order")
    if not order:
        return []
    said = f"{count_text(order['tried'], 'order')} tried{'' if order['complete'] else ', others not'}."
    rows = [
        (name, ", ".join(nodes), number_text(told["stuck"]), bytes_text(told["bytesRebuilt"]))
        for name, nodes, told in (
            ("best found", order["best"], order),
            ("as given", answer["drained"], order["given"]),
        )
    ]
    return [paragraph(said, "note"), *table(("", "Order", "Stuck", "Rebuilt"), "nw11", rows)]


def _one_more(answer: Answer) -> list[Html]:
    found = answer["survivesOneMore"]
    tried = count_text(found["tried"], "node")
    parts = [paragraph(f"{tried} failed in turn{'' if found['complete'] else ', not every node'}.", "note")]
    rows = [
        (
            each["node"],
            ", ".join(each["during"]),
            number_text(len(each["stuck"])),
            ", ".join(pod["pod"] for pod in each["stuck"]),
        )
        for each in found["failures"]
    ]
    if not rows and found["holds"]:
        parts.append(paragraph("Every pod still finds a node, whichever of them fails."))
    return parts + table(("Node that fails", "While drained", "Stuck", "Pods"), "nw1w", rows)


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
    page.section("drivers", "Drivers", *_drivers(answer["drivers"]))
    page.section("configuration", "Settings that fit", *_configuration(answer["configuration"]))
    page.section("server", "API server", *_server(answer.get("server")))
    page.section("disks", "Disks", capacity_map("disks-map", "Pools and claims", answer["disks"]))
    return page


def _finding(finding: Answer, tone: str) -> Html:
    badge = element("span", finding["severity"], class_=f"badge {tone}".rstrip())
    parts = [
        element("h3", badge, " ", element("code", finding["name"])),
        paragraph(element("b", finding["object"])),
        paragraph(finding["message"]),
    ]
    if finding["remedy"] not in ("", "nothing to do"):
        parts.append(element("p", "Remedy: ", finding["remedy"]))
    return element("article", *parts, class_=f"finding {finding['severity']}")


def _drivers(drivers: Mapping[str, Answer]) -> list[Html]:
    """A row per driver, a column per figure that any driver has."""
    columns = list(dict.fromkeys(key for figures in drivers.values() for key in figures))
    rows = [(name, *(_plain(figures.get(key)) for key in columns)) for name, figures in drivers.items()]
    headings = (re.sub("[A-Z]", lambda each: f" {each[0].lower()}", key).capitalize() for key in columns)
    shown = table(("Driver", *headings), "n" + "w" * len(columns), rows)
    return [element("div", html, class_="wide", tabindex=0, role="region", aria_label="Drivers") for html in shown]


def _configuration(found: Answer) -> list[Html]:
    why = found["why"]
    rows = [(key, _plain(value), why.get(key, "")) for key, value in found.items() if key not in ("why", "file")]
    return [
        *table(("Setting", "Value", "Why"), "nnw", rows),
        element("h3", "As a file"),
        element("pre", element("code", charts.lines(found["file"])), tabindex=0),
    ]


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
        lead = "Counting stopped at its limit, so more may fit."
    elif stops:
        lead = f"The next replica fits nowhere. On {count_text(stops[0]['nodes'], 'node')}: {stops[0]['reason']}."
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
    page.section("preempting", "Pods that are preempted", *table(("Replica", "Node", "Preempts"), "nnw", preempting))
    refused = [(number_text(stop["nodes"]), stop["reason"]) for stop in stops]
    page.section("stops", "What stops the next replica", *table(("Nodes", "Reason"), "1w", refused))
    page.section("remedies", "The smallest changes that would make it fit", *_remedies(answer["wouldHelp"]))
    return page


def _places(answer: Answer) -> list[Html]:
    ordered = sorted(answer["byNode"].items(), key=lambda each: (-each[1], each[0]))
    if not ordered:
        return [paragraph("Nowhere.", "empty")]
    left = len(ordered) - _BARS
    note = f"{left:,} nodes that take fewer are not drawn." if left > 0 else ""
    axis = charts.Axis("more replicas", charts.WHOLE)
    found = [charts.bar_chart("places-chart", "More replicas by node", ordered[:_BARS], axis, note=note)]
    if left > 0:
        rows = [(node, number_text(count)) for node, count in ordered]
        found.append(charts.details("All nodes", *table(("Node", "More"), "n1", rows)))
    zones = [(zone, f"{count:,}") for zone, count in answer["byZone"].items()]
    return found + table(("Zone", "More"), "n1", zones, title="By zone")


def _remedies(helps: list[str]) -> list[Html]:
    if not helps:
        return []
    note = "Each was tried: with it the next replica fits; with a smaller change of the same kind it does not."
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
    chart = charts.bar_chart(
        "agreed-bars", "Decisions that come out as recorded", bars, charts.Axis("decisions", charts.WHOLE)
    )
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
        said = f"First difference, at {first['at']}: {first['recorded'] or 'no pod'} was tried, and now it is {now}."
    else:
        what = "went to" if first["what"] == "attempt" else "was to make room on"
        said = (
            f"First difference, at {first['at']}: {first['pod']} {what} {first['recorded'] or _NOWHERE}, and now {now}."
        )
    parts = [paragraph(said), paragraph("Later decisions were not compared.")]
    explanation = first.get("explanation")
    if explanation:
        nodes, left = explanation["nodes"][:_MOST_NODES], len(explanation["nodes"]) - _MOST_NODES
        rows = [(node["name"], "yes" if node["feasible"] else "no", _judged(node)) for node in nodes]
        more = [paragraph(f"… and {count_text(left, 'node')} more.")] if left > 0 else []
        judged = charts.details(
            "How each node is judged now", charts.Table(("Node", "Fits", "Why"), rows, "nnw").html(), *more
        )
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
