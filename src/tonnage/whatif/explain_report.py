"""An explanation as text: the answer, then the nodes that fit, then the reasons of those that do not.

    shop/web goes to node-3
    fits on 4 of 6 nodes

      NODE    TOTAL  Fit  Balanced  Spread×2
    * node-3    571   91        95       185
      node-1    560   90        90       180
    the same on all of them: Taints×3 300

    REFUSED  BY                WHY               NODES
          2  NodeResourcesFit  Insufficient cpu  node-5, node-6

    CLAIM      KIND     CAPACITY OBJECT           POOLS        NEEDS          VERDICT     SLOTS  NODES
    shop/data  dynamic  kube-system/node-1-pools  100Gi, 60Gi  60Gi of 100Gi  guaranteed  2/16   node-1
    shop/data  dynamic  2 objects                 2×40Gi       60Gi           none        0/16   node-2, node-3

Thousands of nodes stay readable: the best twenty are shown, refused ones are grouped by plugin and reasons, nodes with
equal claim lines share a line, and columns without content are left out. Scores are weighted. `NEEDS` shows one way to
distribute the claims over pools; the driver may choose another, and `VERDICT` says whether that can go wrong. Of a
workload's pods the node of each comes first; full explanations follow of those that do not fit, one per reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.text import Text

from tonnage.clock import rfc3339
from tonnage.keyed import grouped
from tonnage.printable import assembled, text
from tonnage.scheduling.decision.explain import Explanation, NodeAnswer, PreemptionAnswer
from tonnage.scheduling.decision.nominated_room import held_sentence
from tonnage.scheduling.volumes.explain import account_entries
from tonnage.scheduling.volumes.explain.account_entries import BOUND, STATIC, ClaimAccount, NodeAccount, Supply, amount
from tonnage.scheduling.volumes.packing.pool_fits import UNBOUNDED
from tonnage.whatif.explain import PodAnswer, WorkloadAnswer
from tonnage.whatif.page import FittedTable, Page, Row, named

_SOURCE = "CAPACITY OBJECT"
_HEADS = ("CLAIM", "KIND", _SOURCE, "GROUP", "POOLS", "POLICY", "NEEDS", "VERDICT", "RESERVED", "SLOTS")
_KEPT_HEADS = ("CLAIM", "KIND", _SOURCE)
"""Columns that are always shown."""
_MOST_BAD_ORDERS = 3
_WHOLE_HEADS = ("KIND", "POOLS", "POLICY", "NEEDS", "VERDICT", "SLOTS")


def print_volumes(accounts: Iterable[tuple[str, NodeAccount]], page: Page, *, max_rows: int) -> None:
    known = list(accounts)
    groups = list(grouped((tuple(map(_cells, each.claims)), (name, each)) for name, each in known).values())
    lines: list[tuple[str, ...]] = []
    shown = 0
    for group in groups:
        of_group = list(_lines(group))
        if shown and len(lines) + len(of_group) > max_rows:
            break
        lines += of_group
        shown += 1
    telling = [i for i, head in enumerate(_HEADS) if head in _KEPT_HEADS or any(line[i] for line in lines)]
    source = _source_head({line[1] for line in lines})
    heads = (*(source if _HEADS[i] == _SOURCE else _HEADS[i] for i in telling), "NODES")
    kinds = "".join("n" if head in _WHOLE_HEADS else "w" for head in heads[:-1]) + "r"
    rows: list[Row] = [(*(line[i] for i in telling), text(line[-1], style="dim")) for line in lines]
    page.table(FittedTable(heads, kinds, rows))
    page.more(sum(map(len, groups[shown:])), "more nodes that differ from these")
    _print_bad_orders(known, page)


def _source_head(kinds: set[str]) -> str:
    """The head over objects and volumes, by the kinds of claims under it."""
    if kinds <= {BOUND, STATIC}:
        return "VOLUME"
    return "OBJECT OR VOLUME" if kinds & {BOUND, STATIC} else _SOURCE


def claim_sentences(account: NodeAccount) -> Iterator[str]:
    for claim in account.claims:
        takes, source = _takes(claim), _source(claim)
        grade = f"; the fit is {claim.supply.grade}" if claim.supply.grade else ""
        if claim.kind == BOUND:
            yield f"{claim.claim} is bound to {claim.volume}"
        elif claim.kind == STATIC:
            yield f"{claim.claim} takes the volume {claim.volume}"
        elif claim.miss is None:
            what = "is rebuilt here, and takes" if claim.kind == account_entries.REBUILD else "takes"
            yield f"{claim.claim} {what} {takes} ({source}{grade})"


def _print_bad_orders(accounts: Iterable[tuple[str, NodeAccount]], page: Page) -> None:
    """Fits that depend on the order of the claims: a safe order, an unsafe one, and their nodes."""
    fitting = ((name, claim) for name, account in accounts for claim in account.claims if claim.miss is None)
    told = (("; ".join(_orders_told(claim.supply)), name) for name, claim in fitting)
    found = grouped((order, name) for order, name in told if order)
    for order, nodes in list(found.items())[:_MOST_BAD_ORDERS]:
        page.say(text(f"{order} ({named(list(dict.fromkeys(nodes)))})", style="dim"))
    page.more(len(found) - _MOST_BAD_ORDERS, "more like these")


def _orders_told(supply: Supply) -> Iterator[str]:
    if supply.order:
        yield f"ordered: {', then '.join(supply.order)} is asked for, each when the one before was made"
    if supply.bad_order:
        certainty = "" if supply.order else "possible only: "
        badly = account_entries.placed_badly(supply.pool_policy, supply.bad_order)
        yield f"{certainty}asked in the wrong order, {badly}"


def _cells(each: ClaimAccount) -> tuple[str, ...]:
    """The cells of a claim's line except the capacity object, which differs from node to node."""
    supply = each.supply
    pools = account_entries.amounts(supply.room.shown_pools)
    if supply.room.claim_limit < UNBOUNDED:
        pools += f"{', ' if pools else ''}volumes up to {amount(supply.room.claim_limit)}"
    if supply.room.slots < UNBOUNDED:
        pools += f"{', ' if pools else ''}{account_entries.more_volumes(supply.room.slots)}"
    policy, slots = supply.pool_policy, f"{each.slots.used}/{each.slots.limit}" if each.slots is not None else ""
    return (each.kind, supply.group, pools, policy, _takes(each), supply.grade, _held(each), slots, each.claim)


