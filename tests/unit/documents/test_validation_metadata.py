"""Metadata: the cases a request to a server cannot show alone; the rest stands in tests/parity."""

from __future__ import annotations

from typing import Any

from tonnage.documents.validation.metadata import (
    validate_annotations,
    validate_object_meta,
    validate_object_meta_update,
)
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


def claim(**meta: Any) -> Doc:
    stored = {"name": "c", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": stored | {"resourceVersion": "7"} | meta}


def told(errors: Errors) -> list[str]:
    return [str(error) for error in errors]


def judged(doc: Doc, *, namespaced: bool = True) -> list[str]:
    return told(validate_object_meta(doc, namespaced=namespaced, name_rule=names.dns_subdomain))


def test_plain_metadata_is_legal() -> None:
    assert judged(claim()) == []
    assert told(validate_object_meta_update(claim(), claim())) == []


def test_a_name_is_required() -> None:
    doc = claim()
    del doc["metadata"]["name"]
    assert judged(doc) == ["metadata.name: Required value: name or generateName is required"]


def test_a_name_the_kind_allows_must_still_fit_into_a_path() -> None:
    found = validate_object_meta(claim(name="a/b"), namespaced=True, name_rule=lambda name: [])
    assert told(found) == ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]


def test_the_namespace_belongs_to_the_scope() -> None:
    assert judged(claim(namespace="")) == ["metadata.namespace: Required value"]
    assert judged(claim(namespace="a.b")) == ['metadata.namespace: Invalid value: "a.b": must not contain dots']
    assert judged(claim(), namespaced=False) == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_a_generation_is_not_negative() -> None:
    assert judged(claim(generation=-1)) == [
        "metadata.generation: Invalid value: -1: must be greater than or equal to 0"
    ]


def test_what_identifies_an_object_does_not_change() -> None:
    changed = claim(name="d", namespace="ms", uid="v", creationTimestamp="2026-01-02T00:00:00Z")
    assert told(validate_object_meta_update(changed, claim())) == [
        'metadata.name: Invalid value: "d": field is immutable',
        'metadata.namespace: Invalid value: "ms": field is immutable',
        'metadata.uid: Invalid value: "v": field is immutable',
        'metadata.creationTimestamp: Invalid value: "2026-01-02T00:00:00Z": field is immutable',
    ]


def test_a_deletion_is_neither_set_nor_lifted_by_an_update() -> None:
    deleted = claim(deletionTimestamp="2026-01-02T00:00:00Z", deletionGracePeriodSeconds=30)
    assert told(validate_object_meta_update(deleted, claim())) == [
        'metadata.deletionTimestamp: Invalid value: "2026-01-02T00:00:00Z": field is immutable',
        "metadata.deletionGracePeriodSeconds: Invalid value: 30: field is immutable",
    ]
    assert told(validate_object_meta_update(claim(), deleted)) == [
        "metadata.deletionTimestamp: Invalid value: null: field is immutable",
        "metadata.deletionGracePeriodSeconds: Invalid value: null: field is immutable",
    ]


def test_a_generation_does_not_go_back() -> None:
    assert told(validate_object_meta_update(claim(generation=1), claim(generation=2))) == [
        "metadata.generation: Invalid value: 1: must not be decremented"
    ]


def test_an_update_names_the_version_it_was_made_from() -> None:
    assert told(validate_object_meta_update(claim(resourceVersion=""), claim())) == [
        'metadata.resourceVersion: Invalid value: "": must be specified for an update'
    ]


def test_a_deleted_object_takes_no_new_finalizers() -> None:
    deleted = claim(deletionTimestamp="2026-01-02T00:00:00Z", finalizers=["a.b/c"])
    more = claim(deletionTimestamp="2026-01-02T00:00:00Z", finalizers=["a.b/c", "d.e/f", "b.b/b"])
    assert told(validate_object_meta_update(more, deleted)) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"b.b/b", "d.e/f"}'
    ]
    fewer = claim(deletionTimestamp="2026-01-02T00:00:00Z")
    assert told(validate_object_meta_update(fewer, deleted)) == []


def test_annotations_are_counted_in_bytes() -> None:
    # 1 byte of key + 2 * 131,071 bytes of value = 262,143; one more pair of bytes passes 256 KiB = 262,144.
    assert validate_annotations({"a": "é" * 131_071}, "p") == []
    assert told(validate_annotations({"a": "é" * 131_072}, "p")) == ["p: Too long: may not be more than 262144 bytes"]


def test_managed_fields_name_who_did_what() -> None:
    entries = [
        {"manager": "a\x01b", "operation": "Steal", "fieldsType": "X"},
        {"manager": "m" * 129, "operation": "Apply", "subresource": "s" * 257},
    ]
    assert judged(claim(managedFields=entries)) == [
        'metadata.managedFields[0].operation: Invalid value: "Steal": must be `Apply` or `Update`',
        'metadata.managedFields[0].fieldsType: Invalid value: "X": must be `FieldsV1`',
        'metadata.managedFields[0].manager: Invalid value: "a\\u0001b": invalid character U+0001 (at position 1)',
        "metadata.managedFields[1].manager: Too long: may not be more than 128 bytes",
        "metadata.managedFields[1].subresource: Too long: may not be more than 256 bytes",
    ]
