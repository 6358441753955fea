"""One node's part in a pod's volumes as plain facts: as `explain -o json` promises them, and by object for the log.

`volume_account.py` works them out; `whatif/explain_report.py` shows them to people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tonnage.clock import rfc3339
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.volumes.capacity.pools import NO_ROOM, Room
from tonnage.scheduling.volumes.explain.nearest_miss import Miss, PlacedStep, amount, elsewhere
from tonnage.scheduling.volumes.packing.pool_fits import UNBOUNDED
from tonnage.scheduling.volumes.reservations.holds import Hold

BOUND, STATIC, DYNAMIC, REBUILD = "bound", "static", "dynamic", "rebuild"


@dataclass(frozen=True, slots=True)
class Slots:
    """Attach slots of one driver on one node; `new` are those the pod would take. No limit is None."""

    driver: str
    used: int
    limit: int | None
    new: int

    @property
    def miss(self) -> Miss | None:
        if self.limit is None or not self.new or self.used + self.new <= self.limit:
            return None
        more = f", needs {self.new} more" if self.new > 1 or self.used < self.limit else ""
        return elsewhere(f"attach slots {self.used} of {self.limit} used{more} ({self.driver})")


@dataclass(frozen=True, slots=True)
class Supply:
    """What one capacity object has for all claims of a class or capacity group. `places`: positions of pools by claim,
    none if it refuses them. `grade`: how sure it is that they fit, holds of others aside."""

    capacity: CSIStorageCapacity | None = None
    room: Room = NO_ROOM
    places: Mapping[Key, int] = field(default_factory=dict)
    grade: str = ""
    reserved_by: Hold | None = None
    promised: tuple[Hold, ...] = ()
    resting: tuple[Hold, ...] = ()
    """Promises that keep nothing back, because their volumes cannot be made."""
    miss: Miss | None = None
    group: str = ""
    """The capacity group of its class: others draw from the same pools."""
    pool_policy: str = ""
    """Which pool the driver takes, where that is known."""
    bad_order: tuple[PlacedStep, ...] = ()
    """An order of the claims that goes wrong with such a driver, if there is one."""
    order: tuple[Key, ...] = ()
    """How the claims are asked for, one after the other, where the fit is ordered."""
    refused: tuple[Supply, ...] = ()
    """Where no object of a node takes the claims: those that come less near than this one."""


NO_SUPPLY = Supply()


@dataclass(frozen=True, slots=True)
class ClaimAccount:
    """One claim on one node."""

    claim: Key
    kind: str
    size: int | None
    volume: str = ""
    supply: Supply = NO_SUPPLY
    miss: Miss | None = None
    slots: Slots | None = None

    @property
    def takes(self) -> int | None:
        """The position of the pool it would take, if the driver placed all claims as we would."""
        return self.supply.places.get(self.claim)

    def document(self) -> dict[str, Any]:
        """Sizes are quantities such as "100Gi"; `pools` are what the object says is free, largest first."""
        supply, told = self.supply, [each.told for each in (self.miss, self.slots and self.slots.miss) if each]
        found: dict[str, Any] = {"claim": self.claim, "kind": self.kind}
        if self.volume:
            found["volume"] = self.volume
        if self.kind in (DYNAMIC, REBUILD):
            found["capacity"] = supply.capacity.key if supply.capacity is not None else None
        if supply.group:
            found["capacityGroup"] = supply.group
        found["pools"] = [amount(pool) for pool in supply.room.pools if pool < UNBOUNDED]
        if self.size is not None:
            found["size"] = amount(self.size)
        if supply.room.claim_limit < UNBOUNDED:
            found["maximumVolumeSize"] = amount(supply.room.claim_limit)
        if self.takes is not None and supply.room.pools[self.takes] < UNBOUNDED:
            found["takes"] = {"pool": self.takes}
        if supply.grade:
            found["grade"] = supply.grade
        if supply.order:
            found["order"] = list(supply.order)
        if supply.pool_policy:
            found["poolPolicy"] = supply.pool_policy
        if supply.bad_order:
            found["badSequence"] = [each.document() for each in supply.bad_order]
        if supply.reserved_by is not None:
            found["reservedBy"] = {"pod": supply.reserved_by.pod, "since": rfc3339(supply.reserved_by.since)}
        if supply.promised:
            found["promised"] = [
                _hold(hold, size=amount(hold.bytes), since=rfc3339(hold.since)) for hold in supply.promised
            ]
        if supply.resting:
            found["resting"] = [_hold(hold, since=rfc3339(hold.since), why=hold.why) for hold in supply.resting]
        if self.slots is not None:
            found["attach"] = {"driver": self.slots.driver, "used": self.slots.used, "limit": self.slots.limit}
        if told:
            found["miss"] = "; ".join(told)
        return found


def _hold(hold: Hold, **more: str) -> dict[str, Any]:
    return {"claim": ", ".join(hold.claims), "pod": hold.pod or None, **more}


@dataclass(frozen=True, slots=True)
class NodeAccount:
    """One node's part in a pod's volumes, claim by claim."""

    claims: tuple[ClaimAccount, ...]

    def document(self) -> list[dict[str, Any]]:
        return [each.document() for each in self.claims]

    @property
    def room_miss(self) -> Miss | None:
        """Why VolumeBinding refuses the node, if it does: of several claims' misses the farthest, all of them told."""
        return _farthest([each.miss for each in self.claims if each.miss is not None])

    @property
    def slot_miss(self) -> Miss | None:
        """Why NodeVolumeLimits does."""
        return _farthest([each.slots.miss for each in self.claims if each.slots and each.slots.miss is not None])


def _farthest(misses: Sequence[Miss]) -> Miss | None:
    if not misses:
        return None
    told = "; ".join(dict.fromkeys(miss.told for miss in misses))
    hint = "; ".join(dict.fromkeys(miss.hint for miss in misses if miss.hint))
    return replace(max(misses), told=told, hint=hint)


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
