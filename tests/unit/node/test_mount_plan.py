"""What a pod's volumes ask of its node, and upstream's words where that cannot be said."""

from __future__ import annotations

from typing import Any

from tonnage.node.context import VolumeLookup
from tonnage.node.mounts.mount_plan import MountPlan, plan_mounts, waiting_note
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.storage_v1 import CSIDriver
from tonnage.testing.builders import pod
from tonnage.testing.storage_builders import claim, driver, pod_with, volume

Found = PersistentVolumeClaim | PersistentVolume | CSIDriver


def planned(subject: Pod, *objects: Found, recorded: tuple[str, ...] = ()) -> MountPlan:
    claims = {each.key: each for each in objects if isinstance(each, PersistentVolumeClaim)}
    volumes = {each.name: each for each in objects if isinstance(each, PersistentVolume)}
    drivers = {each.name: each for each in objects if isinstance(each, CSIDriver)}
    return plan_mounts(subject, VolumeLookup(claims.get, volumes.get, drivers.get), recorded=recorded)


def bound(name: str = "data", **spec: Any) -> tuple[Found, Found]:
    return claim(name, volume="pv-1"), volume("pv-1", claim=f"default/{name}", handle="h1", spec=spec)


def problem_of(*objects: Found, subject: Pod | None = None) -> str:
    mount_plan = planned(subject or pod_with("p", "data"), *objects)
    assert mount_plan.volumes_to_mount == () and list(mount_plan.problems) == ["v0"]
    return mount_plan.problems["v0"]


def test_a_bound_claim_is_a_volume_of_its_driver():
    mount_plan = planned(pod_with("p", "data"), *bound(mountOptions=["ro"]), driver())
    (to_mount,) = mount_plan.volumes_to_mount
    assert (to_mount.record.driver, to_mount.record.handle, to_mount.record.name) == ("csi.example", "h1", "pv-1")
    assert (to_mount.record.pod_uid, to_mount.pod_volume, to_mount.claim) == ("default-p", "v0", "default/data")
    assert (to_mount.access_mode, to_mount.mount_options) == ("ReadWriteOnce", ("ro",))
    assert to_mount.record.is_attachable and not to_mount.record.is_block and mount_plan.problems == {}


def test_attaching_is_left_out_only_when_the_csi_driver_says_so():
    assert (
        not planned(pod_with("p", "data"), *bound(), driver(attachRequired=False))
        .volumes_to_mount[0]
        .record.is_attachable
    )
    assert planned(pod_with("p", "data"), *bound()).volumes_to_mount[0].record.is_attachable


def test_a_driver_that_asks_for_it_is_told_about_the_pod():
    assert planned(pod_with("p", "data"), *bound(), driver()).volumes_to_mount[0].pod_info == {}
    subject = pod_with("p", "data", spec={"serviceAccountName": "robot"})
    assert planned(subject, *bound(), driver(podInfoOnMount=True)).volumes_to_mount[0].pod_info == {
        "csi.storage.k8s.io/pod.name": "p",
        "csi.storage.k8s.io/pod.namespace": "default",
        "csi.storage.k8s.io/pod.uid": "default-p",
        "csi.storage.k8s.io/serviceAccount.name": "robot",
        "csi.storage.k8s.io/ephemeral": "false",
    }


def test_volumes_of_no_csi_driver_are_taken_to_be_there():
    other = [{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "c"}}]
    assert planned(pod("p", spec={"volumes": other})) == MountPlan((), {})
    assert planned(pod_with("p", "data"), claim("data", volume="pv-1"), local_volume()) == MountPlan((), {})


def local_volume() -> PersistentVolume:
    return volume("pv-1", claim="default/data", driver=None, spec={"hostPath": {"path": "/x"}})


