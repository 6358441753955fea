"""Manifests as an API server would have stored them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.gates import Gates
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.quantity import Quantity
from tonnage.whatif.creation import Creation
from tonnage.whatif.manifest_errors import BrokenManifest
from tonnage.whatif.manifests import Manifests, read


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Objects of these documents, and the manifests they came from."""
    monkeypatch.chdir(tmp_path)

    def made(*docs: dict[str, Any]) -> tuple[tuple[Object, ...], Manifests]:
        Path("x.yaml").write_text(yaml.safe_dump_all(docs, sort_keys=False))
        found = read(["x.yaml"])
        return Creation(Gates()).of_all(found), found

    return made


def pod(name: str = "web", meta: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "app:1"}]
    metadata = {"name": name, **(meta or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def test_a_bare_pod_gets_what_a_server_gives_it(make):
    ((web,), found) = make(pod())
    assert isinstance(web, Pod)
    assert web.key == "default/web"
    assert web.uid
    assert web.spec.scheduler_name == "default-scheduler"
    assert (web.spec.priority, web.spec.preemption_policy) == (0, "PreemptLowerPriority")
    assert {(each.key, each.toleration_seconds) for each in web.spec.tolerations} == {
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    }
    assert not found.warnings


def test_limits_stand_in_for_requests(make):
    container = {"name": "c", "image": "app:1", "resources": {"limits": {"cpu": "2"}}}
    ((web,), _) = make(pod(containers=[container]))
    assert web.spec.containers[0].resources.requests["cpu"] == Quantity.parse("2")


def test_a_node_offers_its_capacity_unless_it_says_otherwise(make):
    doc = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"capacity": {"cpu": "4"}}}
    ((node,), _) = make(doc)
    assert isinstance(node, Node)
    assert node.status.allocatable["cpu"] == Quantity.parse("4")


def test_a_priority_class_gives_its_number_wherever_it_stands(make):
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 700,
    }
    ((web, _, system), _) = make(
        pod(priorityClassName="urgent"), urgent, pod("dns", priorityClassName="system-node-critical")
    )
    assert web.spec.priority == 700
    assert system.spec.priority == 2000001000


def test_the_default_priority_class_counts(make):
    usual = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "usual"},
        "value": 5,
        "globalDefault": True,
    }
    ((_, web), _) = make(usual, pod())
    assert (web.spec.priority, web.spec.priority_class_name) == (5, "usual")


def test_a_number_stands_without_its_class(make):
    ((web, other), found) = make(pod(priority=9), pod("b", priority=7, priorityClassName="nowhere"))
    assert (web.spec.priority, other.spec.priority) == (9, 7)
    assert not found.warnings


def test_a_priority_class_that_is_not_there_is_an_error(make):
    with pytest.raises(BrokenManifest) as caught:
        make(pod(priorityClassName="urgent"))
    assert caught.value.message == ("x.yaml, document 1 (Pod default/web): no PriorityClass with name urgent was found")
    assert caught.value.hint == "give the PriorityClass urgent too, or write spec.priority"
    assert caught.value.field == "spec.priorityClassName"


def test_status_stays(make):
    ((ended, expected), _) = make(
        {**pod("a", nodeName="node-1"), "status": {"phase": "Succeeded"}},
        {**pod("b"), "status": {"nominatedNodeName": "node-1"}},
    )
    assert ended.is_terminal
    assert expected.status.nominated_node_name == "node-1"


def test_uids_are_the_same_at_every_run_and_never_shared(make):
    docs = (pod("a"), pod("b"), pod("c", {"uid": "u-1"}), pod("d", {"uid": "u-1"}))
    (first, found), (second, _) = make(*docs), make(*docs)
    assert [each.uid for each in first] == [each.uid for each in second]
    assert len({each.uid for each in first}) == 4
    assert first[2].uid == "u-1"
    assert found.warnings == [
        "x.yaml, document 4 (Pod default/d) has the uid of another object, and is given one of its own"
    ]


