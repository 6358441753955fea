"""What is wrong with a cluster: each rule with its age, its meaning and its command."""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from status_rig import NIGHT, StatusRig, ago, lease, not_ready, provisioning_failed

from tonnage.cli import cli
from tonnage.dashboard.status.keeper import verdict
from tonnage.dashboard.status.sight import KINDS, Trouble
from tonnage.dashboard.status.troubles import SHOWN, folded
from tonnage.faults import Fault
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import (
    DRIVER,
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)

SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(400)}


def unschedulable(message: str) -> dict[str, object]:
    return {
        "conditions": [{"type": "PodScheduled", "status": "False", "message": message, "lastTransitionTime": ago(5)}]
    }


def age_s(found: Trouble) -> float:
    assert found.since is not None
    return (NIGHT - found.since).total_seconds()


def created(seconds: float, **more: object) -> dict[str, object]:
    return {"creationTimestamp": ago(seconds), **more}


def waiting(
    name: str, *claims: str, since_s: float = 60, message: str = "0/2 nodes are available: 2 too small.", **more
):
    return pod_with(name, *claims, metadata=created(since_s, **more), status=unschedulable(message))


async def test_nothing_is_wrong_with_a_cluster_at_rest():
    rig = StatusRig()
    rig.put(claim("data", volume="pv-1"), volume("pv-1", on="a", claim="default/data"), pod_with("db", "data", on="a"))
    assert await rig.look() == []


async def test_a_pod_that_is_pending_for_less_than_30_s_is_no_trouble_yet_and_it_says_so():
    rig = StatusRig()
    rig.put(claim("data"), waiting("db", "data", since_s=29))
    assert await rig.look() == []
    assert verdict(rig.keeper).plain == "Nothing is wrong; a pending pod counts after 30 s."
    await rig.look(after_s=2)
    assert verdict(rig.keeper).plain == "1 error"


async def test_a_node_that_is_not_ready_comes_with_what_is_on_it():
    rig = StatusRig()
    rig.put(
        not_ready("a", 600),
        pod("web", on="a"),
        volume("pv-1", on="a", claim="default/data"),
        claim("data", volume="pv-1"),
    )
    found = await rig.one("node-not-ready")
    assert (found.severity, found.object, found.headline) == ("error", "Node a", "a is not ready")
    assert found.meaning == (
        "Kubelet stopped posting node status. It has 1 pod and 1 volume. "
        "Its pods may stop, and nothing new starts there."
    )
    assert found.command == "kubectl describe node a"
    assert age_s(found) == 600


async def test_a_cordoned_node_is_worth_knowing_and_nothing_wrong():
    rig = StatusRig()
    rig.put(node("a", unschedulable=True))
    assert (await rig.one("node-cordoned")).severity == "info"
    assert rig.keeper.log.fine_since == NIGHT


async def test_pods_that_wait_for_the_same_are_one_trouble():
    rig = StatusRig()
    rig.put(*(waiting(f"db-{number}", since_s=60 + number) for number in range(3)))
    rig.put(waiting("other", message="0/2 nodes are available: 2 Insufficient cpu. preemption: not helpful"))
    first, second = await rig.look()
    assert (first.headline, first.count) == ("default/db-2 and 2 more pods are pending", 3)
    assert first.command == "tonnage explain --pending"
    assert second.headline == "default/other is pending"
    assert second.meaning == "0/2 nodes are available: 2 Insufficient cpu."
    assert second.command == "tonnage explain --pod default/other"


async def test_pods_of_one_workload_are_one_trouble_whatever_their_messages():
    owner: dict[str, Any] = {
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}
        ]
    }
    rig = StatusRig()
    rig.put(
        waiting("db-0", message="0/2 nodes are available: 2 a.", since_s=90, **owner),
        waiting("db-1", message="0/2 nodes are available: 1 b.", **owner),
    )
    assert (await rig.one("pods-pending")).count == 2


