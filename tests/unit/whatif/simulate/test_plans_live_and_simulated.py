"""What a plan says with the live controllers' inputs is what a simulation comes to."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from simulated import cluster, played, stateful_set, workload, world_of

from tonnage.behaviour.nodes.kubelet_admission import AdmittedPods
from tonnage.behaviour.nodes.node_lifecycle_plan import no_execute, plan
from tonnage.behaviour.volumes.binding_plan import Bind, ClaimInputs, claim_step
from tonnage.behaviour.workloads import stateful_set_plan
from tonnage.behaviour.workloads.daemon_set_plan import DaemonPlan, ObservedDaemons, manage
from tonnage.behaviour.workloads.pod_states import is_active, ordinal_of
from tonnage.behaviour.workloads.replica_set_plan import missing_replicas
from tonnage.behaviour.workloads.stateful_set_plan import Create, ObservedState
from tonnage.behaviour.workloads.templates import template_hash
from tonnage.objects import codec
from tonnage.objects.apps_v1 import DaemonSet, ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.requirements import NO_EXECUTE, UNREACHABLE, Taint
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import claim, volume


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
    world.nodes.fail("n")
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


OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": True}
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
@pytest.mark.parametrize("seed", range(10))
def test_a_stateful_set_makes_a_pod_again_when_its_plan_creates_it(seed: int, policy: str) -> None:
    rng = random.Random(seed)
    count = rng.randint(2, 6)
    wanted = stateful_set(replicas=count, podManagementPolicy=policy, volumeClaimTemplates=[])
    wanted["metadata"] |= {"namespace": "default", "uid": "set"}
    owner = codec.convert(StatefulSet, wanted)
    members = [
        pod(f"db-{n}", cpu=rng.choice("12"), on=rng.choice("ab"), status=RUNNING, metadata={"ownerReferences": [OWNER]})
        for n in range(count)
    ]
    world, _ = world_of(node("a", cpu="16"), node("b", cpu="16"), node("c", cpu="3"), owner, *members)
    put, made = world.put, []

    def planned(new: Any) -> Any:
        if isinstance(new, Pod) and world.get(Pod, new.key) is None:
            steps = stateful_set_plan.plan(owner, world.pods(), ObservedState("", "", world.clock.now()))
            assert ordinal_of(new.name) in [step.ordinal for step in steps if isinstance(step, Create)]
            made.append(new.name)
        return put(new)

    world.put = planned  # type: ignore[method-assign]
    for name in "ab":
        world.nodes.drain(name)
        world.run_until(world.agenda.now_s + rng.randint(0, 3))
    world.run_until(60.0)
    assert made


def test_nothing_is_left_to_do_for_the_plans_of_daemon_sets_and_replica_sets(tmp_path: Path) -> None:
    docs = [*cluster(3), workload("DaemonSet", "agent", None, "1Gi"), workload("Deployment", "web", 4, "10Gi")]
    events = [
        {"at": "0s", "arrive": "DaemonSet/shop/agent"},
        {"at": "1s", "arrive": "Deployment/shop/web"},
        {"at": "30s", "join": {"like": "node-1", "count": 2}},
        {"at": "60s", "drain": "node-2"},
        {"at": "90s", "remove": "node-3"},
    ]
    world = played(tmp_path, docs, {"events": events}).world
    agent = world.workloads["DaemonSet", "shop/agent"]
    assert isinstance(agent, DaemonSet)
    pods, now = [each for each in world.pods() if "agent" in each.name], world.clock.now()
    observed = ObservedDaemons.of(agent, world.all(Node), pods, {template_hash(agent.spec.template)}, now)
    assert len(pods) == 4
    assert manage(observed) == DaemonPlan()
    (replica_set,) = world.all(ReplicaSet)
    active = [each for each in world.pods() if each.name.startswith(f"{replica_set.name}-") and is_active(each)]
    assert missing_replicas(active, replica_set.spec.replicas) == 0
