"""A pod's storage as a person reads it: on which nodes each claim is bound, or would be made of which pools.

    CLAIM      KIND     OF                        POOLS        TAKES          FIT         SLOTS  NODES
    shop/data  dynamic  kube-system/node-1-pools  100Gi, 60Gi  60Gi of 100Gi  guaranteed  2/16   node-1
    shop/data  dynamic  2 objects                 2×40Gi       needs 60Gi     none        0/16   node-2, node-3

Nodes that have the same to offer stand in one line, however their objects are called. `TAKES` is one way to share the
pools out; the driver may choose another, and `FIT` says whether that can go wrong. Where it is known how the driver
picks pools, `POLICY` says so, and below the table stands an order of the claims that goes wrong, if there is one.
Columns that say nothing are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tonnage.clock import rfc3339
from tonnage.printable import text
from tonnage.scheduling.volumes.explain.account_entries import (
    BOUND,
    DYNAMIC,
    REBUILD,
    STATIC,
    ClaimAccount,
    NodeAccount,
    Supply,
)
from tonnage.scheduling.volumes.explain.nearest_miss import amount, amounts, placed_badly
from tonnage.scheduling.volumes.packing import UNBOUNDED
from tonnage.whatif.page import FittedTable, TableColumn, TextPage, named

_HEADS = ("CLAIM", "KIND", "OF", "GROUP", "POOLS", "POLICY", "TAKES", "FIT", "HELD", "SLOTS")
_KEPT_HEADS = ("CLAIM", "KIND", "OF")
"""Shown whether they say anything or not."""
_MOST_BAD_ORDERS = 3
_WHOLE_HEADS = ("KIND", "POOLS", "POLICY", "TAKES", "FIT", "SLOTS")


@dataclass(slots=True)
class _Group:
    """Nodes that offer the same, and for each claim the objects or volumes that they offer it of."""

    cells: tuple[tuple[str, ...], ...]
    nodes: list[str]
    sources: list[dict[str, None]]


def print_volumes(accounts: Iterable[tuple[str, NodeAccount]], page: TextPage, *, max_rows: int) -> None:
    """Print nodes' accounts, in their order."""
    known = list(accounts)
    groups = list(_grouped(known))
    lines: list[tuple[str, ...]] = []
    shown = 0
    for group in groups:
        of_group = list(_lines(group))
        if shown and len(lines) + len(of_group) > max_rows:
            break
        lines += of_group
        shown += 1
    telling = [i for i, head in enumerate(_HEADS) if head in _KEPT_HEADS or any(line[i] for line in lines)]
    table = FittedTable(
        [*(TableColumn(_HEADS[i], is_whole=_HEADS[i] in _WHOLE_HEADS) for i in telling), TableColumn("NODES")]
    )
    for line in lines:
        table.add(*(line[i] for i in telling), text(line[-1], style="dim"))
    page.table(table)
    if hidden := groups[shown:]:
        count = sum(len(group.nodes) for group in hidden)
        page.say(text(f"… and {count:,} more nodes that differ from these", style="dim"))
    _print_bad_orders(known, page)


def claim_sentences(account: NodeAccount) -> Iterator[str]:
    """What becomes of each claim on a node, in a sentence each."""
    for each in account.claims:
        takes, source = _takes(each), _source(each)
        grade = f"; the fit is {each.supply.grade}" if each.supply.grade else ""
        if each.kind == BOUND:
            yield f"{each.claim} is bound to {each.volume}"
        elif each.kind == STATIC:
            yield f"{each.claim} takes the volume {each.volume}"
        elif each.miss is None:
            what = "is rebuilt here, and takes" if each.kind == REBUILD else "takes"
            yield f"{each.claim} {what} {takes} ({source}{grade})"