def test_label_keys_are_merged_once(make):
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["hash"],
    }
    labels = {"app": "web", "hash": "7f"}
    merged = {**constraint, "labelSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [
        {"key": "hash", "operator": "In", "values": ["7f"]}]}}  # fmt: skip
    ((new, stored), _) = make(
        pod("new", {"labels": labels}, topologySpreadConstraints=[constraint]),
        pod("stored", {"labels": labels, "resourceVersion": "3"}, topologySpreadConstraints=[merged]),
    )
    for each in (new, stored):
        (found,) = each.spec.topology_spread_constraints
        assert len(found.label_selector.match_expressions) == 1


def test_a_pod_with_a_node_has_its_zone(make):
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "z"}},
    }
    ((web, _), _) = make(pod(nodeName="node-1"), node)
    assert web.metadata.labels == {"topology.kubernetes.io/zone": "z"}


def test_a_claim_gets_the_default_class(make):
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "pools", "annotations": annotations},
        "provisioner": "pools.example",
    }
    ((data, _), _) = make(claim, storage_class)
    assert isinstance(data, PersistentVolumeClaim)
    assert data.spec.storage_class_name == "pools"


def test_nonsense_is_an_error_with_its_field(make):
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "-1"}}}
    with pytest.raises(BrokenManifest) as caught:
        make(pod(containers=[container]))
    assert caught.value.message == (
        "x.yaml, document 1 (Pod default/web): spec.containers[0].resources.requests[cpu]: Invalid value: "
        '"-1": must be greater than or equal to 0'
    )
    assert caught.value.field == "spec.containers[0].resources.requests[cpu]"


def test_what_is_missing_is_a_warning(make):
    (_, found) = make(pod(containers=[{"name": "c"}]))
    assert found.warnings == [
        "x.yaml, document 1 (Pod default/web): spec.containers[0].image: Required value; "
        "an API server would refuse this object"
    ]


def test_what_a_server_has_stored_is_not_judged_again(make):
    gone = pod("gone", {"resourceVersion": "12"}, priorityClassName="deleted-since", priority=3, containers=[])
    ((web,), found) = make(gone)
    assert web.spec.priority == 3
    assert web.spec.tolerations == ()
    assert not found.warnings


@pytest.mark.parametrize("read", [{"resourceVersion": "12"}, {"uid": "u-1"}])
def test_what_was_read_from_a_cluster_is_taken_as_it_stands(make, read):
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web", "hash": "7f"}},
        "matchLabelKeys": ["hash"],
    }
    labels = {"app": "web", "hash": "7f"}
    merged = pod("merged", {"labels": labels, **read}, topologySpreadConstraints=[constraint])
    patient = pod("patient", {**read, **({"uid": "u-2"} if "uid" in read else {})}, preemptionPolicy="Never")
    ((web, waiting), found) = make(merged, patient)
    assert web.spec.topology_spread_constraints[0].label_selector.match_labels == labels
    assert (waiting.spec.preemption_policy, waiting.spec.tolerations) == ("Never", ())
    assert not found.warnings


def test_others_are_admitted_as_a_server_would(make):
    with pytest.raises(BrokenManifest) as caught:
        make(pod("patient", preemptionPolicy="Never"))
    assert "the string value of PreemptionPolicy (Never) must not be provided in pod spec" in caught.value.message
    assert (caught.value.field, caught.value.hint) == (
        "spec.preemptionPolicy",
        "leave it out, or name a PriorityClass that has this policy",
    )


def test_a_headless_service_needs_no_ports(make):
    spec = {"clusterIP": "None", "selector": {"app": "db"}}
    (_, found) = make({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"}, "spec": spec})
    assert not found.warnings


def test_an_object_that_has_not_even_what_its_class_needs_is_named(make):
    with pytest.raises(BrokenManifest) as caught:
        make(pod("gated", {"resourceVersion": "12"}, schedulingGates=[{}]))
    assert caught.value.message == (
        "x.yaml, document 1 (Pod default/gated): spec.schedulingGates[0].name is missing; it is required"
    )
