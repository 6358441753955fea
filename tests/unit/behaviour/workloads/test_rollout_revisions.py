"""Revisions of a Deployment: numbers, what a new ReplicaSet looks like, which old ones go."""

from __future__ import annotations

from support.workload_builders import deployment, replica_set
from tonnage.behaviour.workloads.rollout import annotations_for, new_set, next_revision, outdated

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"


def test_the_next_revision_is_one_more_than_the_highest_old_one() -> None:
    assert next_revision([]) == 1
    olds = [replica_set("a", annotations={REVISION: "3"}), replica_set("b", annotations={REVISION: "x"})]
    assert next_revision(olds) == 4


def test_a_set_that_is_returned_to_gets_a_new_number_and_remembers_the_old_ones() -> None:
    known = replica_set("a", annotations={REVISION: "3", HISTORY: "1"})
    assert annotations_for(deployment(), known, 5) == {REVISION: "5", HISTORY: "1,3"}
    assert annotations_for(deployment(), known, 3) == {}
    assert annotations_for(deployment(), replica_set("a", annotations={REVISION: "x"}), 5) == {}


def test_a_history_that_becomes_too_long_forgets_its_oldest_revisions() -> None:
    # 200 numbers of 9 digits and 199 commas are 1999 characters; one more makes 2009, without the first it is 1999.
    long = ",".join(str(100_000_000 + n) for n in range(200))
    known = replica_set("a", annotations={REVISION: "300000000", HISTORY: long})
    kept = annotations_for(deployment(), known, 300_000_001)[HISTORY]
    assert len(kept) <= 2000
    assert kept.startswith("100000001,")
    assert kept.endswith(",300000000")


def test_annotations_are_copied_but_for_those_of_tools_and_controllers() -> None:
    wanted = deployment(
        annotations={"team": "a", REVISION: "7", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    )
    assert annotations_for(wanted, replica_set("a", annotations={REVISION: "7"}), 7) == {"team": "a"}


def test_a_new_set_has_the_whole_template_and_a_name_that_follows_from_it() -> None:
    wanted = deployment(replicas=4, surge=1, minReadySeconds=5)
    doc = new_set(wanted, 4, 1)
    assert doc == new_set(wanted, 4, 1)
    name = doc["metadata"]["labels"]["pod-template-hash"]
    assert doc["metadata"]["name"] == f"web-{name}"
    assert doc["spec"]["selector"] == {"matchLabels": {"app": "web", "pod-template-hash": name}}
    assert doc["spec"]["template"]["metadata"]["labels"] == {"app": "web", "pod-template-hash": name}
    assert doc["spec"]["template"]["spec"] == {"containers": [{"name": "c", "image": "app:1"}]}
    assert doc["spec"]["minReadySeconds"] == 5
    assert doc["metadata"]["annotations"] == {
        REVISION: "1",
        "deployment.kubernetes.io/desired-replicas": "4",
        "deployment.kubernetes.io/max-replicas": "5",
    }
    assert doc["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "web",
            "uid": "uid-web",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    other = new_set(deployment(replicas=4, surge=1, status={"collisionCount": 1}), 4, 1)
    assert other["metadata"]["name"] != doc["metadata"]["name"]


def test_the_name_of_a_set_fits_however_long_its_deployment_s_is() -> None:
    assert len(new_set(deployment("d" * 253), 1, 1)["metadata"]["name"]) == 253


def test_only_empty_sets_beyond_the_limit_go_lowest_revision_first() -> None:
    olds = [replica_set(f"v{n}", 0, annotations={REVISION: str(n)}) for n in (3, 1, 2)]
    assert [each.name for each in outdated(deployment(revisionHistoryLimit=1), olds)] == ["v1", "v2"]
    assert outdated(deployment(revisionHistoryLimit=3), olds) == []
    assert outdated(deployment(revisionHistoryLimit=2**31 - 1), olds) == []
    busy = [replica_set("v1", 0, status={"replicas": 1}), replica_set("v2", 0, status={"observedGeneration": 0})]
    assert outdated(deployment(revisionHistoryLimit=0), busy) == []
