"""The account of a pod's volumes agrees with the decision: a node has a miss exactly when VolumeBinding refuses it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.configurations import storage_configuration
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.volumes.explain.account_entries import NodeAccount
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume
from tonnage.whatif.replay import Replay

CLASSES = ("fast", "slow")


def some_world(rng: random.Random) -> list[Object]:
    """A few nodes, objects of every form, free and bound volumes, and pods of one to three claims."""
    names = [f"n{i}" for i in range(rng.randint(1, 4))]
    found: list[Object] = [driver(rebuilding=rng.random() < 0.5), *map(storage_class, CLASSES)]
    found += [node(name, unschedulable=rng.random() < 0.2) for name in names]
    for number in range(rng.randint(0, 6)):
        form: dict[str, Any] = rng.choice(
            [
                {"pools": [f"{rng.randint(1, 12)}Gi" for _ in range(rng.randint(1, 3))]},
                {"free": f"{rng.randint(1, 20)}Gi"},
                {"free": f"{rng.randint(5, 20)}Gi", "maximum": f"{rng.randint(1, 12)}Gi"},
                {},
            ]
        )
        most = rng.choice((None, None, rng.randint(0, 4)))
        where: dict[str, Any] = {"topology": {}} if rng.random() < 0.2 else {"node": rng.choice(names)}
        found.append(capacity(rng.choice(CLASSES), name=f"o{number}", free_volumes=most, **where, **form))
    for number in range(rng.randint(0, 2)):
        found.append(volume(f"free-{number}", f"{rng.randint(1, 12)}Gi", on=rng.choice(names)))
    for each in range(4):
        mounted = [f"p{each}-{number}" for number in range(rng.randint(1, 3))]
        found.append(pod_with(f"p{each}", *mounted))
        for name in mounted:
            size, of_class, state = f"{rng.randint(1, 10)}Gi", rng.choice(CLASSES), rng.random()
            selected = rng.choice([*names, "gone"]) if state < 0.3 else ""
            if state < 0.2:
                on = rng.choice([None, rng.choice(names)])
                found.append(volume(f"pv-{name}", size, class_name=of_class, claim=f"default/{name}", on=on))
            bound_to = f"pv-{name}" if state < 0.2 else ""
            found.append(claim(name, size, class_name=of_class, volume=bound_to, selected_node=selected))
    return found


def check(answer: Explanation) -> None:
    for each in answer.nodes:
        if each.rejected_by not in ("", "VolumeBinding"):
            continue  # somebody before VolumeBinding spoke for the node
        if each.held_by:
            continue  # room is held for pods whose claims have this node; those are told of beside the account
        account = answer.volumes[each.name]
        assert isinstance(account, NodeAccount)
        assert (account.room_miss is not None) == (each.rejected_by == "VolumeBinding"), (each, account)
        taken: Counter[tuple[str, int]] = Counter()
        for entry in account.claims:
            if entry.takes is not None and entry.supply.capacity is not None and entry.size is not None:
                taken[entry.supply.capacity.key, entry.takes] += entry.size
                assert taken[entry.supply.capacity.key, entry.takes] <= entry.supply.room.pools[entry.takes]


@settings(max_examples=tries(60), deadline=None)
@given(
    st.integers(0, 1 << 32),
    st.sampled_from(["Object", "Ledger", "None"]),
    st.sampled_from(["Possible", "Guaranteed"]),
    st.sampled_from(["Strict", "Bounded", "Independent"]),
)
def test_a_node_has_a_miss_exactly_when_volume_binding_refuses_it(seed, reservation, pool_fit, legacy):
    text = storage_configuration(reservation=reservation, poolFit=pool_fit, legacyPools=legacy)
    profiles = parse(text, source="config.yaml").profiles
    run = Replay(some_world(random.Random(seed)), profiles)
    for each in range(4):
        check(run.schedule(f"default/p{each}"))