async def test_a_pod_that_is_new_or_gated_is_not_pending():
    rig = StatusRig()
    rig.put(waiting("young", since_s=20))
    rig.put(pod("gated", metadata=created(900), spec={"schedulingGates": [{"name": "hold"}]}))
    assert await rig.look() == []


async def test_a_pod_with_some_of_its_volumes_says_how_it_gets_out():
    way_out = (
        "Claim default/a has a new volume on a that no pod uses, and no room for default/b is left there: if nothing "
        "was written to it, delete default/a (kubectl delete pvc -n default a), and the pod may go elsewhere."
    )
    rig = StatusRig()
    rig.put(waiting("db", message=f"0/2 nodes are available: 2 too small. {way_out}"))
    found = await rig.one("pod-half-made")
    assert (found.meaning, found.command) == (way_out, "tonnage explain --pod default/db")


async def test_a_pod_that_does_not_end_names_its_node():
    rig = StatusRig()
    going = {"deletionTimestamp": ago(70), "deletionGracePeriodSeconds": 30}
    rig.put(not_ready("a"), pod_with("db", "data", on="a", metadata=going))
    found = (await rig.look())[-1]
    assert found.kind == "pod-terminating"
    assert found.meaning == (
        "Its node a is not ready, so nothing confirms that it stopped. Its volumes stay with it until then."
    )
    rig = StatusRig()
    rig.put(pod("soon", on="a", metadata={"deletionTimestamp": ago(50)}))
    assert await rig.look() == []


async def test_a_refused_attachment_is_the_trouble_of_its_pod_and_is_told_once():
    rig = StatusRig()
    rig.put(claim("data", volume="pv-1"), volume("pv-1", claim="default/data"))
    rig.put(
        attachment("va", "pv-1", "a", error="no slot left"),
        pod_with("db", "data", on="a", status={"conditions": [SCHEDULED]}),
    )
    found = await rig.one("pod-not-starting")
    assert found.meaning == "The volume of default/data cannot be attached to a: no slot left."
    assert found.command == "kubectl describe pod -n default db"


async def test_a_pod_that_takes_too_long_to_start_is_a_trouble_and_one_that_just_came_is_none():
    rig = StatusRig()
    rig.put(claim("data", volume="pv-1"), volume("pv-1", claim="default/data"))
    rig.put(pod_with("db", "data", on="a", status={"conditions": [{**SCHEDULED, "lastTransitionTime": ago(290)}]}))
    assert await rig.look() == []
    assert [each.kind for each in await rig.look(after_s=20)] == ["pod-not-starting"]


async def test_a_driver_that_does_not_answer_is_one_trouble_for_all_its_claims_and_their_pods():
    rig = StatusRig()
    for name in ("x", "y"):
        rig.put(claim(name, selected_node="a"), waiting(f"pod-{name}", name))
        rig.heard(
            provisioning_failed(f"default/{name}", "rpc error: code = Unavailable desc = no socket", 90, name=name)
        )
    found = await rig.one("driver-silent")
    assert (found.headline, found.count) == (f"Driver {DRIVER} does not answer", 2)
    assert "default/x, default/y" in found.meaning and "desc = no socket." in found.meaning
    assert age_s(found) == 90


async def test_a_refused_volume_tells_the_drivers_words_and_who_waits():
    rig = StatusRig()
    rig.put(claim("data", "5Gi", selected_node="a"), waiting("db", "data"))
    rig.heard(provisioning_failed("default/data", "rpc error: code = ResourceExhausted desc = full"))
    found = await rig.one("volume-refused")
    assert found.headline == "The volume of default/data is refused on a"
    assert found.meaning == (
        "The provisioner says: rpc error: code = ResourceExhausted desc = full. Waiting for it: default/db."
    )


async def test_a_volume_that_nobody_makes_is_slow():
    rig = StatusRig()
    rig.put(claim("data", "5Gi", selected_node="a", metadata=created(110)))
    assert await rig.look() == []
    (found,) = await rig.look(after_s=20)
    assert (found.kind, found.headline) == ("volume-slow", "The volume of default/data is not made on a")
    assert found.meaning.startswith(f"The provisioner of {DRIVER} was asked for 5Gi and has said nothing.")


