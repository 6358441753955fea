"""What a plan says with the live controllers' inputs is what a simulation comes to."""

from __future__ import annotations

import math
import random

import msgspec
import pytest
from simulated import world_of

from tonnage.behaviour.nodes.kubelet_admission import AdmittedPods
from tonnage.behaviour.nodes.node_lifecycle_plan import no_execute, plan
from tonnage.behaviour.volumes.binding_plan import Bind, ClaimInputs, claim_step
from tonnage.objects.core_v1 import ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.node_selectors import NO_EXECUTE, UNREACHABLE, Taint
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import claim, volume
from tonnage.whatif.simulate.node_events import NodeEvents


def bindings_by_the_binder(claims: list[PersistentVolumeClaim], volumes: list[PersistentVolume]) -> dict[str, str]:
    """Claim after claim with the inputs of `PersistentVolumeBinder`: volumes that name the claim, and unbound ones."""
    replace, found = msgspec.structs.replace, {each.name: each for each in volumes}
    bound: dict[str, str] = {}
    for each in claims:
        named = [one for one in found.values() if one.spec.claim_ref and one.spec.claim_ref.key == each.key]
        unbound = [
            replace(one, status=replace(one.status, phase="Available"))
            for one in found.values()
            if one.spec.claim_ref is None
        ]
        step = claim_step(each, ClaimInputs(found.get, [*named, *unbound], None, None, lambda: ()))
        if isinstance(step, Bind):
            owner = ObjectReference(namespace=each.namespace, name=each.name, uid=each.uid)
            spec = replace(step.volume.spec, claim_ref=owner)
            found[step.volume.name] = replace(step.volume, spec=spec)
            bound[each.name] = step.volume.name
    return bound


@pytest.mark.parametrize("seed", range(30))
def test_claims_get_the_volumes_that_the_binder_gives_them(seed: int) -> None:
    rng = random.Random(seed)
    volumes, claims = [], []
    for number in range(rng.randint(1, 8)):
        made = volume(f"v{number}", size=f"{rng.randint(1, 5)}Gi", class_name=rng.choice(("a", "b")))
        if rng.random() < 0.2:
            chosen = ObjectReference(namespace="default", name=f"c{rng.randint(0, 5)}")
            made = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, claim_ref=chosen))
        volumes.append(made)
    for number in range(rng.randint(1, 6)):
        wish = claim(f"c{number}", size=f"{rng.randint(1, 5)}Gi", class_name=rng.choice(("a", "b")))
        if rng.random() < 0.2:
            wish = msgspec.structs.replace(
                wish, spec=msgspec.structs.replace(wish.spec, volume_name=f"v{rng.randint(0, 8)}")
            )
        claims.append(wish)
    world, _ = world_of(*volumes, *claims)
    world.run_until(60.0)
    simulated = {each.name: each.spec.volume_name for each in world.all(PersistentVolumeClaim) if each.is_bound}
    assert simulated == bindings_by_the_binder(claims, volumes)


@pytest.mark.parametrize("seconds", [None, 0, 7, -1, "none", "two"])
def test_pods_leave_a_lost_node_when_the_eviction_plan_says(seconds: int | str | None) -> None:
    tolerated = {"key": UNREACHABLE, "operator": "Exists", "effect": NO_EXECUTE}
    tolerations = {
        "none": [],
        "two": [{**tolerated, "tolerationSeconds": 20}, {**tolerated, "tolerationSeconds": 5}],
    }.get(str(seconds), [tolerated if seconds is None else {**tolerated, "tolerationSeconds": seconds}])
    guest = pod("guest", on="n", status={"phase": "Running"}, tolerations=tolerations)
    taints = no_execute((Taint(key=UNREACHABLE, effect=NO_EXECUTE),))
    planned = plan(guest.uid, None, taints, guest.spec.tolerations, 0.0)
    due_s = math.inf if planned is None else planned.due_s
    world, _ = world_of(node("n"), guest)
    NodeEvents(world).fail("n")
    left_s = math.inf
    for second in range(30):
        world.run_until(float(second))
        now = world.get(Pod, "default/guest")
        if now is None or now.metadata.is_terminating:
            left_s = float(second)
            break
    assert left_s == due_s


@pytest.mark.parametrize("cpus", [["1", "1"], ["1", "2"], ["3"], ["1", "1", "1"]])
def test_a_node_refuses_the_pods_that_its_kubelet_refuses(cpus: list[str]) -> None:
    host = node("n", cpu="2")
    guests = [pod(f"p{number}", cpu=cpu, on="n") for number, cpu in enumerate(cpus)]
    admitted, refused = AdmittedPods(), {}
    for each in guests:
        verdict = admitted.judge(each, host, lambda uid: True)
        if verdict is not None:
            refused[each.name] = getattr(verdict, "reason", "")
    world, _ = world_of(host, *guests)
    world.run_until(60.0)
    assert {each.name: each.status.reason for each in world.pods() if each.status.phase == "Failed"} == refused