def test_a_claim_that_is_missing_unbound_or_going_is_a_problem_in_upstreams_words():
    start = "error processing PVC default/data: "
    assert problem_of() == (f'{start}failed to fetch PVC from API server: persistentvolumeclaims "data" not found')
    assert problem_of(claim("data")) == f"{start}PVC is not bound"
    assert problem_of(claim("data", phase="Bound")) == f"{start}PVC has empty pvc.Spec.VolumeName"
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert problem_of(claim("data", volume="pv-1", metadata=going)) == f"{start}PVC is being deleted"
    assert problem_of(claim("data", volume="pv-1")) == (
        f'{start}failed to fetch PV pv-1 from API server: persistentvolumes "pv-1" not found'
    )


def test_a_volume_that_does_not_name_its_claim_is_a_problem():
    start = "error processing PVC default/data: found PV object pv-1 but "
    assert problem_of(claim("data", volume="pv-1"), volume("pv-1")) == (
        f"{start}it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
    )
    other = volume("pv-1", claim="default/data", claim_uid="another")
    assert problem_of(claim("data", volume="pv-1"), other) == (
        f"{start}its pv.Spec.ClaimRef.UID another does not point to claim.UID default-data"
    )


def test_a_claim_that_is_going_serves_the_pods_that_have_it_and_no_others_protected_or_not():
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kubernetes.io/pvc-protection"]}
    objects = claim("data", volume="pv-1", metadata=going), bound()[1]
    assert len(planned(pod_with("p", "data"), *objects, recorded=("pv-1",)).volumes_to_mount) == 1
    told = "error processing PVC default/data: PVC is being deleted"
    assert problem_of(*objects) == told
    assert planned(pod_with("p", "data"), *objects, recorded=("pv-2",)).problems == {"v0": told}


def test_a_block_volume_cannot_be_mounted_nor_a_filesystem_be_a_device():
    mounts = {"name": "c", "image": "i", "volumeMounts": [{"name": "v0", "mountPath": "/d"}]}
    devices = {"name": "c", "image": "i", "volumeDevices": [{"name": "v0", "devicePath": "/dev/x"}]}
    block = bound(volumeMode="Block")
    assert problem_of(*block, subject=pod_with("p", "data", spec={"containers": [mounts]})) == (
        "volume v0 has volumeMode Block, but is specified in volumeMounts"
    )
    assert problem_of(*bound(), subject=pod_with("p", "data", spec={"containers": [devices]})) == (
        "volume v0 has volumeMode Filesystem, but is specified in volumeDevices"
    )
    mount_plan = planned(pod_with("p", "data", spec={"containers": [devices]}), *block)
    assert mount_plan.volumes_to_mount[0].record.is_block


def test_an_ephemeral_claim_must_have_been_made_for_this_pod():
    subject = pod("p", spec={"volumes": [{"name": "v0", "ephemeral": {"volumeClaimTemplate": {}}}]})
    pv = volume("pv-1", claim="default/p-v0")
    assert problem_of(claim("p-v0", volume="pv-1"), pv, subject=subject) == (
        "PVC default/p-v0 was not created for pod default/p (pod is not owner)"
    )
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "default-p", "controller": True}
    made = claim("p-v0", volume="pv-1", metadata={"ownerReferences": [owner]})
    assert len(planned(subject, made, pv).volumes_to_mount) == 1


def test_an_inline_volume_is_published_for_its_pod_alone_if_its_driver_does_that():
    inline = {"name": "v0", "csi": {"driver": "csi.example", "volumeAttributes": {"a": "b"}}}
    subject = pod("p", spec={"volumes": [inline]})
    assert problem_of(driver(), subject=subject) == (
        "mounter.SetupAt failed to check volume lifecycle mode: volume mode Ephemeral not supported by "
        "driver csi.example"
    )
    (to_mount,) = planned(subject, driver(volumeLifecycleModes=["Ephemeral"])).volumes_to_mount
    assert to_mount.record.is_inline and not to_mount.record.is_attachable and to_mount.context == {"a": "b"}
    assert to_mount.record.handle.startswith("csi-") and len(to_mount.record.handle) == 4 + 64


def test_the_account_of_a_wait_prints_lists_as_go_does():
    assert waiting_note(["a", "b"], ["b"], [], "why") == (
        "unmounted volumes=[a b], unattached volumes=[b], failed to process volumes=[]: why"
    )
