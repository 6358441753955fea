"""One node's part in a pod's volumes as plain facts, for `explain -o json` and the log, with its nearest miss.

    largest free pool 80Gi, needs 120Gi                     one claim is larger than every pool
    100Gi free, needs 200Gi together                        the pools' sum is too small
    takes 2 more volumes, needs 3                           the object tells how many volumes can still be made
    4×70Gi pack no way into 3×100Gi                         neither of the two, and still no packing
    4×70Gi may fit 3×100Gi: the search ended after …        undecided: the search budget of the decision was used up
    reserved by batch/job-0 since 2026-11-15T02:29:13Z      it would fit, but is reserved for a pod (mode Object)
    100Gi free, 80Gi promised to batch/job-0, needs 40Gi    the same by bytes (mode Ledger)

Misses are ordered: a wait is nearer than missing room, then fewer missing bytes are nearer. `volume_account.py`
computes the facts; `whatif/explain_report.py` shows them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from tonnage.clock import rfc3339
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.quantity import Quantity
from tonnage.scheduling.configuration.plugin_args import LegacyPools
from tonnage.scheduling.volumes.capacity.pools import NO_ROOM, Room, listed_pools, room_of
from tonnage.scheduling.volumes.packing.pool_fits import UNBOUNDED, UNLIMITED, SearchBudget, Sizes, fits_one
from tonnage.scheduling.volumes.packing.pool_grades import fits_beside_one
from tonnage.scheduling.volumes.packing.pool_policies import PackedClaim, PoolPolicy
from tonnage.scheduling.volumes.reservations.holds import Hold

_NAMED = 2
"""So many holders of a promise are named; the others are counted."""
MOST_AMOUNTS: Final = 40
"""So many pool sizes are listed; a server may publish a hundred thousand."""


@dataclass(frozen=True, slots=True, order=True)
class Miss:
    """One reason why a node is not enough; smaller is nearer."""

    rank: int
    lacking_bytes: int
    told: str
    hint: str = field(default="", compare=False)
    """What would help; `told` ends with it. A nearer miss must not hide it."""


_WAITS, _UNSURE, _LACKS, _UNKNOWN, _ELSEWHERE = range(5)


def elsewhere(told: str) -> Miss:
    """A miss that no room on this node can fix."""
    return Miss(_ELSEWHERE, 0, told)


def in_use(told: str) -> Miss:
    """A miss that ends when a pod does."""
    return Miss(_WAITS, 0, told)


def lacking(lacking_bytes: int, told: str) -> Miss:
    """A miss for want of room."""
    return Miss(_LACKS, lacking_bytes, told)


def out_of_reach(class_name: str) -> Miss:
    return Miss(_UNKNOWN, 0, f"no capacity object of class {class_name} reaches this node")


def room_miss(
    capacity: CSIStorageCapacity,
    room: Room,
    sizes: Sizes,
    held: Sizes | None,
    holds: Sequence[Hold],
    search: SearchBudget,
    pool_policy: PoolPolicy,
    bad_order: Sequence[PackedClaim],
) -> Miss:
    """Why one object refuses a group; `sizes` and `held` descending. `held` None: reserved. If `search` ran out, the
    miss says so."""
    if not room.is_known:
        return Miss(_UNKNOWN, 0, f"capacity object {capacity.key} does not say how much is free")
    undecided = search.undecided
    miss = lack(room, sizes, search)
    if search.undecided != undecided:
        return _not_searched(room, sizes, search)
    if miss is not None:
        hint = _if_bounded(capacity, room, sizes)
        return Miss(miss.rank, miss.lacking_bytes, f"{miss.told}; {hint}" if hint else miss.told, hint)
    if held is None:
        return in_use(reserved(holds))
    is_too_large = bool(sizes) and sizes[0] > room.claim_limit_beside(held)
    if not is_too_large and (miss := slots_miss(room, len(sizes), len(held), holds)) is not None:
        return miss
    if held and (is_too_large or not fits_beside_one(room.pools, sizes, held, search, pool_policy)):
        if search.undecided != undecided:
            return _not_searched(room, sizes, search)
        return promised_miss(room, sizes, held, holds)
    why = "only if the driver picks the right pools"
    if bad_order:
        why = f"only if the driver is asked in the right order: {placed_badly(pool_policy, bad_order)}"
    return Miss(_UNSURE, 0, f"{amounts(sizes)} fit {amounts(room.pools)} {why} (poolFit: Guaranteed)")


def _not_searched(room: Room, sizes: Sizes, search: SearchBudget) -> Miss:
    ended = f"the search ended after {search.limit} steps, and goes on when the pod is tried again"
    return Miss(_UNSURE, 0, f"{amounts(sizes)} may fit {amounts(room.pools)}: {ended}")


def lack(room: Room, sizes: Sizes, search: SearchBudget = UNLIMITED) -> Miss | None:
    """What the room lacks for these claims, ignoring holds; None if they fit."""
    largest, needed = room.pools[0], sizes[0] if sizes else 0
    more = "more than " if room.keeps else ""  # the driver wants a byte more than it takes
    if needed > room.claim_limit:
        told = f"largest volume {amount(room.claim_limit)}, needs {amount(needed)}"
        return Miss(_LACKS, needed - room.claim_limit, told)
    if largest >= UNBOUNDED or fits_one(room.pools, sizes, search):
        return slots_miss(room, len(sizes))
    shown, pool_count = room.shown_pools, len(room.pools)
    if needed > largest:
        return Miss(_LACKS, needed - largest, f"largest free pool {amount(shown[0])}, needs {more}{amount(needed)}")
    free, together = sum(room.pools), sum(sizes)
    if together > free:
        pools = f" in {pool_count} pools" if pool_count > 1 else ""
        return Miss(
            _LACKS, together - free, f"{amount(sum(shown))} free{pools}, needs {more}{amount(together)} together"
        )
    return Miss(_LACKS, 0, f"{amounts(sizes)} pack no way into {amounts(shown)}")


def slots_miss(room: Room, claims: int, promised: int = 0, holds: Sequence[Hold] = ()) -> Miss | None:
    """Why the object does not take so many volumes on top of those that are promised; None if it does."""
    if claims + promised <= room.slots:
        return None
    told = f"takes {more_volumes(room.slots)}"
    if claims > room.slots:
        return Miss(_LACKS, 0, f"{told}, needs {claims}")
    return Miss(_WAITS, 0, f"{told}, {promised} promised{_to_whom(holds)}, needs {claims}")


def more_volumes(count: int) -> str:
    return f"{count} more volume{'' if count == 1 else 's'}" if count else "no more volumes"


def _if_bounded(capacity: CSIStorageCapacity, room: Room, sizes: Sizes) -> str:
    """A hint if the object gives a sum and a maximum, is read as one pool, and would fit under `Bounded`."""
    if listed_pools(capacity) or room != room_of(capacity, LegacyPools.STRICT):
        return ""
    bounded = room_of(capacity, LegacyPools.BOUNDED)
    if bounded == room or lack(bounded, sizes) is not None:
        return ""
    together = "" if bounded.pools[0] >= UNBOUNDED else f", {amount(bounded.pools[0])} together"
    return f"legacyPools: Bounded would take it (each at most {amount(bounded.claim_limit)}{together})"


def reserved(holds: Sequence[Hold]) -> str:
    """Without holds the holder is gone already, but the capacity object's update has not arrived."""
    if not holds:
        return "reserved"
    return f"reserved by {holds[0].pod or ', '.join(holds[0].claims)} since {rfc3339(holds[0].since)}"


