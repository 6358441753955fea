"""OpenAPI as kubectl reads it: kinds, patch strategies, parameters, and version 2 on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tonnage.apiserver import openapi
from tonnage.apiserver.discovery import group_versions
from tonnage.apiserver.openapi import gnostic
from tonnage.documents.schema import Struct, schema_of_resource, structs
from tonnage.objects.document import Doc, decode
from tonnage.objects.resources import RESOURCES, verbs_of

CORE = "io.k8s.api.core.v1"


def document(group: str) -> Doc:
    return dict(decode(openapi.openapi_v3(group, "v1")))


def schema(group: str, full_name: str) -> Doc:
    return dict(document(group)["components"]["schemas"][full_name])


def refs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(found := value.get("$ref"), str):
            yield found
        for item in value.values():
            yield from refs(item)
    elif isinstance(value, list):
        for item in value:
            yield from refs(item)


def test_the_index_points_to_every_version_by_the_hash_of_its_document() -> None:
    paths = decode(openapi.openapi_v3_index())["paths"]
    assert len(paths) == len(list(group_versions()))
    expected = openapi.etag(openapi.openapi_v3("storage.k8s.io", "v1"))
    assert paths["apis/storage.k8s.io/v1"] == {
        "serverRelativeURL": f"/openapi/v3/apis/storage.k8s.io/v1?hash={expected}"
    }
    assert paths["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")


def test_a_version_that_is_not_served_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        openapi.openapi_v3("autoscaling", "v1")


@pytest.mark.parametrize(("group", "version"), list(group_versions()))
def test_every_reference_leads_somewhere(group: str, version: str) -> None:
    made = document(group)
    known = {f"#/components/schemas/{name}" for name in made["components"]["schemas"]}
    assert set(refs(made)) <= known


def test_every_reference_of_version_2_leads_somewhere() -> None:
    made = decode(openapi.openapi_v2())
    assert set(refs(made)) <= {f"#/definitions/{name}" for name in made["definitions"]}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.qualified)
def test_explain_finds_the_kind_through_the_path(resource: Any) -> None:
    made = document(resource.group)
    found = made["paths"][resource.path("{namespace}")]["get"]["x-kubernetes-group-version-kind"]
    assert found == {"group": resource.group, "version": resource.version, "kind": resource.kind}
    kinds = [s.get("x-kubernetes-group-version-kind", ()) for s in made["components"]["schemas"].values()]
    assert sum(found in kind for kind in kinds) == 1


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.qualified)
def test_patch_offers_what_validation_dry_run_and_apply_look_for(resource: Any) -> None:
    patch = document(resource.group)["paths"][f"{resource.path('{namespace}')}/{{name}}"]["patch"]
    assert patch["x-kubernetes-action"] == "patch"
    assert {"fieldValidation", "dryRun", "fieldManager", "force"} <= {
        parameter["name"] for parameter in patch["parameters"] if parameter["in"] == "query"
    }
    assert list(patch["requestBody"]["content"]) == [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ]


def test_lists_say_how_they_merge() -> None:
    volumes = schema("", f"{CORE}.PodSpec")["properties"]["volumes"]
    assert {key: value for key, value in volumes.items() if key != "description"} == {
        "type": "array",
        "items": {"$ref": f"#/components/schemas/{CORE}.Volume"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge,retainKeys",
    }
    finalizers = schema("", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")["properties"]["finalizers"]
    assert (finalizers["x-kubernetes-list-type"], finalizers["x-kubernetes-patch-strategy"]) == ("set", "merge")
    assert "x-kubernetes-patch-merge-key" not in finalizers


def test_atomic_structs_and_maps_say_so() -> None:
    assert schema("", f"{CORE}.NodeSelector")["x-kubernetes-map-type"] == "atomic"
    assert schema("", f"{CORE}.PodSpec")["properties"]["nodeSelector"]["x-kubernetes-map-type"] == "atomic"


def test_a_struct_keeps_its_description_beside_the_reference() -> None:
    assert schema("apps", "io.k8s.api.apps.v1.DeploymentSpec")["properties"]["strategy"] == {
        "description": "How old pods give way to new ones.",
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}],
        "x-kubernetes-patch-strategy": "retainKeys",
    }


def test_required_fields_and_defaults_are_kept() -> None:
    port = schema("", f"{CORE}.ContainerPort")
    assert port["required"] == ["containerPort"]
    assert port["properties"]["protocol"]["default"] == "TCP"


def test_scalars_with_a_meaning_have_a_definition_of_their_own() -> None:
    quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity"
    assert schema("storage.k8s.io", quantity)["oneOf"] == [{"type": "string"}, {"type": "number"}]
    # Version 2 has no way to say "either".
    assert decode(openapi.openapi_v2())["definitions"][quantity]["type"] == "string"
    capacity = schema("storage.k8s.io", "io.k8s.api.storage.v1.CSIStorageCapacity")["properties"]
    assert capacity["capacity"]["allOf"] == [{"$ref": f"#/components/schemas/{quantity}"}]
    assert capacity["availableCapacities"]["items"] == {"$ref": f"#/components/schemas/{quantity}"}


def test_deleting_answers_with_the_object_where_upstream_does() -> None:
    def answer(group: str, path: str) -> str:
        content = document(group)["paths"][path]["delete"]["responses"]["200"]["content"]["application/json"]
        return str(content["schema"]["$ref"]).rpartition(".")[2]

    assert answer("", "/api/v1/namespaces/{namespace}/pods/{name}") == "Pod"
    assert answer("", "/api/v1/namespaces/{namespace}/pods") == "Status"
    assert answer("", "/api/v1/namespaces/{namespace}/configmaps/{name}") == "Status"


def test_operations_offer_the_verbs_of_discovery_and_no_others() -> None:
    methods = {"create": "post", "update": "put", "list": "get", "watch": "get", "deletecollection": "delete"}
    for resource in RESOURCES:
        paths = document(resource.group)["paths"]
        collection = resource.path("{namespace}")
        offered = {*paths[collection], *paths[f"{collection}/{{name}}"]} - {"parameters"}
        assert offered == {methods.get(verb, verb) for verb in verbs_of(resource)}, resource.qualified
    assert "delete" not in document("")["paths"]["/api/v1/namespaces"]


def test_operation_ids_are_unique_in_the_whole_api() -> None:
    ids = [
        operation["operationId"]
        for path in decode(openapi.openapi_v2())["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
    ]
    assert len(ids) == len(set(ids))
    assert {"listCoreV1PodForAllNamespaces", "patchCoreV1NamespacedPodStatus", "readStorageV1CSINode"} <= set(ids)
    assert {"deleteStorageV1CollectionCSINode", "createCoreV1NamespacedPodEviction"} <= set(ids)


def test_every_type_and_field_has_a_description_of_one_line() -> None:
    for struct in structs():
        assert struct.description, struct.full_name
        for field in struct.fields.values():
            assert field.description, f"{struct.full_name}.{field.name}"


@pytest.mark.parametrize(
    ("type_name", "field"),
    [
        ("CSIStorageCapacity", "availableCapacities"),
        ("CSIDriverSpec", "volumeRebuilding"),
        ("CSIDriverSpec", "nodeAllocatableUpdatePeriodSeconds"),
        ("VolumeNodeResources", "count"),
        ("VolumeError", "errorCode"),
    ],
)
def test_the_fields_of_the_enhancements_are_explained(type_name: str, field: str) -> None:
    assert schema("storage.k8s.io", f"io.k8s.api.storage.v1.{type_name}")["properties"][field]["description"]


def test_the_documents_of_version_3_are_made_once() -> None:
    assert openapi.openapi_v3("", "v1") is openapi.openapi_v3("", "v1")


# -- version 2 as protobuf -------------------------------------------------------------------------------------------


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """A minimal reader of the wire format: varints and length-delimited fields, which is all there is."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            length = varint()
            yield tag >> 3, message[at : at + length]
            at += length


