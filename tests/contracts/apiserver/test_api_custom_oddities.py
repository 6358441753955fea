"""Custom resources at their edges: values of wrong types, keys that come twice, and what is told about them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from custom_documents import CRDS, box, definition, establish, new_group, version

from support.api_servers import ServerApi
from support.eventually import eventually
from support.http import PATCH_TYPES

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def schema(**fields: Any) -> dict[str, Any]:
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    spec = {"type": "object", "properties": {"i": {"type": "integer"}, **fields}}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}


FIELDS: dict[str, Any] = {
    "o": {"type": "object", "properties": {"a": {"type": "string", "maxLength": 1}}},
    "map": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
    },
    "set": {
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"a": {"type": "string"}},
        },
    },
    "many": {"type": "object", "additionalProperties": {"type": "object"}},
    "resource": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
}
SCALE = {"specReplicasPath": ".spec.i", "statusReplicasPath": ".status.replicas"}


@pytest.fixture(scope="module")
def group(api: ServerApi) -> str:
    name = new_group()
    establish(api, definition(name, version(schema=schema(**FIELDS), subresources={"status": {}, "scale": SCALE})))
    return name


@pytest.fixture
def boxes(group: str, ns: str) -> str:
    return f"/apis/{group}/v1/namespaces/{ns}/boxes"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"o": "x"}, "spec.o"),
        ({"map": [None]}, "spec.map[0]"),
        ({"map": ["a"]}, "spec.map[0]"),
        ({"many": {"a": "x"}}, "spec.many.a"),
        ({"set": [{"a": "x"}, {"a": "x"}]}, "spec.set[1]"),
        ("x", "spec"),
        ({"i": 1 << 63}, "spec.i"),
    ],
)
def test_values_of_wrong_types_are_refused_where_they_stand(
    api: ServerApi, boxes: str, group: str, spec: Any, field: str
) -> None:
    refused = api.post(boxes, box(group, spec=spec))
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert field in [each for each, _ in refused.causes]


def test_an_object_whose_fields_nobody_can_name_has_no_owners(api: ServerApi, boxes: str, group: str) -> None:
    made = api.create(boxes, box(group, spec={"set": [{"a": "x"}]}))
    assert "managedFields" not in made.meta and made["spec"] == {"set": [{"a": "x"}]}
    ignored = api.create(boxes, box(group, "b", spec={"i": 1}, status="x"))
    assert "status" not in ignored.body and "managedFields" not in ignored.meta


def test_owners_are_forgotten_by_one_empty_entry_and_not_by_an_empty_list(
    api: ServerApi, boxes: str, group: str
) -> None:
    api.create(boxes, box(group, spec={"i": 1}))
    kept = api.patch(f"{boxes}/a", {"metadata": {"managedFields": []}})
    assert len(kept.meta["managedFields"]) == 1
    assert "managedFields" not in api.patch(f"{boxes}/a", {"metadata": {"managedFields": [{}]}}).meta


def test_a_number_that_is_no_integer_is_told_twice(api: ServerApi, boxes: str, group: str) -> None:
    refused = api.post(boxes, box(group, spec={"i": 1.5}))
    told = 'Invalid value: "": Checked value must be of type integer (default format) in spec.i'
    assert ("<nil>", told) in refused.causes
    assert (".spec.i", "Invalid value: 0: .spec.i accessor error: 1.5 is of the type float64, expected int64") in (
        refused.causes
    )
    one = api.post(boxes, box(group, spec={"o": {"a": "xy"}}))
    assert one.causes == [("spec.o.a", "Too long: may not be more than 1 byte")]


def test_metadata_that_cannot_be_read_is_told_from_metadata_on(api: ServerApi, boxes: str, group: str) -> None:
    bad = {"labels": {"x": 1}}
    why = "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    top = api.post(boxes, {**box(group), "metadata": {"name": "a", **bad}})
    assert (top.code, top.message) == (400, f'Box in version "v1" cannot be handled as a Box: {why}')
    inside = api.post(boxes, box(group, spec={"resource": {"apiVersion": "v1", "kind": "Pod", "metadata": bad}}))
    told = f"spec.resource.metadata: Invalid value: {json.dumps(bad, separators=(',', ':'))}: {why}"
    assert (inside.code, inside.message) == (400, f'Box in version "v1" cannot be handled as a Box: {told}')
    free = {"apiVersion": "v1", "kind": "Pod", "metadata": {"finalizers": ["unqualified"]}}
    assert api.post(boxes, box(group, spec={"resource": free})).code == 201


def test_a_document_without_its_kind_or_version(api: ServerApi, boxes: str, group: str) -> None:
    unversioned = api.post(boxes, {"kind": "Box", "metadata": {"name": "a"}})
    told = f"the API version in the data () does not match the expected API version ({group}/v1)"
    assert (unversioned.code, unversioned.message) == (400, told)
    api.create(boxes, box(group))
    patched = api.patch(f"{boxes}/a", {"kind": None})
    assert (patched.code, [field for field, _ in patched.causes]) == (422, ["patch"])


def test_what_a_custom_group_has_not_is_a_page(api: ServerApi, group: str) -> None:
    for path in (f"/apis/{group}/v9", f"/apis/{group}/v1/crates", f"/apis/{group}/v1/boxes/a/b/c"):
        missing = api.get(path)
        assert (missing.code, missing.body) == (404, "404 page not found\n")


def test_methods_that_a_subresource_has_not(api: ServerApi, boxes: str, group: str) -> None:
    refused = api.delete(f"{boxes}/a/status")
    told = f'delete is not supported on resources of kind "boxes.{group}"'
    assert (refused.code, refused.message) == (405, told)
    assert refused["details"] == {"group": group, "kind": "boxes"}
    assert api.post(f"{boxes}/a/scale", {}).message == told.replace("delete", "create")
    for unnamed in (api.put(boxes, box(group)), api.patch(boxes, {})):
        assert (unnamed.code, unnamed.message) == (400, "name must be provided")


def test_a_scale_without_its_number_says_which(api: ServerApi, boxes: str, group: str) -> None:
    api.create(boxes, box(group))
    missing = api.get(f"{boxes}/a/scale")
    assert missing["details"]["causes"] == [{"message": 'the spec replicas field ".spec.i" does not exist'}]


def test_aggregated_discovery_names_group_and_version_of_custom_kinds(api: ServerApi, group: str) -> None:
    groups = {each["metadata"].get("name"): each for each in api.get("/apis", accept=AGGREGATED)["items"]}
    resource = groups[group]["versions"][0]["resources"][0]
    own = {"group": group, "version": "v1", "kind": "Box"}
    assert resource["responseKind"] == own
    found = {each["subresource"]: each["responseKind"] for each in resource["subresources"]}
    assert found == {"status": own, "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"}}


def test_openapi_of_a_custom_group_says_nothing_by_empty_lists(api: ServerApi, group: str) -> None:
    """Readers in Go that write it again would lose them: upstream's own test compares the two."""
    path = f"/openapi/v3/apis/{group}/v1"
    eventually(lambda: api.get(path).code == 200, "the group to be in OpenAPI")
    body = api.get(path).body
    found = json.loads(body) if isinstance(body, str) else body
    for item in found["paths"].values():
        said = [item, *(operation for operation in item.values() if isinstance(operation, dict))]
        assert all(each.get("parameters", True) for each in said)