async def test_an_attachment_that_takes_too_long_is_slow():
    rig = StatusRig()
    rig.put(attachment("va", "pv-1", "a", attached=False))
    assert await rig.look() == []  # it does not say since when
    slow = attachment("va", "pv-1", "a", attached=False)
    rig.put(type(slow)(metadata=type(slow.metadata)(name="va", creation_timestamp=NIGHT), spec=slow.spec))
    assert [each.kind for each in await rig.look(after_s=121)] == ["volume-slow"]


async def test_a_claim_whose_volume_is_gone_is_lost():
    rig = StatusRig()
    rig.put(claim("data", volume="pv-1"))
    found = await rig.one("claim-lost")
    assert found.meaning == "Its volume pv-1 was deleted. Pods cannot use the claim any more."


async def test_what_is_to_be_deleted_and_stays_is_told_unless_a_pod_uses_it():
    rig = StatusRig()
    going = {"deletionTimestamp": ago(400), "finalizers": ["kubernetes.io/pvc-protection"]}
    rig.put(claim("data", volume="pv-1", metadata=going), volume("pv-1", claim="default/data"))
    assert (await rig.one("volume-not-deleted")).command == "kubectl describe pvc -n default data"
    rig.put(pod_with("db", "data", on="a", status={"phase": "Running"}))
    assert await rig.look() == []


async def test_stale_figures_of_one_class_are_one_trouble():
    rig = StatusRig()
    for name in "ab":
        rig.put(csi_node(name, {}))
    cause, found = (await rig.look())[:2]
    assert cause.kind == "driver-unregistered"
    assert (found.kind, found.count, found.object) == ("figures-stale", 2, "StorageClass fast")
    assert found.headline == "Figures of class fast on a, b may be wrong"
    assert "nobody updates these figures any more" in found.meaning
    assert found.meaning.endswith(". Figures of 1 more object may be wrong too.")


@pytest.mark.parametrize(("free_gi", "is_told"), [(10, False), (9, True)])
async def test_a_class_is_nearly_full_when_the_alert_says_so(free_gi: int, is_told: bool):
    # 10 of 100 are free: 10 % is not less than 10 %. 9 of 99: 9.09 %.
    rig = StatusRig("a")
    rig.put(capacity(node="a", free=f"{free_gi}Gi"), volume("pv-1", "90Gi", on="a"))
    found = await rig.look()
    assert [each.kind for each in found] == (["class-nearly-full"] if is_told else [])
    if is_told:
        assert found[0].meaning == (
            "9Gi of 99Gi are free, and the largest free pool has 9Gi. "
            "Pods with new volumes of this class will soon wait."
        )


async def test_a_scheduler_whose_lease_ran_out_is_silent_and_its_pods_are_told_with_it():
    rig = StatusRig()
    rig.cluster.held = [lease("tonnage", 300)]
    rig.put(pod("web", metadata=created(120), spec={"schedulerName": "tonnage"}))
    found = await rig.one("scheduler-silent")
    assert found.headline == "Scheduler tonnage is not running"
    assert found.meaning == ("The lease of scheduler tonnage ran out at 2026-01-02T02:55:15Z. 1 pod waits for it.")
    assert age_s(found) == 285
    rig.cluster.held = [lease("tonnage", 5)]
    assert [each.kind for each in await rig.look()] == ["pods-pending"]