def _lines(nodes: Sequence[tuple[str, NodeAccount]]) -> Iterator[tuple[str, ...]]:
    """A line for each claim of nodes whose lines are equal but for their sources; equal claims share a line."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for claims in zip(*(account.claims for _, account in nodes), strict=True):
        kind, *cells, claim = _cells(claims[0])
        sources = list(dict.fromkeys(map(_source, claims)))
        what = "volumes" if kind in (BOUND, STATIC) else "objects"
        source = sources[0] if len(sources) == 1 else f"{len(sources):,} {what}"
        alike.setdefault((kind, source, *cells), []).append(claim)
    names = named([name for name, _ in nodes])
    for said, keys in alike.items():
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        yield (f"{keys[0]}{more}", *said, names)
        names = ""


def _source(each: ClaimAccount) -> str:
    if each.supply.capacity is not None:
        return each.supply.capacity.key
    return each.volume


def _takes(each: ClaimAccount) -> str:
    if each.size is None:
        return ""
    size = f"{amount(each.size)} ({each.sized})" if each.sized else amount(each.size)
    if (
        each.miss is not None and each.kind in (account_entries.DYNAMIC, account_entries.REBUILD)
    ) or each.takes is None:
        return size
    pool = each.supply.room.pools[each.takes]
    return f"{size} of {amount(pool + each.supply.room.keeps)}" if pool < UNBOUNDED else size


def _held(each: ClaimAccount) -> str:
    hold = each.supply.reserved_by
    if hold is not None:
        return f"by {hold.pod} since {rfc3339(hold.since)}"
    promised = sum(promise.bytes for promise in each.supply.promised)
    told = [f"{amount(promised)} promised"] if promised else []
    told += [f"{hold.claims[0]} {hold.why}" for hold in each.supply.resting]
    return "; ".join(told)


MAX_ROWS = 20
"""How many fitting nodes, and groups of refused nodes, are shown."""

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


def print_explanation(explanation: Explanation, weights: Mapping[str, int], page: Page) -> None:
    """Write an explanation as tables. `weights` are the score weights of the profile."""
    for line in _headline(explanation):
        page.say(line)
    feasible = [answer for answer in explanation.nodes if answer.feasible and not answer.passed_over]
    passed_over = [answer for answer in explanation.nodes if answer.passed_over]
    refused = [answer for answer in explanation.nodes if not answer.feasible]
    if feasible:
        page.blank()
        _print_feasible(explanation.node, feasible, weights, page)
    for answer in passed_over[:MAX_ROWS]:
        page.say(text(f"{answer.name} fits, and {answer.passed_over}", style="yellow"))
    page.more(len(passed_over) - MAX_ROWS, "more that failed the pod lately")
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
    """Which pods would have to be preempted for a pod that fits nowhere."""
    count = len(found.victims)
    told = f"preemption would make room on {found.node}: {named(found.victims)} would go"
    if found.budget_violations:
        told += f", {found.budget_violations} of {count} against a PodDisruptionBudget"
    return told


# -- nodes that fit ---------------------------------------------------------------------------------------------------


def _print_feasible(chosen: str, nodes: Sequence[NodeAnswer], weights: Mapping[str, int], page: Page) -> None:
    shown = list(nodes[:MAX_ROWS])
    if chosen not in {answer.name for answer in shown}:  # nominated, and not among the best
        shown[-1:] = [answer for answer in nodes if answer.name == chosen]
    plugins = list(nodes[0].scores)
    scores = {name: [answer.scores[name] for answer in nodes] for name in plugins}
    spread = {name: max(found) - min(found) for name, found in scores.items()}
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
    rows = []
    for answer in shown:
        is_chosen = answer.name == chosen
        cells = [text(f"{'*' if is_chosen else ' '} {answer.name}", style="bold green" if is_chosen else "")]
        if is_scored:
            cells.append(text(str(answer.total), style="bold"))
            cells += [text(str(answer.scores[name])) for name in telling]
        if rest:
            cells.append(text(str(sum(answer.scores[name] for name in rest))))
        rows.append(cells)
    return FittedTable(("  NODE", *heads), "n" + "1" * len(heads), rows)


def _footnotes(
    nodes: Sequence[NodeAnswer],
    shown: Sequence[NodeAnswer],
    alike: Sequence[str],
    rest: Sequence[str],
    weights: Mapping[str, int],
) -> Iterable[str]:
    best = nodes[0]
    if len(nodes) > len(shown):
        totals = [answer.total for answer in nodes]
        yield f"… and {len(nodes) - len(shown):,} more that fit, with totals down to {min(totals)}"
    if not best.scores:
        yield "the only node that fits; it is not scored"
        return
    if rest:
        yield f"{_OTHERS}: {', '.join(_short(name, weights) for name in rest)}"
    if alike:
        told = ", ".join(f"{_short(name, weights)} {best.scores[name]}" for name in alike)
        yield f"the same on all of them: {told}"
    ties = sum(answer.total == best.total for answer in nodes)
    if ties > 1:
        yield f"{ties:,} nodes share the best total; one is drawn at random, always the same one for the same input"


def _short(plugin: str, weights: Mapping[str, int]) -> str:
    name, weight = _SHORT.get(plugin, plugin), weights.get(plugin, 1)
    return f"{name}×{weight}" if weight != 1 else name


# -- nodes that do not ------------------------------------------------------------------------------------------------


def refused_together(nodes: Iterable[NodeAnswer]) -> list[tuple[tuple[str, tuple[str, ...]], list[NodeAnswer]]]:
    """Refused nodes by plugin and reasons, largest group first."""
    groups = grouped(((answer.rejected_by, answer.reasons), answer) for answer in nodes)
    return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))


def _print_refused(nodes: Sequence[NodeAnswer], page: Page) -> None:
    ordered = refused_together(nodes)
    misses = [nearest_miss(refused) for _, refused in ordered[:MAX_ROWS]]
    heads = ("REFUSED", "BY", "WHY", *(["NEAREST MISS"] if any(misses) else []), "NODES")
    rows: list[Row] = []
    for ((plugin, reasons), refused), miss in zip(ordered[:MAX_ROWS], misses, strict=True):
        where = text(named([answer.name for answer in refused]), style="dim")
        missed = [miss] if any(misses) else []
        rows.append((f"{len(refused):,}", plugin, text(", ".join(reasons), style="red"), *missed, where))
    page.table(FittedTable(heads, "1" + "w" * (len(heads) - 1), rows))
    count = sum(len(names) for _, names in ordered[MAX_ROWS:])
    page.more(len(ordered) - MAX_ROWS, f"more reasons for {count:,} nodes")


def nearest_node(refused: Sequence[NodeAnswer]) -> str:
    """The refused node that came nearest to fitting; empty when unknown."""
    return min(((answer.miss, answer.name) for answer in refused if answer.miss is not None), default=(None, ""))[1]


def nearest_miss(refused: Sequence[NodeAnswer]) -> str:
    """What storage the nearest refused node lacks, and what would help other nodes."""
    misses = [(miss, answer.name) for answer in refused if (miss := answer.miss) is not None]
    if not misses:
        return ""
    nearest, name = min(misses)
    told = nearest.told if len({miss.told for miss, _ in misses}) == 1 else f"{name}: {nearest.told}"
    helped = grouped((miss.hint, other) for miss, other in misses if miss.hint and not nearest.hint)
    if not helped:
        return told
    hint, names = max(helped.items(), key=lambda item: len(item[1]))
    return f"{told}; {named(names)}: {hint}"


_MOST_EXPLAINED = 3
"""How many pods that do not fit, each for other reasons, are explained in full."""


def print_workloads(answers: Sequence[WorkloadAnswer], weights: Mapping[str, int], page: Page) -> None:
    for number, answer in enumerate(answers):
        if number:
            page.blank()
        _print_workload(answer, weights, page)


def _print_workload(answer: WorkloadAnswer, weights: Mapping[str, int], page: Page) -> None:
    pods = answer.pods
    page.say(_workload_headline(answer))
    decided = [pod for pod in pods if pod.explanation is not None]
    if pods:
        page.blank()
        shown, rows = _shown(pods), []
        like: dict[str, str] = {}
        for each in shown:
            first = like.setdefault(_told(each), each.key)
            is_again = not each.fits and first != each.key
            told = f"does not fit either; as {first}" if is_again else _told(each)
            rows.append((each.key, text(each.node, style="green"), text(told, style="" if each.fits else "red")))
        page.table(FittedTable(("POD", "NODE", "ANSWER"), "www", rows))
        page.more(len(pods) - len(shown), "more pods")
        counted = Counter(pod.node for pod in pods if pod.node)
        if len(pods) > 1 and counted:
            by_node = [
                f"{node} {count:,}" for node, count in sorted(counted.items(), key=lambda each: (-each[1], each))
            ]
            page.say(text(f"by node: {named(by_node, most=MAX_ROWS, examples=MAX_ROWS)}", style="dim"))
    for explanation in _explained(decided):
        page.blank()
        print_explanation(explanation, weights, page)


def _workload_headline(answer: WorkloadAnswer) -> Text:
    count, fitting = len(answer.pods), sum(pod.fits for pod in answer.pods)
    name = (answer.name, "bold")
    if not count:
        return assembled(name, " asks for no pods")
    pods = "1 pod" if count == 1 else f"{count:,} pods"
    if fitting == count:
        return assembled(name, f": {pods}, ", ("which fits" if count == 1 else "all of which fit", "bold green"))
    if not fitting:
        return assembled(name, f": {pods}, ", ("which does not" if count == 1 else "none of which", "bold red"), " fit")
    left = count - fitting
    told = f"{fitting:,} fit{'s' if fitting == 1 else ''} and "
    return assembled(name, f": {pods}, of which {told}", (f"{left:,} {'does' if left == 1 else 'do'} not", "bold red"))


def _shown(pods: Sequence[PodAnswer]) -> list[PodAnswer]:
    """The first of many pods, and as many of those that do not fit as there is room for."""
    if len(pods) <= MAX_ROWS:
        return list(pods)
    refused = [answer for answer in pods if not answer.fits][: MAX_ROWS // 2]
    keys = {answer.key for answer in [*refused, *(answer for answer in pods if answer.fits)][:MAX_ROWS]}
    return [answer for answer in pods if answer.key in keys]


def _told(each: PodAnswer) -> str:
    if each.fits:
        return each.message
    told = f"does not fit: {each.message}"
    if each.explanation is not None and each.explanation.held_back:
        told = each.message
    if each.explanation is not None and each.explanation.preemption is not None:
        told += f" {preemption_sentence(each.explanation.preemption)}"
    return told


def _explained(decided: Sequence[PodAnswer]) -> list[Explanation]:
    if len(decided) == 1 and decided[0].explanation is not None:
        return [decided[0].explanation]
    by_message = {each.message: each.explanation for each in reversed(decided) if not each.fits and each.explanation}
    return list(reversed(by_message.values()))[:_MOST_EXPLAINED]