def test_keys_that_yaml_has_twice(api: ServerApi, boxes: str, group: str) -> None:
    text = f"apiVersion: {group}/v1\nkind: Box\nmetadata:\n  name: a\nspec:\n  i: 1\n  i: 2\n".encode()
    line = 'line 7: key "i" already set in map'
    whole = f"yaml: unmarshal errors:\n  {line}"
    refused = api.post(f"{boxes}?fieldValidation=Strict", text, content_type="application/yaml")
    assert (refused.code, refused.message) == (
        400,
        f'Box in version "v1" cannot be handled as a Box: strict decoding error: {whole}',
    )
    strictly = f"{boxes}/a?fieldManager=me&fieldValidation=Strict"
    applied = api.request("PATCH", strictly, text, content_type=PATCH_TYPES["apply"])
    told = f"error strict decoding YAML: error converting YAML to JSON: {whole}"
    assert (applied.code, applied.message) == (400, told)
    warned = api.post(f"{boxes}?dryRun=All", text, content_type="application/yaml")
    assert (warned.code, warned.warnings, warned["spec"]) == (201, [line], {"i": 2})
    assert api.post(f"{boxes}?fieldValidation=Ignore", text, content_type="application/yaml").warnings == []


# -- definitions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ({"type": "string", "x": 1}, "f.x"),
        ({"type": "string", "allOf": [{"x": 1}]}, "f.allOf[0].x"),
        ({"type": "object", "properties": {"g": {"type": "string", "x": 1}}}, "f.properties.g.x"),
    ],
)
def test_unknown_words_deep_in_a_schema_are_told(api: ServerApi, field: Any, path: str) -> None:
    doc = definition(new_group(), version(schema=schema(f=field)))
    whole = f"spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.{path}"
    assert api.post(f"{CRDS}?dryRun=All", doc).warnings == [f'unknown field "{whole}"']
    assert f'unknown field "{whole}"' in api.post(f"{CRDS}?dryRun=All&fieldValidation=Strict", doc).message


