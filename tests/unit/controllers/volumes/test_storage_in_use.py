"""Who keeps a claim from being deleted, when a pod needs its volumes no more, and the claim of an ephemeral volume."""

from __future__ import annotations

from typing import Any

from tonnage.behaviour.workloads.templates import claim_for
from tonnage.controllers.volumes.attach_detach import is_pod_terminated
from tonnage.controllers.volumes.protection import pod_uses_claim
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.testing.builders import pod
from tonnage.testing.storage_builders import claim, pod_with

GOING = {"deletionTimestamp": "2026-11-15T00:00:00Z"}
TEMPLATE = {"metadata": {"labels": {"app": "db"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}
SCRATCH = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": TEMPLATE}}]}


def owned(by: Pod) -> PersistentVolumeClaim:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": by.name, "uid": by.uid, "controller": True}
    return claim(f"{by.name}-scratch", metadata={"ownerReferences": [owner]})


def test_a_pod_with_a_node_uses_its_claims_and_one_without_does_not() -> None:
    assert pod_uses_claim(pod_with("p", "data", on="node-1"), claim("data"))
    assert not pod_uses_claim(pod_with("p", "data"), claim("data"))
    assert not pod_uses_claim(pod_with("p", "other", on="node-1"), claim("data"))
    assert not pod_uses_claim(pod_with("p", "data", on="node-1", namespace="far"), claim("data"))


def test_a_pod_that_has_ended_still_uses_a_claim_that_it_names() -> None:
    assert pod_uses_claim(pod_with("p", "data", on="node-1", status={"phase": "Succeeded"}), claim("data"))


def test_an_ephemeral_claim_is_used_by_its_own_pod_until_the_node_is_done_with_it() -> None:
    running = pod("p", on="node-1", spec=SCRATCH)
    assert pod_uses_claim(running, owned(running))
    assert not pod_uses_claim(running, claim("p-scratch"))
    shut_down = pod("p", on="node-1", spec=SCRATCH, metadata={**GOING, "deletionGracePeriodSeconds": 0})
    assert not pod_uses_claim(shut_down, owned(shut_down))
    ending = pod("p", on="node-1", spec=SCRATCH, metadata={**GOING, "deletionGracePeriodSeconds": 30})
    assert pod_uses_claim(ending, owned(ending))


def state(**containers: str) -> dict[str, Any]:
    return {"containerStatuses": [{"name": name, "state": {how: {}}} for name, how in containers.items()]}


def test_a_pod_is_over_when_it_has_ended_or_is_deleted_and_nothing_runs() -> None:
    assert is_pod_terminated(pod("p", status={"phase": "Failed"}))
    assert not is_pod_terminated(pod("p"))
    assert is_pod_terminated(pod("p", metadata=GOING))
    assert is_pod_terminated(pod("p", metadata=GOING, status=state(a="terminated", b="waiting")))
    assert not is_pod_terminated(pod("p", metadata=GOING, status=state(a="terminated", b="running")))
    assert not is_pod_terminated(pod("p", status=state(a="terminated")))


def test_the_claim_of_an_ephemeral_volume_is_its_template_and_belongs_to_the_pod() -> None:
    made = pod("p", spec=SCRATCH)
    assert claim_for(made, made.spec.volumes[0]) == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "p-scratch",
            "namespace": "default",
            "labels": {"app": "db"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": "p",
                    "uid": "default-p",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }
