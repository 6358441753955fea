"""Replicas as copies: the same as those that are created in full, and created in full where that is not sure."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from tonnage.gates import Gates
from tonnage.objects import codec
from tonnage.objects.meta import Object
from tonnage.whatif.creation import Creation
from tonnage.whatif.expansion import Replica, ReplicaCopies, WorkloadExpander, copied
from tonnage.whatif.sources import ClusterState, clock_of
from tonnage.whatif.workloads import Workload

SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": SPEC}}}
OWN = {"name": "conf", "persistentVolumeClaim": {"claimName": "shared"}}


def owner(kind: str, name: str, **spec: Any) -> Workload:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "a", "image": "a"}], "volumes": [SCRATCH, OWN]},
    }
    doc = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "uid": "owner"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, "replicas": 1, **spec},
    }
    found: Object = codec.decode_doc(doc)
    return found  # type: ignore[return-value]  # one of the workloads


def replicas_of(workload: Workload, count: int) -> list[Replica]:
    state = ClusterState([workload], "test", clock_of([]))
    return list(islice(WorkloadExpander(state, Creation(Gates()), []).more(workload)[1], count))


@pytest.mark.parametrize(
    "workload",
    [
        owner(
            "StatefulSet", "db", serviceName="db", volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": SPEC}]
        ),
        # Claims whose names hold the pod's: data-db-db-0 is not data-x-db-0.
        owner("StatefulSet", "db-0", serviceName="", volumeClaimTemplates=[{"metadata": {"name": "db"}, "spec": SPEC}]),
        owner("ReplicaSet", "web"),
    ],
    ids=["StatefulSet", "names in names", "ReplicaSet"],
)
def test_a_copy_is_what_creation_makes(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = replicas_of(workload, 102)
    monkeypatch.setattr(ReplicaCopies, "of", lambda self, name, create: create())
    assert quick == replicas_of(workload, 102)


def test_one_that_would_differ_is_created_in_full() -> None:
    copies, (first, second, third) = ReplicaCopies(), replicas_of(owner("ReplicaSet", "web"), 3)
    assert copies.of(first.pod.name, lambda: first) is first
    other = Replica(second.pod, ())  # creation made something else of it
    assert copies.of(second.pod.name, lambda: other) is other
    assert copies.of(third.pod.name, lambda: third) is third, "created"


def test_a_copy_has_names_and_uids_of_its_own() -> None:
    (first,) = replicas_of(owner("ReplicaSet", "web"), 1)
    copy = copied(first, "web-other")
    assert copy.pod.uid != first.pod.uid and copy.claims[0].name == "web-other-scratch"
    assert copy.claims[0].metadata.owner_references[0].uid == copy.pod.uid


def test_few_are_created_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    created, of = [], Creation.of

    def counted(self: Creation, *args: Any) -> Object:
        created.append(1)
        return of(self, *args)

    monkeypatch.setattr(Creation, "of", counted)
    replicas_of(owner("ReplicaSet", "web"), 50)
    # Two pods with a claim each: the first, and one to compare a copy with.
    assert len(created) == 4
