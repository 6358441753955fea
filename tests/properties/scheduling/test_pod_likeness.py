"""What pods that ask for the same have in common is what each would have had derived for itself.

A pod is compared with one that differs in a part, or in what a node says it holds for it; and with the same pod by
another name, in whose place it must take over everything that was derived.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_worlds import Maker, info_of
from test_pod_signatures import PARTS, exchanged

from examples_tried import tries
from tonnage.scheduling.cluster.pod_info import SHARED, PodInfo
from tonnage.testing.storage_builders import pod_with


def derived_alone(info: PodInfo) -> dict[str, Any]:
    """Everything that may be shared, as it is for a pod that nobody was before."""
    alone = PodInfo(info.pod)
    alone.is_compared = True
    return {name: getattr(alone, name) for name in SHARED}


@settings(max_examples=tries(150), deadline=None)
@given(seed=st.integers(0, 2**32), part=st.sampled_from((*PARTS, "status", "nodeName", "nothing")))
def test_a_pod_takes_over_only_what_it_would_have_derived(seed: int, part: str):
    make = Maker(seed)
    first = make.pod("first", on=random.Random(seed).choice(("", "", "a")))
    other = make.pod("second", on="a" if part in ("status", "nodeName") else "")
    second = exchanged(first, other, part) if part not in ("status", "nothing") else dict(first)
    if part == "status":
        second = {**second, "status": make.status(first["spec"]["containers"], first["spec"]["initContainers"])}
    one, two = info_of(first), info_of({**second, "metadata": {**first["metadata"], "uid": "second"}})
    for name in random.Random(seed).sample(SHARED, 3):
        getattr(one, name)
    for each in (two, one):
        assert {name: getattr(each, name) for name in SHARED} == derived_alone(each)


def test_pods_of_a_stateful_set_share_what_was_derived_for_the_first():
    first, second = (
        PodInfo(pod_with(f"db-{i}", f"data-db-{i}", cpu="100m", memory="64Mi", labels={"index": str(i)}))
        for i in range(2)
    )
    assert second.signature == first.signature
    assert second.requests is first.requests
    assert second.named_claims == (("data-db-1", "default/data-db-1"),)


def test_a_bound_pod_has_all_but_what_tells_of_its_node_and_takes_nobodys_place():
    waiting, bound, other = (PodInfo(pod_with(f"db-{i}", cpu="100m", memory="64Mi")) for i in range(3))
    bound = PodInfo(msgspec.structs.replace(bound.pod, spec=msgspec.structs.replace(bound.pod.spec, node_name="a")))
    assert waiting.signature and bound.requests is waiting.requests
    assert bound.node_constraints != waiting.node_constraints and bound.signature != waiting.signature
    assert other.signature is waiting.signature
