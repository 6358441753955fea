"""The Pod strategy: what a client cannot write, what is kept, and how long a deleted pod stays."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.kinds.pods.pod import PodStrategy, merge_label_keys
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy
from tonnage.objects.resources import BY_PLURAL


def strategy(gates: str = "") -> PodStrategy:
    return PodStrategy(BY_PLURAL["", "pods"], Gates.parse(gates))


def stored(status: Doc | None = None, **spec: Any) -> Doc:
    made: Doc = {
        "metadata": {"name": "p", "namespace": "ns", "creationTimestamp": "2024-05-01T12:00:00Z"},
        "spec": {"containers": [{"name": "c", "image": "x"}], "priority": 0, **spec},
    }
    rules = strategy()
    rules.default(made)
    rules.prepare_create(made)
    made["status"].update(status or {})
    return made


def test_a_new_pod_is_pending_whatever_it_says() -> None:
    rules, made = (
        strategy(),
        {
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1"},
        },
    )
    rules.default(made)
    rules.prepare_create(made)
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_a_gated_pod_says_since_when_it_waits() -> None:
    assert stored(schedulingGates=[{"name": "g"}])["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": "2024-05-01T12:00:00Z",
        }
    ]


def test_label_keys_are_merged_once_at_creation_and_not_again_on_updates() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "matchLabelKeys": ["app", "absent"],
        "labelSelector": {},
    }
    made: Doc = {"metadata": {"labels": {"app": "web"}}, "spec": {"topologySpreadConstraints": [constraint]}}
    merge_label_keys(made)
    merged = [{"key": "app", "operator": "In", "values": ["web"]}]
    assert constraint["labelSelector"] == {"matchExpressions": merged}
    old = stored()
    new = copy(old)
    new["spec"]["topologySpreadConstraints"] = [constraint]
    strategy().prepare_update(new, old)
    assert constraint["labelSelector"] == {"matchExpressions": merged}


def test_without_a_selector_there_is_nothing_to_merge_into() -> None:
    term = {"topologyKey": "zone", "matchLabelKeys": ["app"]}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    merge_label_keys({"metadata": {"labels": {"app": "web"}}, "spec": {"affinity": affinity}})
    assert "labelSelector" not in term


def test_an_update_that_forgets_the_priority_keeps_it() -> None:
    old = stored(priority=7, preemptionPolicy="Never")
    new = copy(old)
    del new["spec"]["priority"], new["spec"]["preemptionPolicy"]
    strategy().prepare_update(new, old)
    assert (new["spec"]["priority"], new["spec"]["preemptionPolicy"]) == (7, "Never")
    assert strategy().validate_update(new, old) == []


def test_a_plain_update_does_not_write_the_status() -> None:
    old = stored()
    new = copy(old)
    new["status"]["phase"] = "Running"
    strategy().prepare_update(new, old)
    assert new["status"]["phase"] == "Pending"


def test_a_status_write_touches_neither_spec_nor_owners_nor_the_service_class() -> None:
    old = stored()
    old["metadata"]["ownerReferences"] = [{"name": "rs", "uid": "u"}]
    new: Doc = {
        "metadata": {"name": "p"},
        "spec": {"containers": [], "nodeName": "n"},
        "status": {"phase": "Running", "qosClass": ""},
    }
    strategy().prepare_status(new, old)
    assert new["spec"] == old["spec"]
    assert new["metadata"]["ownerReferences"] == [{"name": "rs", "uid": "u"}]
    assert new["status"] == {"phase": "Running", "qosClass": "BestEffort"}


def test_what_was_observed_is_not_forgotten() -> None:
    before = {"type": "Ready", "status": "False", "observedGeneration": 4}
    old = stored(status={"observedGeneration": 5, "conditions": [before]})
    new = copy(old)
    new["status"] = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}],
    }
    strategy().prepare_status(new, old)
    assert new["status"]["observedGeneration"] == 5
    assert [item.get("observedGeneration") for item in new["status"]["conditions"]] == [4, None]


@pytest.mark.parametrize(
    ("doc", "asked_s", "expected_s"),
    [
        (stored(nodeName="n"), None, 30),
        (stored(nodeName="n", terminationGracePeriodSeconds=5), None, 5),
        (stored(nodeName="n"), 0, 0),
        (stored(nodeName="n"), 60, 60),
        (stored(nodeName="n"), -1, 1),
        (stored(), None, 0),  # never scheduled
        (stored(), 60, 0),
        (stored(nodeName="n", status={"phase": "Succeeded"}), None, 0),
        (stored(nodeName="n", status={"phase": "Failed"}), 60, 0),
    ],
)
def test_a_deleted_pod_stays_for_its_grace_period_if_it_ever_ran(
    doc: Doc, asked_s: int | None, expected_s: int
) -> None:
    assert strategy().grace_period_s(doc, asked_s) == expected_s


def test_the_gate_decides_whether_a_bound_pod_may_be_nominated() -> None:
    old = stored(nodeName="n")
    new = copy(old)
    new["status"]["nominatedNodeName"] = "n"
    (error,) = strategy().validate_status(new, old)
    assert str(error) == (
        "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"
    )
    assert strategy("ClearingNominatedNodeNameAfterBinding=false").validate_status(new, old) == []


def test_the_generation_counts_changes_of_the_spec_only() -> None:
    old = stored()
    relabelled, gated = copy(old), copy(old)
    relabelled["metadata"]["labels"] = {"a": "b"}
    gated["spec"]["tolerations"] = [{"operator": "Exists"}]
    assert not strategy().spec_changed(relabelled, old)
    assert strategy().spec_changed(gated, old)


def test_a_pod_whose_name_cannot_be_a_host_name_is_warned_about() -> None:
    made = stored()
    made["metadata"]["name"] = "a.b"
    assert strategy().warnings(made, None) == [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
        "a DNS label is recommended: [must not contain dots]"
    ]
    assert strategy().warnings(made, made) == []
