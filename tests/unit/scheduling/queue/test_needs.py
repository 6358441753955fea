"""Classes by what they need: those that are found are those that one by one would be (queue/waiting_pods.py)."""

from __future__ import annotations

import random
from collections.abc import Hashable

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.queue.waiting_pods import EquivalenceClass, Needy, Offer, RefusedClasses
from tonnage.scheduling.volumes.demand import volume_sign
from tonnage.testing.storage_builders import claim, pod_with


def a_class(key: str) -> EquivalenceClass:
    return EquivalenceClass(key, "default-scheduler", ("Fit",))


def is_helped(needy: Needy | None, offer: Offer) -> bool:
    """The plain twin."""
    if needy is None or (needy.preempts_with is not None and needy.preempts_with > offer.preempting_above):
        return True
    return any(offer.amounts.get(what, -1) >= amount for what, amount in needy.needs.items())


def test_the_index_finds_whom_one_by_one_would_find() -> None:
    rng = random.Random(1)
    refused, twin = RefusedClasses(), dict[str, tuple[EquivalenceClass, Needy | None]]()
    for number in range(600):
        if twin and rng.random() < 0.45:
            key = rng.choice(sorted(twin))
            del twin[key]
            refused.remove(key)
        else:
            found = a_class(f"c{number}")
            needs: dict[Hashable, int] = {what: rng.randint(0, 9) for what in rng.sample("xyz", rng.randint(1, 3))}
            needy = None if rng.random() < 0.1 else Needy(needs, rng.choice((None, 0, 5)))
            twin[f"c{number}"] = found, needy
            refused.put(found, needy)
        offer = Offer(
            {what: rng.randint(0, 9) for what in rng.sample("xyz", rng.randint(0, 3))}, rng.choice((-1, 0, 9))
        )
        expected = {key for key, (_, needy) in twin.items() if is_helped(needy, offer)}
        assert {each.key for each in refused.helped_by(offer)} == expected
        assert {each.key for each in refused.everyone()} == set(twin)
        assert len(refused) == len(twin)


def test_claims_that_differ_by_an_annotated_class_are_told_apart() -> None:
    cluster, signs = Cluster(), []
    for name in ("fast", "slow"):
        annotated = {"annotations": {"volume.beta.kubernetes.io/storage-class": name}}
        cluster.storage.put(claim(f"{name}-0", class_name=None, metadata=annotated))
        signs.append(volume_sign(PodInfo(pod_with(name, f"{name}-0")), cluster))
    assert signs[0] != signs[1]
