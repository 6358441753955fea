"""Claims: growing, shrinking, and the class that decides about it."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.kinds.storage.persistent_volume_claim import (
    PersistentVolumeClaimStrategy,
    requested,
    resize_refusal,
    validate_claim_spec,
)
from tonnage.gates import Gates
from tonnage.objects.core_v1 import BETA_STORAGE_CLASS, class_name_in
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors
from tonnage.objects.resources import BY_PLURAL
from tonnage.quantity import Quantity

STRATEGY = PersistentVolumeClaimStrategy(BY_PLURAL["", "persistentvolumeclaims"], Gates())


def told(errors: Errors) -> list[str]:
    return [str(error) for error in errors]


def claim(size: str = "1Gi", *, phase: str = "Bound", has: str = "1Gi", **spec: Any) -> Doc:
    base = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
    }
    return {"metadata": {"name": "c"}, "spec": base | spec, "status": {"phase": phase, "capacity": {"storage": has}}}


NOT_DYNAMIC = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


def test_a_bound_claim_may_ask_for_more() -> None:
    assert STRATEGY.validate_update(claim("2Gi"), claim("1Gi")) == []


def test_a_claim_goes_back_to_what_is_more_than_it_has() -> None:
    # It has 1Gi, asked for 3Gi: 2Gi is still growth, 1Gi would be giving up a growth that may be under way.
    assert STRATEGY.validate_update(claim("2Gi"), claim("3Gi")) == []
    assert told(STRATEGY.validate_update(claim("1Gi"), claim("3Gi"))) == [
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    ]


def test_an_unbound_claim_does_not_grow_and_shows_the_difference() -> None:
    refused = STRATEGY.validate_update(claim("2Gi", phase="Pending"), claim("1Gi", phase="Pending"))
    assert told(refused) == [
        "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for "
        "bound claims\n"
        "@@ -6,7 +6,7 @@\n"
        '  "Resources": {\n'
        '   "Limits": null,\n'
        '   "Requests": {\n'
        '-   "storage": "1Gi"\n'
        '+   "storage": "2Gi"\n'
        "   }\n"
        "  },\n"
        '  "VolumeName": "",\n'
    ]


def test_both_names_of_a_data_source_agree() -> None:
    spec = claim(dataSource={"kind": "PersistentVolumeClaim", "name": "a"})["spec"]
    for reference, sentence in (
        ({"kind": "PersistentVolumeClaim", "name": "b"}, "must match dataSourceRef"),
        (
            {"kind": "PersistentVolumeClaim", "name": "a", "namespace": "other"},
            "may not be specified when dataSourceRef.namespace is specified",
        ),
    ):
        assert told(validate_claim_spec(spec | {"dataSourceRef": reference}, "spec")) == [
            f"spec: Invalid value: {{}}: {sentence}"
        ]


def test_a_stored_group_that_cannot_be_may_stay() -> None:
    source = {"apiGroup": "A_b", "kind": "K", "name": "n"}
    old = claim(dataSource=source, dataSourceRef=source)
    assert len(validate_claim_spec(old["spec"], "spec")) == 2
    assert STRATEGY.validate_update(old, old) == []


@pytest.mark.parametrize(
    ("old", "storage_class", "refusal"),
    [
        (claim(), {"allowVolumeExpansion": True}, None),
        (claim(), {"allowVolumeExpansion": False}, NOT_DYNAMIC),
        (claim(), {}, NOT_DYNAMIC),
        (claim(), None, NOT_DYNAMIC),
        (claim(phase="Pending"), {"allowVolumeExpansion": True}, "Only bound persistent volume claims can be expanded"),
        (claim(storageClassName=""), {"allowVolumeExpansion": True}, NOT_DYNAMIC),
    ],
)
def test_a_claim_grows_when_it_is_bound_and_its_class_lets_it(
    old: Doc, storage_class: Doc | None, refusal: str | None
) -> None:
    new = {**old, "spec": {**old["spec"], "resources": {"requests": {"storage": "2Gi"}}}}
    assert resize_refusal(new, old, storage_class) == refusal
    # Whoever does not grow is not asked.
    assert resize_refusal(old, old, storage_class) is None


def test_the_old_annotation_wins_over_the_field() -> None:
    old = claim()
    assert class_name_in(old) == "fast"
    assert class_name_in(old | {"metadata": {"annotations": {BETA_STORAGE_CLASS: ""}}}) == ""
    assert requested(old) == Quantity.parse("1Gi")
    assert requested({}) == Quantity.from_int(0)
