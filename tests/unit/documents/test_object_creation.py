"""The one way a new object is made, and the options of whoever reads it from a file."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from support.virtual_clock import VirtualClock
from tonnage.documents.admission import Admission
from tonnage.documents.creation import Creator, NameGenerator
from tonnage.errors import Forbidden, Invalid
from tonnage.gates import Gates
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_PLURAL, Resource

PODS = BY_PLURAL["", "pods"]
CLAIMS = BY_PLURAL["", "persistentvolumeclaims"]
CAPACITIES = BY_PLURAL["storage.k8s.io", "csistoragecapacities"]
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


class Known:
    """A lister of one PriorityClass, one default StorageClass and one node."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> Doc | None:
        return next((each for each in self.list(resource) if each["metadata"]["name"] == name), None)

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Doc]:
        known: dict[str, Doc] = {
            "PriorityClass": {"metadata": {"name": "urgent"}, "value": 7},
            "StorageClass": {"metadata": {"name": "pools", "annotations": DEFAULT}},
            "Node": {"metadata": {"name": "a", "labels": {"topology.kubernetes.io/zone": "z"}}},
        }
        return [known[resource.kind]] if resource.kind in known else []


def creator(gates: str = "", *, is_from_file: bool = False) -> Creator:
    return Creator(
        gates=Gates.parse(gates),
        clock=VirtualClock(datetime(2026, 1, 1, tzinfo=UTC)),
        names=NameGenerator(random.Random(1)),
        admission=Admission(Known()),
        is_from_file=is_from_file,
    )


def pod(**spec: object) -> Doc:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "mine", "deletionTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "c", "image": "app:1"}], **spec},
        "status": {"phase": "Running"},
    }


def test_a_server_says_itself_who_an_object_is_and_how_it_is() -> None:
    made = pod(nodeName="a", priorityClassName="urgent")
    assert creator().create(PODS, made, manager="kubectl") == []
    meta = made["metadata"]
    assert meta["uid"] != "mine" and "deletionTimestamp" not in meta
    assert (meta["creationTimestamp"], meta["generation"]) == ("2026-01-01T00:00:00Z", 1)
    assert meta["managedFields"][0]["manager"] == "kubectl"
    assert meta["labels"] == {"topology.kubernetes.io/zone": "z"}
    assert (made["spec"]["priority"], made["status"]["phase"]) == (7, "Pending")


def test_a_claim_gets_the_default_class() -> None:
    made: Doc = {
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    creator().create(CLAIMS, made)
    assert made["spec"]["storageClassName"] == "pools"


def test_status_and_system_fields_stay_where_that_is_asked_for() -> None:
    made = pod()
    creator(is_from_file=True).create(PODS, made)
    assert made["status"] == {"phase": "Running"}
    assert made["metadata"] == pod()["metadata"]
    fresh = pod()
    del fresh["status"]
    creator(is_from_file=True).create(PODS, fresh)
    assert "status" not in fresh


def test_a_priority_is_computed_unless_a_number_may_stand() -> None:
    with pytest.raises(Forbidden, match="no PriorityClass with name gone was found"):
        creator().create(PODS, pod(priority=3, priorityClassName="gone"))
    made = pod(priority=3, priorityClassName="gone")
    creator(is_from_file=True).create(PODS, made)
    assert made["spec"]["priority"] == 3


def test_fields_of_closed_gates_are_dropped_unless_they_may_stay() -> None:
    for stays in (False, True):
        made = pod(schedulingGroup={"podGroupName": "g"})
        creator(is_from_file=stays).create(PODS, made)
        assert ("schedulingGroup" in made["spec"]) is stays
        capacity: Doc = {
            "metadata": {"name": "c", "namespace": "default"},
            "storageClassName": "pools",
            "availableCapacities": ["1Gi"],
        }
        creator("CSIStorageCapacityV2=false", is_from_file=stays).create(CAPACITIES, capacity)
        assert ("availableCapacities" in capacity) is stays


def test_what_is_missing_is_an_error_unless_it_is_only_to_be_reported() -> None:
    with pytest.raises(Invalid, match="image: Required value"):
        creator().create(PODS, pod(containers=[{"name": "c"}]))
    missing = creator(is_from_file=True).create(PODS, pod(containers=[{"name": "c"}]))
    assert list(map(str, missing)) == ["spec.containers[0].image: Required value"]
    with pytest.raises(Invalid) as caught:  # and nonsense beside it stays an error, told alone
        creator(is_from_file=True).create(PODS, pod(containers=[{"name": "C!"}]))
    assert [cause.field for cause in caught.value.causes] == ["spec.containers[0].name"]
