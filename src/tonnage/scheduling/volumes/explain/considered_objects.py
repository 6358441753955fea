"""What an attempt looked at for a pod's volumes: every capacity object with its pools, and why it would not do.

    pod       object                     claims       pools          fits   reason                                nodes
    shop/db   kube-system/node-1-pools   shop/data    [100Gi, 60Gi]  false  largest free pool 100Gi, needs 120Gi  node-1
    shop/db   kube-system/zone-a-pools   shop/data    [200Gi]        true                                         3

The accounts of `explain`, turned round: by object instead of by node, for the scheduler's log at raised verbosity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tonnage.scheduling.volumes.explain.account_entries import ClaimAccount, NodeAccount, Supply
from tonnage.scheduling.volumes.explain.nearest_miss import amount
from tonnage.scheduling.volumes.packing import UNBOUNDED

MAX_NAMED_NODES: Final = 5


@dataclass(slots=True)
class Considered:
    """One capacity object or volume, for some claims, with the same outcome on these nodes."""

    kind: str
    object: str
    volume: str
    pools: tuple[str, ...]
    reason: str
    """Why it would not do; empty when it would."""
    grade: str = ""
    claims: dict[str, None] = field(default_factory=dict)
    nodes: dict[str, None] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """As fields of a log line; those that say nothing are left out, and of many nodes a few are named."""
        named = list(self.nodes)
        told = {
            "kind": self.kind,
            "object": self.object,
            "volume": self.volume,
            "pools": list(self.pools),
            "claims": list(self.claims),
            "fits": not self.reason,
            "grade": self.grade,
            "reason": self.reason,
            "nodes": named[:MAX_NAMED_NODES],
            "node_count": len(named),
        }
        return {name: value for name, value in told.items() if value not in ("", [])}


def considered_objects(accounts: Mapping[str, object]) -> list[Considered]:
    """All that was considered, in the order of the nodes, by name, that it was considered for."""
    found: dict[tuple[str, ...], Considered] = {}
    for node, account in accounts.items():
        if not isinstance(account, NodeAccount):
            continue
        for claim in account.claims:
            for supply, reason in _looked_at(claim):
                key = supply.capacity.key if supply.capacity is not None else ""
                pools = tuple(amount(pool) for pool in supply.room.pools if pool < UNBOUNDED)
                same = (claim.kind, key, claim.volume, ",".join(pools), reason)
                entry = found.setdefault(
                    same, Considered(claim.kind, key, claim.volume, pools, reason, supply.grade if not reason else "")
                )
                entry.claims[claim.claim] = None
                entry.nodes[node] = None
    return list(found.values())


def _looked_at(claim: ClaimAccount) -> Iterator[tuple[Supply, str]]:
    misses = [each.told for each in (claim.miss, claim.slots and claim.slots.miss) if each]
    yield claim.supply, "; ".join(misses)
    for supply in claim.supply.refused:
        yield supply, supply.miss.told if supply.miss is not None else ""
