"""`simulate --recording -o html`: how often a recorded decision comes out the same, where not, and why."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from tonnage.whatif.html.amounts import count_text, number_text, number_ticks
from tonnage.whatif.html.charts import Axis, Table, bar_chart, details
from tonnage.whatif.html.page import Html, HtmlPage, element

Run = Mapping[str, Any]
Runs = Mapping[str, Run]

_MOST_NODES: Final = 40
_NOWHERE: Final = "nowhere"
_WHAT: Final = {"attempt": "went to", "pop": "was tried", "preempt": "was to make room on"}


def recording_page(answer: Mapping[str, Any]) -> HtmlPage:
    """A report of the answer of `simulate --recording`."""
    repeated, runs = answer["repeated"], answer["runs"]
    title = f"Repeated: {count_text(repeated['decisions'], 'decision')} of a live scheduler"
    page = HtmlPage("simulate", title, _lead(answer), bool(answer["partial"]))
    page.figure("decisions", number_text(repeated["decisions"]))
    is_equal = repeated["firstDifference"] is None
    page.figure("equal", number_text(repeated["equal"]), "good" if is_equal else "bad")
    for name, run in runs.items() if len(runs) == 1 else ():
        differing = _differing(run)
        page.figure(f"otherwise by {name}", number_text(differing), "warn" if differing else "good")
    page.section("repeated", "Decided again", *_repeated(repeated, runs))
    page.section("policies", "By other policies", *_policies(runs))
    page.section("differences", "Where they differ", *(_differences(name, run) for name, run in runs.items()))
    return page


def _lead(answer: Mapping[str, Any]) -> str:
    told = f"Recorded from {answer['since']} to {answer['until']}, seed {answer['seed']}."
    return f"{told} The recording ends early: {answer['ending']}." if answer["ending"] else told


def _differing(run: Run) -> int:
    return len(run["differences"]) + int(run["differencesLeftOut"])


def _repeated(repeated: Mapping[str, Any], runs: Runs) -> list[Html]:
    bars = [("decided again", repeated["equal"]), *((name, run["agreed"]) for name, run in runs.items())]
    chart = bar_chart(
        "agreed-bars", "Decisions that come out as recorded", bars, Axis("decisions", partial(number_ticks, whole=True))
    )
    first = repeated["firstDifference"]
    if first is None:
        return [element("p", "The same configuration decides all of them as it did."), chart]
    return [*_first_difference(first), chart]


def _first_difference(first: Mapping[str, Any]) -> list[Html]:
    """What was recorded and what comes out now, and how each node was judged; nothing was compared after it."""
    recorded, now = first["recorded"] or _NOWHERE, first["repeated"] or _NOWHERE
    what = _WHAT.get(first["what"], _WHAT["preempt"])
    if first["what"] == "pop":
        said = f"At {first['at']} they part: {first['recorded'] or 'no pod'} was tried, and now it is {now}."
    else:
        said = f"At {first['at']} they part: {first['pod']} {what} {recorded}, and now {now}."
    parts = [element("p", said), element("p", "Nothing was compared after that.")]
    explanation = first.get("explanation")
    if explanation:
        rows = [
            (each["name"], "yes" if each["feasible"] else "no", _judged(each))
            for each in explanation["nodes"][:_MOST_NODES]
        ]
        table = Table(("Node", "Fits", "Why"), rows, words=frozenset({0, 1, 2}), names=frozenset({0, 1}))
        parts.append(element("p", explanation["message"]))
        left = len(explanation["nodes"]) - len(rows)
        more = [element("p", f"… and {count_text(left, 'node')} more.")] if left > 0 else []
        parts.append(details("How each node is judged now", table.html(), *more))
    return parts


def _judged(node: Mapping[str, Any]) -> str:
    if node["feasible"]:
        return f"scores {number_text(node['total'])}"
    return f"{node['rejectedBy']}: {', '.join(node['reasons'])}"


def _policies(runs: Runs) -> list[Html]:
    rows = [
        (
            name,
            number_text(run["decisions"]),
            number_text(run["agreed"]),
            number_text(run["ties"]),
            number_text(_differing(run)),
        )
        for name, run in runs.items()
    ]
    heads = ("Policy", "Decisions", "As recorded", "of them between equals", "Otherwise")
    return [Table(heads, rows).html()] if rows else []


def _differences(name: str, run: Run) -> Html:
    parts = [element("h3", name)]
    if not run["differences"]:
        return element("article", *parts, element("p", "It decides all of them as recorded."))
    rows = [
        (each["pod"], each["theirs"] or _NOWHERE, each["ours"] or _NOWHERE, each["why"]) for each in run["differences"]
    ]
    heads = ("Pod", "Recorded", name, "Why")
    parts.append(Table(heads, rows, words=frozenset({0, 1, 2, 3}), names=frozenset({0, 1, 2})).html())
    if run["differencesLeftOut"]:
        parts.append(element("p", f"… and {number_text(run['differencesLeftOut'])} more."))
    return element("article", *parts)