def _print_bad_orders(accounts: Iterable[tuple[str, NodeAccount]], page: TextPage) -> None:
    """Fits in which the order of the claims decides: the one that is safe, the one that is not, and on which nodes."""
    found: dict[str, dict[str, None]] = {}
    for name, account in accounts:
        for each in account.claims:
            if each.miss is None and (told := "; ".join(_orders_told(each.supply))):
                found.setdefault(told, {})[name] = None
    for told, nodes in list(found.items())[:_MOST_BAD_ORDERS]:
        page.say(text(f"{told} ({named(list(nodes))})", style="dim"))
    if len(found) > _MOST_BAD_ORDERS:
        page.say(text(f"… and {len(found) - _MOST_BAD_ORDERS:,} more like these", style="dim"))


def _orders_told(supply: Supply) -> Iterator[str]:
    if supply.order:
        yield f"ordered: {', then '.join(supply.order)} is asked for, each when the one before was made"
    if supply.bad_order:
        certainty = "" if supply.order else "possible only: "
        yield f"{certainty}asked in the wrong order, {placed_badly(supply.pool_policy, supply.bad_order)}"


def _grouped(accounts: Iterable[tuple[str, NodeAccount]]) -> Iterable[_Group]:
    found: dict[tuple[tuple[str, ...], ...], _Group] = {}
    for name, account in accounts:
        cells = tuple(_cells(each) for each in account.claims)
        group = found.setdefault(cells, _Group(cells, [], [{} for _ in cells]))
        group.nodes.append(name)
        for sources, each in zip(group.sources, account.claims, strict=True):
            sources[_source(each)] = None
    return found.values()


def _cells(each: ClaimAccount) -> tuple[str, ...]:
    """What a claim's line says, but for where its bytes come from: that differs from node to node."""
    supply = each.supply
    pools = amounts(pool for pool in supply.room.pools if pool < UNBOUNDED)
    if supply.room.claim_limit < UNBOUNDED:
        pools += f"{', ' if pools else ''}volumes up to {amount(supply.room.claim_limit)}"
    policy = supply.pool_policy
    return (each.kind, supply.group, pools, policy, _takes(each), supply.grade, _held(each), _slots(each), each.claim)


def _lines(group: _Group) -> Iterable[tuple[str, ...]]:
    """A line for each claim, and one for claims of which the same is to be said."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for cells, sources in zip(group.cells, group.sources, strict=True):
        what = "volumes" if cells[0] in (BOUND, STATIC) else "objects"
        source = next(iter(sources)) if len(sources) == 1 else f"{len(sources):,} {what}"
        alike.setdefault((cells[0], source, *cells[1:-1]), []).append(cells[-1])
    nodes = named(group.nodes)
    for said, claims in alike.items():
        more = f" and {len(claims) - 1} more" if len(claims) > 1 else ""
        yield (f"{claims[0]}{more}", *said, nodes)
        nodes = ""


def _source(each: ClaimAccount) -> str:
    if each.supply.capacity is not None:
        return each.supply.capacity.key
    return each.volume


def _takes(each: ClaimAccount) -> str:
    if each.size is None:
        return ""
    if each.miss is not None and each.kind in (DYNAMIC, REBUILD):
        return f"needs {amount(each.size)}"
    pool = each.supply.room.pools[each.takes] if each.takes is not None else UNBOUNDED
    return f"{amount(each.size)} of {amount(pool)}" if pool < UNBOUNDED else amount(each.size)


def _held(each: ClaimAccount) -> str:
    hold = each.supply.reserved_by
    if hold is not None:
        return f"by {hold.pod} since {rfc3339(hold.since)}"
    promised = sum(promise.bytes for promise in each.supply.promised)
    told = [f"{amount(promised)} promised"] if promised else []
    told += [f"{hold.claims[0]} {hold.why}" for hold in each.supply.resting]
    return "; ".join(told)


def _slots(each: ClaimAccount) -> str:
    return "" if each.slots is None else f"{each.slots.used}/{each.slots.limit}"