def promised_miss(room: Room, sizes: Sizes, promised: Sizes, holds: Sequence[Hold]) -> Miss:
    """What promises leave is not enough."""
    free, taken, together = sum(room.pools), sum(promised), sum(sizes)
    if free >= UNBOUNDED:  # claims are judged one by one
        free, together = room.free_bytes, sizes[0]
    told = f"{amount(free)} free, {amount(taken)} promised{_to_whom(holds)}, needs {amount(together)}"
    if taken + together <= free:
        left = f"no pool keeps {amount(sizes[0])} free" if len(sizes) == 1 else f"{amounts(sizes)} do not fit"
        told += f", and the driver may pick pools for the promised ones so that {left}"
    return Miss(_WAITS, max(taken + together - free, 0), told)


def _to_whom(holds: Sequence[Hold]) -> str:
    """Whose the promises are, and since when: to batch/job-0 since 2026-11-15T02:29:13Z."""
    if not holds:
        return ""
    names = list(dict.fromkeys(hold.pod or ", ".join(hold.claims) for hold in holds))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f" to {', '.join(names[:_NAMED])}{more} since {rfc3339(min(hold.since for hold in holds))}"


def placed_badly(pool_policy: str, steps: Sequence[PackedClaim]) -> str:
    """The text of an order that fails: most-free puts 60Gi into the pool of 100Gi, and 80Gi finds no room."""
    taken = [f"{amount(step.size)} into the pool of {amount(step.pool_bytes)}" for step in steps if step.pool_bytes]
    told = f"{pool_policy} puts {', then '.join(taken)}, " if taken else f"{pool_policy}: "
    return f"{told}and {amount(steps[-1].size)} finds no room"


