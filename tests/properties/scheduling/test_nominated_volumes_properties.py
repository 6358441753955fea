"""Volumes of nominated pods beside a newcomer's: the answer is that of a twin which tries every way to share them out.

The twin knows one node. An expected pod counts if each of its groups fits some object alone. The newcomer fits if every
group that draws from its classes can be given an object so that each object holds all it is given; in mode Object none
is given groups of a pod on its way and of a newcomer.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.configurations import storage_configuration
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.profiles import assemble
from tonnage.testing.builders import cluster_of, node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class

CLASSES = ("fast", "slow")
Objects = Mapping[str, Sequence[tuple[int, ...]]]
"""By class, the free pools of each object that reaches the node, in GiB."""


class Wants(NamedTuple):
    """A pod: by class the sizes of its claims, and the classes for whose claims the node was selected."""

    sizes: Mapping[str, tuple[int, ...]]
    selected: frozenset[str] = frozenset()


# -- the twin ---------------------------------------------------------------------------------------------------------


def packs(pools: Sequence[int], sizes: Sequence[int]) -> bool:
    for ways in product(range(len(pools)), repeat=len(sizes)):
        if all(sum(size for size, way in zip(sizes, ways, strict=True) if way == n) <= p for n, p in enumerate(pools)):
            return True
    return False


def can_come(objects: Objects, pod: Wants) -> bool:
    return all(any(packs(pools, sizes) for pools in objects[name]) for name, sizes in pod.sizes.items())


def fits_beside(objects: Objects, newcomer: Wants, expected: Sequence[Wants], *, is_whole: bool) -> bool:
    counted = [newcomer, *(each for each in expected if can_come(objects, each))]
    return all(_holds(objects[name], name, counted, is_whole=is_whole) for name in newcomer.sizes)


def _holds(pools_of: Sequence[tuple[int, ...]], name: str, pods: Sequence[Wants], *, is_whole: bool) -> bool:
    parts = [(each.sizes[name], name in each.selected) for each in pods if name in each.sizes]
    for way in product(range(len(pools_of)), repeat=len(parts)):
        given_to = [[part for part, at in zip(parts, way, strict=True) if at == n] for n in range(len(pools_of))]
        is_mixed = is_whole and any(len({is_sent for _, is_sent in group}) > 1 for group in given_to)
        if not is_mixed and all(
            packs(pools, [size for sizes, _ in group for size in sizes])
            for pools, group in zip(pools_of, given_to, strict=True)
        ):
            return True
    return False


# -- the world --------------------------------------------------------------------------------------------------------


def wanted(rng: random.Random, *, may_be_sent: bool) -> Wants:
    names = rng.choice((("fast",), ("fast",), ("slow",), CLASSES))
    sizes = {name: tuple(rng.randint(1, 6) for _ in range(rng.choice((1, 1, 2)))) for name in names}
    sent = [name for name in names if may_be_sent and rng.random() < 0.4]
    return Wants(sizes, frozenset(sent))


def pod_of(name: str, wants: Wants) -> tuple[PodInfo, list[Any]]:
    claims = [
        claim(f"{name}-{of}-{n}", f"{size}Gi", class_name=of, selected_node="a" if of in wants.selected else "")
        for of, sizes in wants.sizes.items()
        for n, size in enumerate(sizes)
    ]
    return PodInfo(pod_with(name, *(each.name for each in claims))), claims


def judged(seed: int, reservation: str) -> tuple[bool, bool, bool]:
    """Whether the newcomer fits by the profile, by the twin, and by the twin if nobody were expected."""
    rng = random.Random(seed)
    pools = {of: [tuple(rng.randint(1, 9) for _ in range(rng.choice((1, 2)))) for _ in range(3)] for of in CLASSES}
    objects: Objects = {of: pools[of][: rng.choice((0, 1, 2, 2, 3))] for of in CLASSES}
    expected = [wanted(rng, may_be_sent=reservation != "Ledger") for _ in range(rng.randint(1, 3))]
    newcomer = wanted(rng, may_be_sent=False)
    on_a = {"matchLabels": {"kubernetes.io/hostname": "a"}}
    known: list[Any] = [node("a"), driver(), *map(storage_class, CLASSES)]
    for of, rooms in objects.items():
        for n, room in enumerate(rooms):
            known.append(capacity(of, name=f"{of}-{n}", pools=[f"{each}Gi" for each in room], topology=on_a))
    asking, claims = pod_of("new", newcomer)
    known += claims
    held = []
    for n, each in enumerate(expected):
        info, claims = pod_of(f"expected-{n}", each)
        known += claims
        held.append(("a", info))
    profile = parse(storage_configuration(reservation=reservation), source="a property").profiles[0]
    decider = assemble(profile, random.Random(1)).decider
    is_whole = reservation == "Object"
    return (
        decider.decide(cluster_of(*known), asking, held).fits,
        fits_beside(objects, newcomer, expected, is_whole=is_whole),
        fits_beside(objects, newcomer, [], is_whole=is_whole),
    )


@pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])
@settings(max_examples=tries(60), deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_newcomer_fits_beside_expected_pods_where_the_twin_finds_a_way(reservation: str, seed: int) -> None:
    found, told, _ = judged(seed, reservation)
    assert found == told


def test_expected_pods_decide_many_of_these_questions() -> None:
    """Else the property above would say nothing."""
    told = [judged(seed, "Object")[1:] for seed in range(60)]
    assert sum(beside != alone for beside, alone in told) > 10
    assert sum(beside for beside, _ in told) > 10
