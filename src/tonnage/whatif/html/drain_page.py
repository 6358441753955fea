"""`drain-preview -o html`: the disks before and after, pods that move or are stuck and why, data that stays behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tonnage.whatif.html.capacity_map import capacity_map, scales_of
from tonnage.whatif.html.charts import Axis, bar_chart, table
from tonnage.whatif.html.page import Html, HtmlPage, paragraph
from tonnage.whatif.page import byte_ticks, bytes_text, count_text, number_text

Answer = Mapping[str, Any]

_DONE = {"rebuild": "rebuilt", "reattach": "reattached", "stays": "stays"}


def drain_page(answer: Answer) -> HtmlPage:
    drained = ", ".join(answer["drained"])
    how = " one by one" if answer.get("oneByOne") and len(answer["drained"]) > 1 else ""
    page = HtmlPage("drain-preview", f"Draining {drained}{how}", _lead(answer), bool(answer.get("partial")))
    page.figure("pods move", number_text(len(answer["moves"])))
    stuck = len(answer["stuck"])
    page.figure("stuck", number_text(stuck), "bad" if stuck else "good")
    page.figure("rebuilt", bytes_text(_rebuilt(answer)["total"]))
    page.figure("no pod is stuck", _yes(answer["holds"]), _tone(answer["holds"]))
    one_more = answer.get("survivesOneMore", {})
    page.figure("if one more node fails", _yes(one_more.get("holds")), _tone(one_more.get("holds")))
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


def _rebuilt(answer: Answer) -> Mapping[str, Any]:
    found: Mapping[str, Any] = answer.get("bytesRebuilt") or {"total": 0, "moves": []}
    return found


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
    return ", ".join(f"{each['claim']} {bytes_text(each['bytes'])} {_DONE[each['action']]}" for each in volumes)


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
    bars = [(f"{each['from']} → {each['to']}", each["bytes"]) for each in _rebuilt(answer)["moves"]]
    if not bars:
        return []
    axis = Axis("bytes rebuilt", byte_ticks, bytes_text)
    return [bar_chart("rebuilt-chart", "Bytes rebuilt, by source and target", bars, axis)]


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
    said = f"{count_text(order['tried'], 'order')} tried{'' if order['complete'] else ', not all there are'}."
    rows = [
        (name, ", ".join(nodes), number_text(told["stuck"]), bytes_text(told["bytesRebuilt"]))
        for name, nodes, told in (
            ("best found", order["best"], order),
            ("as given", answer["drained"], order["given"]),
        )
    ]
    return [paragraph(said, "note"), *table(("", "Order", "Stuck", "Rebuilt"), "nw11", rows)]


def _one_more(answer: Answer) -> list[Html]:
    found = answer.get("survivesOneMore")
    if not found:
        return []
    tried = count_text(found["tried"], "node")
    parts = [paragraph(f"{tried} taken away in turn{'' if found['complete'] else ', not all there are'}.", "note")]
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