def sub(message: int | bytes, *path: int) -> bytes:
    """Follow field numbers into nested messages, taking the first of each."""
    assert isinstance(message, bytes)
    for number in path:
        found = next(value for key, value in fields(message) if key == number)
        assert isinstance(found, bytes)
        message = found
    return message


def test_a_schema_is_written_field_by_field() -> None:
    made = gnostic.encode_document(
        {
            "swagger": "2.0",
            "definitions": {
                "T": {
                    "type": "object",
                    "required": ["a"],
                    "properties": {"a": {"type": "array", "items": {"$ref": "#/definitions/T"}}},
                    "x-kubernetes-map-type": "atomic",
                }
            },
        }
    )
    assert sub(made, 1) == b"2.0"  # Document.swagger
    named = sub(made, 9, 1)  # Document.definitions -> additional_properties
    assert sub(named, 1) == b"T"
    t = sub(named, 2)
    assert sub(t, 22, 1) == b"object"  # Schema.type -> TypeItem.value
    assert sub(t, 19) == b"a"  # Schema.required
    a = sub(t, 25, 1)  # Schema.properties -> NamedSchema
    assert sub(a, 1) == b"a"
    assert sub(a, 2, 23, 1, 1) == b"#/definitions/T"  # Schema.items -> ItemsItem.schema -> _ref
    extension = sub(t, 31)  # Schema.vendor_extension -> NamedAny
    assert (sub(extension, 1), sub(extension, 2, 2)) == (b"x-kubernetes-map-type", b'"atomic"')


def test_the_whole_document_reads_back_with_every_definition_and_path() -> None:
    json_form = decode(openapi.openapi_v2())
    made = openapi.openapi_v2_protobuf()
    names = {sub(value, 1).decode() for number, value in fields(sub(made, 9)) if number == 1}
    assert names == set(json_form["definitions"])
    paths = {sub(value, 1).decode() for number, value in fields(sub(made, 8)) if number == 2}
    assert paths == set(json_form["paths"])


def test_patch_carries_its_kind_and_its_query_parameters_in_protobuf_too() -> None:
    made = openapi.openapi_v2_protobuf()
    wanted = b"/apis/storage.k8s.io/v1/csinodes/{name}"
    item = next(value for number, value in fields(sub(made, 8)) if number == 2 and sub(value, 1) == wanted)
    patch = sub(item, 2, 8)  # NamedPathItem.value -> PathItem.patch
    extensions = {sub(value, 1): decode(sub(value, 2, 2)) for number, value in fields(patch) if number == 13}
    assert extensions[b"x-kubernetes-group-version-kind"] == {
        "group": "storage.k8s.io",
        "version": "v1",
        "kind": "CSINode",
    }
    names = set()
    for number, value in fields(patch):
        if number == 8:  # ParametersItem -> Parameter
            for arm, parameter in fields(sub(value, 1)):
                if arm == 2:  # NonBodyParameter -> QueryParameterSubSchema -> name
                    names.add(sub(parameter, 3, 4))
    assert names == {b"dryRun", b"fieldManager", b"fieldValidation", b"force"}


def test_a_type_of_every_kind_served_is_in_the_one_document_of_version_2() -> None:
    definitions = decode(openapi.openapi_v2())["definitions"]
    for resource in RESOURCES:
        kind: Struct = schema_of_resource(resource)
        assert kind.full_name in definitions
        assert f"{kind.full_name}List" in definitions
