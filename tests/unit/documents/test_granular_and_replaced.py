"""Two fields that merge against the habit of their type, as three readers of the schema see them."""

from __future__ import annotations

from tonnage.apiserver.openapi.types import V2, definitions
from tonnage.documents.apply.field_walk import shape_of
from tonnage.documents.apply.server_side_apply import merge
from tonnage.documents.patches.strategic_merge import strategic_merge
from tonnage.documents.schema import schema_of

VOLUME = schema_of("", "v1", "PersistentVolume")
BUDGET = schema_of("policy", "v1", "PodDisruptionBudget")


def test_appliers_own_parts_of_a_claim_reference() -> None:
    applied = {"spec": {"claimRef": {"namespace": "ns", "name": "c"}}}
    assert shape_of(VOLUME).leaves(applied) == {"f:spec": {"f:claimRef": {"f:name": {}, "f:namespace": {}}}}
    live = {"spec": {"claimRef": {"uid": "u", "name": "old"}}}
    assert merge(VOLUME, live, applied) == {"spec": {"claimRef": {"uid": "u", "namespace": "ns", "name": "c"}}}


def test_an_object_reference_elsewhere_is_one_field() -> None:
    # storage.k8s.io's inline volume has a granular one too: it is the same PersistentVolumeSpec. An Event's is not.
    event = schema_of("", "v1", "Event")
    assert shape_of(event).leaves({"related": {"name": "a", "uid": "u"}}) == {"f:related": {}}


def test_strategic_merge_replaces_the_selector_of_a_budget_as_a_whole() -> None:
    budget = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "1"}}}}
    patch = {"spec": {"selector": {"matchLabels": {"b": "2"}}}}
    assert strategic_merge(BUDGET, budget, patch) == {
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"b": "2"}}}
    }


def test_openapi_says_so_to_clients() -> None:
    found = definitions([VOLUME, BUDGET], V2)
    claim_ref = found["io.k8s.api.core.v1.PersistentVolumeSpec"]["properties"]["claimRef"]
    selector = found["io.k8s.api.policy.v1.PodDisruptionBudgetSpec"]["properties"]["selector"]
    assert claim_ref["x-kubernetes-map-type"] == "granular"
    assert selector["x-kubernetes-patch-strategy"] == "replace"
