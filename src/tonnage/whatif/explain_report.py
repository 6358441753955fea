"""An explanation as a person reads it: the answer, then the nodes that fit, then the reasons of those that do not.

    shop/web goes to node-3
    fits on 4 of 6 nodes

      NODE    TOTAL  Fit  Balanced  Spread×2
    * node-3    571   91        95       185
      node-1    560   90        90       180
    alike on all of them: Taints×3 300

    REFUSED  BY                WHY               NODES
          2  NodeResourcesFit  Insufficient cpu  node-5, node-6

A pod with claims gets two things more: for nodes that were refused for their storage the nearest miss in numbers, and
at the end what each node would make its volumes of (`volume_explanations`).

Thousands of nodes stay readable: the best twenty are shown, refused ones are grouped by plugin and reasons, and a score
that is the same everywhere is no column, for it decided nothing. Columns show weighted scores, as they add up to the
total. On a terminal there are colours and its width is kept to without breaking a name (`page.py`); in a pipe there are
neither colours nor broken lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from rich.text import Text

from tonnage.printable import assembled, text
from tonnage.scheduling.decision.explain import Explanation, NodeAnswer, PreemptionAnswer
from tonnage.scheduling.decision.held_room import held_sentence
from tonnage.scheduling.volumes.explain.account_entries import NodeAccount
from tonnage.whatif.page import FittedTable, TableColumn, TextPage, named
from tonnage.whatif.volume_report import print_volumes

MAX_ROWS = 20
"""Nodes that fit, and groups of those that do not, that are shown one by one."""

_SHORT = {
    "ImageLocality": "Images",
    "InterPodAffinity": "PodAffinity",
    "NodeResourcesBalancedAllocation": "Balanced",
    "NodeResourcesFit": "Fit",
    "PodTopologySpread": "Spread",
    "TaintToleration": "Taints",
    "VolumeBinding": "Volumes",
}
_OTHERS = "others"


def show(explanation: Explanation, weights: Mapping[str, int], out: TextIO) -> None:
    """Write an explanation as a table; `weights` are those of the profile's scores."""
    print_explanation(explanation, weights, TextPage(out))


def print_explanation(explanation: Explanation, weights: Mapping[str, int], page: TextPage) -> None:
    """The same on a page that holds more."""
    for line in _headline(explanation):
        page.say(line)
    feasible = [each for each in explanation.nodes if each.feasible and not each.passed_over]
    passed_over = [each for each in explanation.nodes if each.passed_over]
    refused = [each for each in explanation.nodes if not each.feasible]
    if feasible:
        page.blank()
        _print_feasible(explanation.node, feasible, weights, page)
    for each in passed_over[:MAX_ROWS]:
        page.say(text(f"{each.name} fits, and {each.passed_over}", style="yellow"))
    if len(passed_over) > MAX_ROWS:
        page.say(text(f"… and {len(passed_over) - MAX_ROWS:,} more that failed the pod lately", style="dim"))
    if refused:
        page.blank()
        _print_refused(refused, page)
        if explanation.node and (held := held_sentence({each.name: each.held_by for each in refused if each.held_by})):
            page.say(text(held, style="dim"))
    if explanation.volumes:
        page.blank()
        accounts = [(name, each) for name, each in explanation.volumes.items() if isinstance(each, NodeAccount)]
        print_volumes(accounts, page, max_rows=MAX_ROWS)


def _headline(explanation: Explanation) -> Iterable[Text]:
    pod, node = (explanation.pod, "bold"), (explanation.node, "bold green")
    if explanation.held_back:
        yield assembled(pod, (" is not tried", "bold yellow"), f": {explanation.held_back}")
        yield (assembled("otherwise it would go to ", node) if explanation.node else text("otherwise it would not fit"))
    elif explanation.node:
        yield assembled(pod, " goes to ", node)
    else:
        yield assembled(pod, (" does not fit", "bold red"))
    yield text(explanation.message)
    if explanation.preemption is not None:
        yield text(preemption_sentence(explanation.preemption), style="yellow")


def preemption_sentence(found: PreemptionAnswer) -> str:
    """Who would have to go, for a pod that fits nowhere as it is."""
    count = len(found.victims)
    told = f"preemption would make room on {found.node}: {named(found.victims)} would go"
    if found.budget_violations:
        told += f", {found.budget_violations} of {count} against a PodDisruptionBudget"
    return told


# -- nodes that fit ---------------------------------------------------------------------------------------------------


def _print_feasible(chosen: str, nodes: Sequence[NodeAnswer], weights: Mapping[str, int], page: TextPage) -> None:
    shown = list(nodes[:MAX_ROWS])
    if chosen not in {each.name for each in shown}:  # nominated, and not among the best
        shown[-1:] = [each for each in nodes if each.name == chosen]
    plugins = list(nodes[0].scores)
    spread = {name: _spread([each.scores[name] for each in nodes]) for name in plugins}
    telling = [name for name in plugins if spread[name]]
    table = _feasible_table(chosen, shown, telling, [], weights)
    rest: list[str] = []
    while len(telling) > 1 and table.natural_width > page.width:
        least = min(telling, key=lambda name: spread[name])
        telling.remove(least)
        rest.append(least)
        table = _feasible_table(chosen, shown, telling, rest, weights)
    page.table(table)
    for line in _footnotes(nodes, shown, [name for name in plugins if not spread[name]], rest, weights):
        page.say(text(line, style="dim"))