async def test_leases_of_a_driver_count_when_their_holder_does_not_renew_them():
    rig = StatusRig()
    rig.cluster.held = [
        lease("csi-example", 100),
        lease("external-attacher-leader-csi-example", 100),
        lease("kube-controller-manager", 100),
        lease("csi-example", 9000, holder="", namespace="old"),  # released by intent
        lease("ingress-leader", 9000),  # none of our business
        lease("external-resizer-csi-example", 30),  # may still be taken over
    ]
    found = await rig.look()
    assert [(each.kind, each.object.rpartition("/")[2]) for each in found] == [
        ("provisioner-silent", "csi-example"),
        ("lease-not-renewed", "external-attacher-leader-csi-example"),
        ("lease-not-renewed", "kube-controller-manager"),
    ]
    assert found[0].command == "kubectl describe lease -n kube-system csi-example"


async def test_what_doctor_finds_wrong_now_is_told_in_its_words():
    rig = StatusRig()
    rig.put(storage_class("lonely"), volume("pv-9", on="gone", claim="default/old"), claim("old", volume="pv-9"))
    kinds = {each.kind: each for each in await rig.look()}
    assert kinds.keys() == {"capacity-missing", "volume-left-behind"}
    assert kinds["capacity-missing"].headline == "Class lonely has no capacity object"
    assert kinds["volume-left-behind"].command == "kubectl describe pv pv-9"


async def test_what_doctor_finds_is_as_old_as_the_object_that_was_wrong_from_the_start():
    rig = StatusRig()
    rig.put(claim("typo", class_name="none", metadata=created(900)))
    refused = attachment("va", "pv-1", "a", error="no slot left")
    metadata = replace(refused.metadata, creation_timestamp=NIGHT - timedelta(seconds=300))
    rig.put(
        replace(refused, metadata=metadata), volume("pv-1", on="a", claim="default/data"), claim("data", volume="pv-1")
    )
    found = {each.kind: age_s(each) for each in await rig.look()}
    assert found == {"attach-refused": 300, "claim-of-missing-class": 900}


async def test_what_may_not_be_read_is_named_and_nothing_is_concluded_from_it():
    rig = StatusRig()
    rig.cluster.hidden = {"CSIStorageCapacity": "forbidden"}
    rig.put(storage_class("lonely"))
    assert await rig.look() == []
    assert rig.keeper.unseen == ["cannot see CSIStorageCapacity objects: forbidden"]


async def test_causes_come_before_what_follows_and_the_oldest_first():
    rig = StatusRig()
    rig.put(waiting("db"), not_ready("b", 10), not_ready("a", 60), node("c", unschedulable=True))
    assert [each.object for each in await rig.look()] == ["Node a", "Node b", "Pod default/db", "Node c"]


def test_of_many_troubles_of_a_kind_a_few_are_shown_and_the_others_counted():
    def of(kind: str, number: int) -> Trouble:
        return Trouble(severity="error", kind=kind, object=f"Node {number}", headline="", meaning="", command="")

    many = [of("node-not-ready", number) for number in range(SHOWN + 3)]
    shown = folded([*many, of("claim-lost", 1)])
    assert [more for _, more in shown] == [0] * (SHOWN - 1) + [3, 0]


async def test_every_kind_has_its_place_and_every_command_only_looks():
    """Hostile names are quoted; tonnage's commands parse; kubectl is only asked to describe and get."""
    name = "it's $(rm) named"
    rig = StatusRig("a")
    rig.put(not_ready("a"), node(name, unschedulable=True), waiting(name), claim(name, volume="gone"))
    rig.put(
        claim("slow", selected_node="a", metadata=created(900)), storage_class(name, provisioner=name), driver(name)
    )
    rig.cluster.model.suffer([Fault("dead", "", 0.0)])
    found = await rig.look()
    assert len({each.kind for each in found}) >= 6
    for each in found:
        assert each.kind in KINDS
        program, verb, *rest = shlex.split(each.command)
        if program == "tonnage":
            command = cli.get_command(cli.make_context("tonnage", ["help"]), verb)
            command.make_context(verb, list(rest))
        else:
            assert (program, verb) in (("kubectl", "describe"), ("kubectl", "get"))
        if f"/{name}" in each.object or each.object.endswith(f" {name}"):
            assert name in rest or f"default/{name}" in rest or each.kind.startswith("capacity")