# -- words ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def amount(number: int) -> str:
    """Bytes as a quantity: 80Gi. Cached: many pools have the same size."""
    return str(Quantity.from_bytes(number))


def amounts(numbers: Iterable[int]) -> str:
    """Several quantities, largest first, equal ones counted: 2×100Gi, 60Gi. A long list is cut, with a count."""
    counted = Counter(numbers)
    told = [
        f"{count}×{amount(each)}" if count > 1 else amount(each)
        for each, count in islice(counted.items(), MOST_AMOUNTS)
    ]
    left = counted.total() - sum(islice(counted.values(), MOST_AMOUNTS))
    return ", ".join([*told, f"and {left:,} more"] if left else told)


BOUND, STATIC, DYNAMIC, REBUILD = "bound", "static", "dynamic", "rebuild"


@dataclass(frozen=True, slots=True)
class Slots:
    """Attach slots of one driver on one node. `new`: the slots that the pod would take. `limit` None: no limit."""

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
    """What one capacity object has for all claims of a class or capacity group. `places`: by claim, the position of its
    pool; empty if the object refuses. `grade`: ignores holds of others."""

    capacity: CSIStorageCapacity | None = None
    room: Room = NO_ROOM
    places: Mapping[Key, int] = field(default_factory=dict)
    grade: str = ""
    reserved_by: Hold | None = None
    promised: tuple[Hold, ...] = ()
    resting: tuple[Hold, ...] = ()
    """Promises that hold nothing, because their volumes cannot be created."""
    miss: Miss | None = None
    group: str = ""
    """The capacity group of its class, whose classes share the pools."""
    shares: tuple[str, ...] = ()
    """Other classes that have some of the pools, by their ids."""
    pool_policy: str = ""
    """Which pool the driver chooses, if known."""
    bad_order: tuple[PackedClaim, ...] = ()
    """An order of the claims that fails with this driver, if there is one."""
    order: tuple[Key, ...] = ()
    """The order in which the claims are sent, if the grade is ordered."""
    refused: tuple[Supply, ...] = ()
    """If no object of the node fits: the other objects, which miss by more than this one."""


NO_SUPPLY = Supply()


@dataclass(frozen=True, slots=True)
class ClaimAccount:
    claim: Key
    kind: str
    size: int | None
    """The bytes that are taken or asked for, by the class's size rules."""
    volume: str = ""
    supply: Supply = NO_SUPPLY
    miss: Miss | None = None
    slots: Slots | None = None
    sized: str = ""
    """Why the driver takes more than the claim asks for: 10200Mi asked, the driver rounds up to whole Gi."""
    copies: int = 1
    """On how many nodes its volume takes its size."""

    @property
    def takes(self) -> int | None:
        """The position of the pool that the claim would take in our own packing."""
        return self.supply.places.get(self.claim)

    def document(self) -> dict[str, Any]:
        """Sizes are quantities such as "100Gi"; `pools` are the object's free pools, largest first."""
        supply, room, slots, reserved_by = self.supply, self.supply.room, self.slots, self.supply.reserved_by
        is_packed = self.takes is not None and room.pools[self.takes] < UNBOUNDED
        told = {
            "claim": self.claim,
            "kind": self.kind,
            "volume": self.volume,
            "capacity": supply.capacity.key if supply.capacity is not None else None,
            "capacityGroup": supply.group,
            "sharesPoolsWith": list(supply.shares),
            "pools": [amount(pool) for pool in room.shown_pools],
            "size": amount(self.size) if self.size is not None else "",
            "sized": self.sized,
            "maximumVolumeSize": amount(room.claim_limit) if room.claim_limit < UNBOUNDED else "",
            "freeVolumes": room.slots if room.slots < UNBOUNDED else None,
            "takes": {"pool": self.takes} if is_packed else None,
            "copies": self.copies if self.copies > 1 else None,
            "grade": supply.grade,
            "order": list(supply.order),
            "poolPolicy": supply.pool_policy,
            "badSequence": [_step(packed_claim) for packed_claim in supply.bad_order],
            "reservedBy": {"pod": reserved_by.pod, "since": rfc3339(reserved_by.since)} if reserved_by else None,
            "promised": [_hold(hold, size=amount(hold.bytes), since=rfc3339(hold.since)) for hold in supply.promised],
            "resting": [_hold(hold, since=rfc3339(hold.since), why=hold.why) for hold in supply.resting],
            "attach": {"driver": slots.driver, "used": slots.used, "limit": slots.limit} if slots else None,
            "miss": self.misses_told,
        }
        always = ["claim", "kind", "pools", "capacity" if self.kind in (DYNAMIC, REBUILD) else ""]
        always += ["freeVolumes"] if room.slots < UNBOUNDED else []
        return {name: value for name, value in told.items() if value or name in always}

    @property
    def misses_told(self) -> str:
        return "; ".join(miss.told for miss in (self.miss, self.slots and self.slots.miss) if miss)