def _feasible_table(
    chosen: str, shown: Sequence[NodeAnswer], telling: Sequence[str], rest: Sequence[str], weights: Mapping[str, int]
) -> FittedTable:
    is_scored = bool(shown[0].scores)
    heads = ["TOTAL", *(_short(name, weights) for name in telling)] if is_scored else []
    heads += [_OTHERS] if rest else []
    table = FittedTable([TableColumn("  NODE", is_whole=True), *(TableColumn(head, is_number=True) for head in heads)])
    for each in shown:
        is_chosen = each.name == chosen
        cells = [text(f"{'*' if is_chosen else ' '} {each.name}", style="bold green" if is_chosen else "")]
        if is_scored:
            cells.append(text(str(each.total), style="bold"))
            cells += [text(str(each.scores[name])) for name in telling]
        if rest:
            cells.append(text(str(sum(each.scores[name] for name in rest))))
        table.add(*cells)
    return table


def _footnotes(
    nodes: Sequence[NodeAnswer],
    shown: Sequence[NodeAnswer],
    alike: Sequence[str],
    rest: Sequence[str],
    weights: Mapping[str, int],
) -> Iterable[str]:
    best = nodes[0]
    if len(nodes) > len(shown):
        totals = [each.total for each in nodes]
        yield f"… and {len(nodes) - len(shown):,} more that fit, with totals down to {min(totals)}"
    if not best.scores:
        yield "the only node that fits; it is not scored"
        return
    if rest:
        yield f"{_OTHERS}: {', '.join(_short(name, weights) for name in rest)}"
    if alike:
        told = ", ".join(f"{_short(name, weights)} {best.scores[name]}" for name in alike)
        yield f"alike on all of them: {told}"
    ties = sum(each.total == best.total for each in nodes)
    if ties > 1:
        yield f"{ties:,} nodes share the best total; the choice is by lot, and the same for the same input"


def _spread(scores: Sequence[int]) -> int:
    return max(scores) - min(scores)


def _short(plugin: str, weights: Mapping[str, int]) -> str:
    name, weight = _SHORT.get(plugin, plugin), weights.get(plugin, 1)
    return f"{name}×{weight}" if weight != 1 else name


# -- nodes that do not ------------------------------------------------------------------------------------------------


def refused_together(nodes: Iterable[NodeAnswer]) -> list[tuple[tuple[str, tuple[str, ...]], list[NodeAnswer]]]:
    """Refused nodes by who refused them and why, the most first."""
    groups: dict[tuple[str, tuple[str, ...]], list[NodeAnswer]] = {}
    for each in nodes:
        groups.setdefault((each.rejected_by, each.reasons), []).append(each)
    return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))


def _print_refused(nodes: Sequence[NodeAnswer], page: TextPage) -> None:
    ordered = refused_together(nodes)
    misses = [nearest_miss(refused) for _, refused in ordered[:MAX_ROWS]]
    heads = [TableColumn("REFUSED", is_number=True), TableColumn("BY"), TableColumn("WHY")]
    heads += [TableColumn("NEAREST MISS")] if any(misses) else []
    table = FittedTable([*heads, TableColumn("NODES")])
    for ((plugin, reasons), refused), miss in zip(ordered[:MAX_ROWS], misses, strict=True):
        cells = [text(plugin), text(", ".join(reasons), style="red"), *([text(miss)] if any(misses) else [])]
        table.add(f"{len(refused):,}", *cells, text(named([each.name for each in refused]), style="dim"))
    page.table(table)
    hidden = ordered[MAX_ROWS:]
    if hidden:
        count = sum(len(names) for _, names in hidden)
        page.say(text(f"… and {len(hidden):,} more reasons for {count:,} nodes", style="dim"))


def nearest_node(refused: Sequence[NodeAnswer]) -> str:
    """Which of these nodes came nearest; empty when none can tell."""
    return min(((each.miss, each.name) for each in refused if each.miss is not None), default=(None, ""))[1]


def nearest_miss(refused: Sequence[NodeAnswer]) -> str:
    """How near the nearest of these nodes came, for want of storage; which one, unless all came as near.

    What would help elsewhere in the group is told too, for as many nodes as it helps.
    """
    misses = [(miss, each.name) for each in refused if (miss := each.miss) is not None]
    if not misses:
        return ""
    nearest, name = min(misses)
    told = nearest.told if len({miss.told for miss, _ in misses}) == 1 else f"{name}: {nearest.told}"
    helped: dict[str, list[str]] = {}
    for miss, other in misses:
        if miss.hint and not nearest.hint:
            helped.setdefault(miss.hint, []).append(other)
    if not helped:
        return told
    hint, names = max(helped.items(), key=lambda item: len(item[1]))
    return f"{told}; {named(names)}: {hint}"
