"""Names, pods, claims and revisions of a StatefulSet."""

from __future__ import annotations

import json
from typing import Any

from support.workload_builders import a_pod, ago, stateful_set, template
from tonnage.behaviour.workloads.pod_states import ordinal_of
from tonnage.behaviour.workloads.stateful_set_plan import claims_for, is_member, pod_for
from tonnage.behaviour.workloads.templates import data_of, in_order, new_revision, outdated, template_of, wanted
from tonnage.objects.apps_v1 import ControllerRevision, StatefulSet
from tonnage.objects.codec import convert


def revision(owner: StatefulSet, number: int, **more: Any) -> ControllerRevision:
    doc = new_revision(owner, number, 0)
    doc["metadata"] |= {"resourceVersion": "1", "creationTimestamp": ago(0), **more}
    return convert(ControllerRevision, doc)


def test_the_ordinal_is_the_number_at_the_end_of_the_name() -> None:
    assert [ordinal_of(name) for name in ("db-0", "my-db-12", "db", "db-x", "db-99999999999")] == [0, 12, -1, -1, -1]


def test_a_member_has_the_set_s_name_and_nothing_more() -> None:
    owner = stateful_set("db")
    assert is_member(owner, a_pod("db-7"))
    assert not is_member(owner, a_pod("my-db-7"))
    assert not is_member(owner, a_pod("db"))


def test_a_pod_is_a_copy_of_the_template_with_its_identity_and_claims() -> None:
    owner = stateful_set("db", claims=["data", "log"])
    asked = template()
    asked["spec"]["volumes"] = [{"name": "tmp", "emptyDir": {}}, {"name": "data", "emptyDir": {}}]
    asked["spec"]["containers"][0]["livenessProbe"] = {"exec": {"command": ["true"]}}
    pod = pod_for(owner, asked, 2, "db-abc")
    assert pod["metadata"]["name"] == "db-2"
    assert pod["metadata"]["generateName"] == "db-"
    assert pod["metadata"]["labels"] == {
        "app": "web",
        "statefulset.kubernetes.io/pod-name": "db-2",
        "apps.kubernetes.io/pod-index": "2",
        "controller-revision-hash": "db-abc",
    }
    assert pod["spec"]["hostname"] == "db-2"
    assert pod["spec"]["subdomain"] == "db"
    assert pod["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-2"}},
        {"name": "log", "persistentVolumeClaim": {"claimName": "log-db-2"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    assert pod["spec"]["containers"][0]["livenessProbe"] == {"exec": {"command": ["true"]}}
    assert "hostname" not in asked["spec"]
    plain = pod_for(owner, template(), 0, "db-abc")
    assert [volume["name"] for volume in plain["spec"]["volumes"]] == ["data", "log"]
    assert "volumes" not in pod_for(stateful_set("db"), template(), 0, "db-abc")["spec"]


def test_a_claim_has_its_template_s_spec_and_the_labels_of_the_selector() -> None:
    (claim,) = claims_for(stateful_set("db", claims=["data"]), 1)
    assert claim["metadata"] == {"name": "data-db-1", "namespace": "default", "labels": {"app": "web"}}
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def test_a_revision_keeps_the_template_as_a_patch_that_puts_it_back() -> None:
    owner = stateful_set("db", image="app:7")
    assert data_of(owner) == {"spec": {"template": {**template("app:7"), "$patch": "replace"}}}
    # Upstream's clients compare the bytes with what Go writes, which sorts.
    assert json.dumps(data_of(owner)) == json.dumps(data_of(owner), sort_keys=True)
    assert template_of(revision(owner, 1)) == template("app:7")
    assert revision(owner, 1).name == revision(owner, 2).name
    assert revision(stateful_set("db", image="app:8"), 1).name != revision(owner, 1).name


def test_a_new_template_gets_the_next_number_and_an_old_one_comes_back_with_a_new_number() -> None:
    one, two = stateful_set("db", image="app:1"), stateful_set("db", image="app:2")
    assert wanted(one, []) == (None, 1)
    ordered = [revision(one, 1), revision(two, 2)]
    assert wanted(two, ordered) == (ordered[1], None)
    assert wanted(one, ordered) == (ordered[0], 3)
    assert wanted(stateful_set("db", image="app:3"), ordered) == (None, 3)


def test_revisions_are_ordered_by_number_then_age_then_name() -> None:
    owner = stateful_set("db")
    mixed = [
        revision(owner, 2, name="c"),
        revision(owner, 1, name="b", creationTimestamp=ago(5)),
        revision(owner, 1, name="a"),
    ]
    assert [each.name for each in in_order(mixed)] == ["b", "a", "c"]


def test_only_revisions_that_nobody_uses_are_forgotten_oldest_first() -> None:
    ordered = [revision(stateful_set("db"), n, name=f"r{n}") for n in (1, 2, 3, 4)]
    owner = stateful_set("db", revisionHistoryLimit=1)
    assert [each.name for each in outdated(owner, ordered, {"r1", "r4"})] == ["r2"]
    assert outdated(stateful_set("db", revisionHistoryLimit=-1), ordered, set()) == []
    assert outdated(stateful_set("db", revisionHistoryLimit=4), ordered, set()) == []
