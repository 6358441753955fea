"""A node that failed a pod after the decision is passed over for a growing while, if any other fits."""

from __future__ import annotations

from scheduler_volume_rig import SchedulerRig

from tonnage.errors import Conflict
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.storage_v1 import VolumeAttachment, attachment_name
from tonnage.scheduling.queue.waiting_pods import uid_of
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import (
    DRIVER,
    attachment,
    capacity,
    claim,
    driver,
    pod_with,
    storage_class,
    volume,
)

STORAGE = (storage_class(), driver())


def give_back(rig: SchedulerRig, name: str) -> str:
    """The provisioner finds no room, whatever the figures say, and takes its hands off the claim; where that was."""
    node_name = rig.claim(name).selected_node
    annotations = {"volume.kubernetes.io/selected-node": None, "tried": str(len(rig.calls))}
    rig.change(PersistentVolumeClaim, f"default/{name}", {"metadata": {"annotations": annotations}})
    return node_name


async def where_it_goes(rig: SchedulerRig, name: str = "data", *, within_s: int = 30) -> str:
    for _ in range(within_s):
        if rig.claim(name).selected_node:
            break
        await rig.settle(1.0)
    return rig.claim(name).selected_node


async def test_the_best_scored_liar_does_not_keep_the_pod_for_ever():
    rooms = (capacity("fast", "liar", "1000Gi"), capacity("fast", "true", "100Gi"))
    rig = SchedulerRig(*STORAGE, node("liar"), node("true"), *rooms, claim("data", "60Gi"), pod_with("web", "data"))
    async with rig.running():
        await rig.settle()
        assert give_back(rig, "data") == "liar"  # the most free of all, by its own figures
        await rig.settle()
        assert await where_it_goes(rig) == "true"
        rig.provision("data")
        await rig.settle()
    assert rig.bound == {"default/web": "true"}


async def test_where_nothing_else_fits_it_is_tried_again():
    rig = SchedulerRig(
        *STORAGE, node("only"), capacity("fast", "only", "100Gi"), claim("data"), pod_with("web", "data")
    )
    async with rig.running():
        await rig.settle()
        for _ in range(3):
            assert give_back(rig, "data") == "only"
            await rig.settle()
            assert await where_it_goes(rig) == "only"
        rig.provision("data")
        await rig.settle()
    assert rig.bound == {"default/web": "only"}


async def test_the_while_grows_with_every_failure_and_ends():
    rig = SchedulerRig(node("a"), pod("web"))
    failed, web = rig.engine.queue.nominator.failed_nodes, pod("web")
    while_s = []
    for _ in range(6):
        began_at = rig.clock.monotonic()
        while_s.append(failed.failed(uid_of(web), "a", "no luck").until_s - began_at)
    assert while_s == [15.0, 30.0, 60.0, 120.0, 120.0, 120.0]
    assert failed.passed_over(web) == {
        "a": "failed the pod 6 times after the decision, ignored until 2000-01-01T00:02:00Z: no luck"
    }
    assert failed.passed_over(pod("other")) == {}, "it is this pod's affair"
    rig.clock.advance(120.0)
    assert failed.passed_over(web) == {} and len(failed) == 1, "and the next failure still counts as the seventh"
    rig.clock.advance(601.0)
    failed.expire(rig.clock.monotonic())
    assert len(failed) == 0


async def test_explain_of_the_same_engine_says_which_node_is_passed_over_and_why():
    rig = SchedulerRig(node("a", cpu="8"), node("b", cpu="4"), pod("web", cpu="1"))
    rig.refuse.append(Conflict("somebody was faster"))
    async with rig.running():
        await rig.settle()
        told = rig.engine.explain(pod("web", cpu="1"))
    first = rig.calls[0]
    assert first == ("bind", "default/web")
    (failed,) = [each for each in told.nodes if each.passed_over]
    assert told.node != failed.name and failed.feasible and not failed.reasons
    assert failed.passed_over == (
        "failed the pod once after the decision, ignored until 2000-01-01T00:00:15Z: "
        'running Bind plugin "DefaultBinder": somebody was faster'
    )
    assert told.message == f"fits on 2 of 2 nodes, of which {failed.name} failed it and is ignored"
    assert failed.document()["passedOver"] == failed.passed_over


async def test_a_nominated_node_that_failed_is_not_tried_first():
    rig = SchedulerRig(node("a"), node("b"), pod("web", status={"nominatedNodeName": "b"}))
    rig.refuse.append(Conflict("somebody was faster"))
    async with rig.running():
        await rig.settle(3.0)
    assert rig.bound == {"default/web": "a"}


async def test_with_the_gate_off_no_node_is_passed_over():
    rig = SchedulerRig(node("a"), node("b"), pod("web"), is_shown=False)
    rig.refuse.append(Conflict("somebody was faster"))
    async with rig.running():
        await rig.settle()
        assert len(rig.engine.queue.nominator.failed_nodes) == 0


async def test_the_successor_of_a_pod_whose_volume_could_not_be_attached_goes_elsewhere():
    owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs-1", "controller": True}]
    data = (claim("data", volume="pv-1"), volume("pv-1", claim="default/data"))
    name = attachment_name("pv-1", DRIVER, "a")
    rig = SchedulerRig(
        *STORAGE, node("a", cpu="8"), node("b", cpu="4"), *data, attachment(name, "pv-1", "a", attached=False)
    )
    rig.change(VolumeAttachment, name, {"status": {"attachError": {"message": "no slot is left", "errorCode": 8}}})
    rig.add(pod_with("web-1", "data", on="a", metadata={"ownerReferences": owner}))
    rig.delete(Pod, "default/web-1")  # it was failed by its node; to the scheduler it is gone
    successor = pod_with("web-2", "data", metadata={"ownerReferences": owner})
    told = rig.engine.explain(successor)
    assert told.node == "b"
    (failed,) = [each for each in told.nodes if each.passed_over]
    assert failed.name == "a" and failed.passed_over.endswith("volume pv-1 could not be attached: no slot is left")
    assert not any(each.passed_over for each in rig.engine.explain(pod_with("stranger", "data")).nodes)