def _step(step: PackedClaim) -> dict[str, Any]:
    pool = amount(step.pool_bytes) if step.pool_bytes is not None else None
    return {"claim": step.claim or None, "size": amount(step.size), "pool": pool}


def _hold(hold: Hold, **more: str) -> dict[str, Any]:
    return {"claim": ", ".join(hold.claims), "pod": hold.pod or None, **more}


@dataclass(frozen=True, slots=True)
class NodeAccount:
    """One node's account of a pod's volumes, claim by claim."""

    claims: tuple[ClaimAccount, ...]

    def document(self) -> list[dict[str, Any]]:
        return [account.document() for account in self.claims]

    @property
    def room_miss(self) -> Miss | None:
        """Why VolumeBinding refuses the node, or None: the farthest miss of all claims, with the texts of all."""
        return _farthest([account.miss for account in self.claims if account.miss is not None])

    @property
    def slot_miss(self) -> Miss | None:
        """Why NodeVolumeLimits refuses the node, or None."""
        return _farthest([claim.slots.miss for claim in self.claims if claim.slots and claim.slots.miss is not None])


def _farthest(misses: Sequence[Miss]) -> Miss | None:
    if not misses:
        return None
    told = "; ".join(dict.fromkeys(miss.told for miss in misses))
    hint = "; ".join(dict.fromkeys(miss.hint for miss in misses if miss.hint))
    return replace(max(misses), told=told, hint=hint)


MAX_NAMED_NODES: Final = 5


def considered_objects(accounts: Mapping[str, object]) -> list[dict[str, Any]]:
    """The fields of log lines about all considered capacity objects and volumes, in the order of the names of their
    nodes; one line for equal outcomes on several nodes. Empty fields are left out; a long list of nodes is cut."""
    grades: dict[tuple[Any, ...], str] = {}
    claims: dict[tuple[Any, ...], dict[str, None]] = defaultdict(dict)
    nodes: dict[tuple[Any, ...], dict[str, None]] = defaultdict(dict)
    for node, account in accounts.items():
        for claim in account.claims if isinstance(account, NodeAccount) else ():
            refused = [(each, each.miss.told if each.miss is not None else "") for each in claim.supply.refused]
            for supply, reason in ((claim.supply, claim.misses_told), *refused):
                key = supply.capacity.key if supply.capacity is not None else ""
                pools = tuple(amount(pool) for pool in supply.room.shown_pools)
                outcome = (claim.kind, key, claim.volume, pools, reason)
                grades.setdefault(outcome, "" if reason else supply.grade)
                claims[outcome][claim.claim] = nodes[outcome][node] = None
    found = []
    for outcome, grade in grades.items():
        kind, key, volume, pools, reason = outcome
        told = {
            "kind": kind,
            "object": key,
            "volume": volume,
            "pools": list(pools),
            "claims": list(claims[outcome]),
            "fits": not reason,
            "grade": grade,
            "reason": reason,
            "nodes": list(nodes[outcome])[:MAX_NAMED_NODES],
            "node_count": len(nodes[outcome]),
        }
        found.append({name: value for name, value in told.items() if value not in ("", [])})
    return found