def test_words_that_are_not_supported_are_all_that_is_told(api: ServerApi) -> None:
    refused = api.post(f"{CRDS}?dryRun=All", definition(new_group(), version(schema=schema(f={"$ref": "#/x"}))))
    where = "spec.validation.openAPIV3Schema.properties[spec].properties[f]"
    assert refused.causes == [(f"{where}.$ref", "Forbidden: $ref is not supported")]


def test_definitions_that_leave_out_what_they_need(api: ServerApi) -> None:
    group = new_group()
    without = definition(group)
    without["spec"]["versions"] = None
    at_least = ("status.storedVersions", "Invalid value: null: must have at least one stored version")
    assert at_least in api.post(f"{CRDS}?dryRun=All", without).causes
    empty = definition(group, version(schema={"openAPIV3Schema": {}}))
    told = ("spec.validation.openAPIV3Schema.type", "Required value: must not be empty at the root")
    assert api.post(f"{CRDS}?dryRun=All", empty).causes == [told]
    unsaid = {**definition(group)}
    unsaid["spec"]["conversion"] = {}
    assert [field for field, _ in api.post(f"{CRDS}?dryRun=All", unsaid).causes] == ["spec.conversion.strategy"]
    nameless = definition(group)
    nameless["metadata"] = {"generateName": "x"}
    assert [field for field, _ in api.post(f"{CRDS}?dryRun=All", nameless).causes] == [
        "metadata.generateName",
        "metadata.name",
    ]
    bad = api.post(f"{CRDS}?dryRun=All", definition(group, version("V1")))
    assert {"spec.versions[0].name", "spec.version"} == {field for field, _ in bad.causes}


def test_a_definition_always_has_a_stored_version(api: ServerApi) -> None:
    name = new_group()
    establish(api, definition(name))
    path = f"{CRDS}/boxes.{name}/status"
    written = api.patch(f"{path}?dryRun=All", {"status": {"storedVersions": []}})
    assert (written.code, written["status"]["storedVersions"]) == (200, ["v1"])


def test_an_apply_to_an_object_of_other_types_is_told_so(api: ServerApi) -> None:
    name = new_group()
    path = f"{establish(api, definition(name, version(schema=schema()), scope='Cluster'))}/v1/boxes"
    api.create(path, box(name, spec={"i": 1}))
    changed = api.get(f"{CRDS}/boxes.{name}").body
    now = {"type": "object", "properties": {"n": {"type": "string"}}}
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["i"] = now
    assert api.put(f"{CRDS}/boxes.{name}", changed).code == 200
    config = box(name, spec={"i": {"n": "a"}})

    def is_refused() -> bool:
        """Upstream takes a moment to follow the new schema."""
        found = api.apply(f"{path}/a", config, "me", query="&force=true")
        return found.code == 500 and found.message.startswith("failed to create typed live object (")

    eventually(is_refused, "the new schema to be followed")


def test_sets_of_objects_are_no_matter_of_warnings(api: ServerApi) -> None:
    assert api.post(f"{CRDS}?dryRun=All", definition(new_group(), version(schema=schema(**FIELDS)))).warnings == []
