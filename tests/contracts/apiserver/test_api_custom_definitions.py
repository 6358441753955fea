"""CustomResourceDefinitions: how they come into force, change, get into one another's way, and go."""

from __future__ import annotations

import json
from typing import Any

import pytest
from contract_documents import TABLE
from custom_documents import CRDS, SCHEMA, box, condition, definition, establish, new_group, served, version

from support.api_servers import ServerApi
from support.eventually import eventually

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture
def group() -> str:
    return new_group()


def is_gone(api: ServerApi, path: str) -> bool:
    return api.get(path).code == 404


def test_a_definition_is_completed_and_established(api: ServerApi, group: str) -> None:
    doc = definition(group)
    doc["spec"]["names"] = {"plural": "boxes", "kind": "Box"}
    made = api.create(CRDS, doc)
    assert made["spec"]["names"] == {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"}
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert (made.meta["generation"], made["status"]["storedVersions"]) == (1, ["v1"])
    assert made["status"]["acceptedNames"] == {"kind": "", "plural": ""} and not made["status"].get("conditions")
    served(api, doc)
    found = api.get(f"{CRDS}/boxes.{group}")
    assert found["status"]["acceptedNames"] == made["spec"]["names"]
    assert condition(found.body, "NamesAccepted") == "True"


def test_a_definition_that_makes_no_sense_is_refused(api: ServerApi, group: str) -> None:
    doc = definition(group)
    doc["metadata"]["name"] = "other"
    refused = api.post(CRDS, doc)
    assert refused.code == 422
    assert ("metadata.name", 'Invalid value: "other": must be spec.names.plural+"."+spec.group') in refused.causes
    assert api.post(CRDS, definition(group, version(storage=False))).code == 422
    schemaless = definition(group)
    del schemaless["spec"]["versions"][0]["schema"]
    assert api.post(CRDS, schemaless).code == 422


def test_unknown_fields_of_a_schema_are_told(api: ServerApi, group: str) -> None:
    doc = definition(group, version(schema={"openAPIV3Schema": {**SCHEMA, "surprise": 1}}))
    refused = api.post(f"{CRDS}?fieldValidation=Strict", doc)
    assert refused.code == 400
    assert 'unknown field "spec.versions[0].schema.openAPIV3Schema.surprise"' in refused.message


def test_the_table_of_definitions_has_names_and_times(api: ServerApi, group: str) -> None:
    made = api.create(CRDS, definition(group))
    table = api.get(f"{CRDS}/boxes.{group}", accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Created At"]
    assert table["rows"][0]["cells"] == [f"boxes.{group}", made.meta["creationTimestamp"]]


def openapi_paths(api: ServerApi) -> dict[str, Any]:
    body = api.get("/openapi/v3").body
    found: dict[str, Any] = (json.loads(body) if isinstance(body, str) else body)[
        "paths"
    ]  # upstream calls it text/plain
    return found


def test_discovery_and_openapi_follow(api: ServerApi, group: str) -> None:
    path = f"/apis/{group}"
    assert is_gone(api, path)
    doc = definition(group, version("v1"), version("v1beta1", storage=False), shortNames=["bx"], categories=["all"])
    establish(api, doc)
    eventually(lambda: api.get(path).code == 200, "the group to be discovered")
    found = api.get(path)
    assert [each["version"] for each in found["versions"]] == ["v1", "v1beta1"]
    assert found["preferredVersion"]["version"] == "v1"
    row = next(each for each in api.get(f"{path}/v1")["resources"] if each["name"] == "boxes")
    assert (row["singularName"], row["kind"], row["shortNames"], row["categories"]) == ("box", "Box", ["bx"], ["all"])
    eventually(
        lambda: group in [each["metadata"].get("name") for each in api.get("/apis", accept=AGGREGATED)["items"]],
        "aggregated discovery to tell of the group",
    )
    index = f"apis/{group}/v1"
    eventually(lambda: index in openapi_paths(api), "OpenAPI to tell of the version")
    schemas = api.get(f"/openapi/v3/{index}")["components"]["schemas"]
    told = next(each for name, each in schemas.items() if name.endswith(".v1.Box"))
    assert told["description"] == "A box."
    assert told["properties"]["spec"]["properties"]["colour"]["default"] == "red"
    assert told["x-kubernetes-group-version-kind"] == [{"group": group, "version": "v1", "kind": "Box"}]
    api.delete(f"{CRDS}/boxes.{group}")
    eventually(lambda: is_gone(api, path), "the group to be gone")
    eventually(lambda: index not in openapi_paths(api), "OpenAPI to forget the version")


def test_versions_come_and_go_and_what_was_stored_is_remembered(api: ServerApi, group: str, ns: str) -> None:
    doc = definition(group)
    root = establish(api, doc)
    api.create(f"{root}/v1/namespaces/{ns}/boxes", box(group, spec={"size": 1}))
    path = f"{CRDS}/boxes.{group}"
    both = [version("v1", storage=False), version("v2")]
    changed = api.patch(path, {"spec": {"versions": both}})
    assert (changed.code, changed.meta["generation"], changed["status"]["storedVersions"]) == (200, 2, ["v1", "v2"])
    served(api, definition(group, *both))
    found = api.get(f"{root}/v2/namespaces/{ns}/boxes/a")
    assert (found["apiVersion"], found["spec"]["size"]) == (f"{group}/v2", 1)
    api.patch(path, {"spec": {"versions": [version("v1", storage=False, served=False), version("v2")]}})
    eventually(lambda: is_gone(api, f"{root}/v1/namespaces/{ns}/boxes"), "v1 to be gone")
    refused = api.patch(path, {"spec": {"versions": [version("v2")]}})
    assert refused.code == 422 and "storedVersions" in refused.causes[0][0]
    api.put(f"{root}/v2/namespaces/{ns}/boxes/a", found.body)  # stored again, in today's version
    api.patch(f"{path}/status", {"status": {"storedVersions": ["v2"]}})
    assert api.patch(path, {"spec": {"versions": [version("v2")]}}).code == 200
    assert api.get(f"{root}/v2/namespaces/{ns}/boxes/a")["spec"]["size"] == 1


def test_a_changed_schema_takes_effect(api: ServerApi, group: str, ns: str) -> None:
    root = establish(api, definition(group))
    boxes = f"{root}/v1/namespaces/{ns}/boxes"
    api.create(boxes, box(group, spec={"size": 1}))
    properties = {**SCHEMA["properties"]["spec"]["properties"], "depth": {"type": "integer", "default": 9}}
    schema = {**SCHEMA, "properties": {"spec": {"type": "object", "properties": properties}}}
    api.patch(f"{CRDS}/boxes.{group}", {"spec": {"versions": [version(schema={"openAPIV3Schema": schema})]}})
    # An object that was stored before has the new default when it is read.
    eventually(lambda: api.get(f"{boxes}/a")["spec"].get("depth") == 9, "the new default to be seen")
    assert api.create(boxes, box(group, "b", spec={"depth": 3}))["spec"]["depth"] == 3


def test_names_that_another_has_are_not_accepted_until_they_are_free(api: ServerApi, group: str) -> None:
    establish(api, definition(group, shortNames=["bx"]))
    second = definition(group, plural="crates", singular="crate", kind="Crate", listKind="CrateList", shortNames=["bx"])
    api.create(CRDS, second)
    path = f"{CRDS}/crates.{group}"
    eventually(lambda: condition(api.get(path).body, "NamesAccepted") == "False", "the conflict to be told")
    found = api.get(path)
    told = next(each for each in found["status"]["conditions"] if each["type"] == "NamesAccepted")
    assert (told["reason"], told["message"]) == ("ShortNamesConflict", '"bx" is already in use')
    assert condition(found.body, "Established") == "False"
    assert is_gone(api, f"/apis/{group}/v1/crates")
    api.delete(f"{CRDS}/boxes.{group}")
    eventually(lambda: condition(api.get(path).body, "Established") == "True", "the names to be free")
    eventually(lambda: api.get(f"/apis/{group}/v1/crates").code == 200, "crates to be served")


def test_a_definition_goes_after_its_objects(api: ServerApi, group: str, ns: str) -> None:
    root = establish(api, definition(group))
    boxes, path = f"{root}/v1/namespaces/{ns}/boxes", f"{CRDS}/boxes.{group}"
    held = box(group, "held")
    held["metadata"]["finalizers"] = ["example.com/wait"]
    api.create(boxes, held)
    start = api.create(boxes, box(group)).version
    marked = api.delete(path)
    assert marked.code == 200
    assert marked.meta["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert condition(marked.body, "Terminating") == "True"
    eventually(lambda: is_gone(api, f"{boxes}/a"), "the object without a finalizer to go")
    refused = api.post(boxes, box(group, "late"))
    assert refused.code in (403, 405)
    assert "create not allowed while custom resource definition is terminating" in refused.message
    assert api.get(path).code == 200
    eventually(lambda: "deletionTimestamp" in api.get(f"{boxes}/held").meta, "the held object to be asked to go")
    api.patch(f"{boxes}/held", {"metadata": {"finalizers": None}})
    eventually(lambda: is_gone(api, path), "the definition to be gone")
    eventually(lambda: is_gone(api, boxes), "the path to be gone")
    assert int(start) > 0


def test_a_definition_without_objects_goes_and_can_come_again(api: ServerApi, group: str, ns: str) -> None:
    doc = definition(group, scope="Cluster")
    for size in (1, 2):
        root = establish(api, doc)
        assert api.get(f"{root}/v1/boxes").names == []
        assert api.create(f"{root}/v1/boxes", box(group, spec={"size": size}))["spec"]["size"] == size
        assert is_gone(api, f"{root}/v1/namespaces/{ns}/boxes")
        api.delete(f"{CRDS}/boxes.{group}")
        eventually(lambda: is_gone(api, f"{CRDS}/boxes.{group}"), "the definition to be gone")


def test_deprecated_versions_are_warned_of(api: ServerApi, group: str) -> None:
    told = version("v1beta1", storage=False, deprecated=True, deprecationWarning="use v1")
    root = establish(api, definition(group, version(), told, version("v1alpha1", storage=False, deprecated=True)))
    assert api.get(f"{root}/v1/boxes").warnings == []
    assert api.get(f"{root}/v1beta1/boxes").warnings == ["use v1"]
    assert api.get(f"{root}/v1alpha1/boxes").warnings == [f"{group}/v1alpha1 Box is deprecated; use {group}/v1 Box"]


def test_a_kind_without_a_status_endpoint_keeps_its_status_and_counts_it(api: ServerApi, group: str, ns: str) -> None:
    root = establish(api, definition(group))
    boxes = f"{root}/v1/namespaces/{ns}/boxes"
    made = api.create(boxes, box(group, status={"phase": "Open"}))
    assert made["status"] == {"phase": "Open"}
    assert api.patch(f"{boxes}/a", {"status": {"phase": "Shut"}}).meta["generation"] == 2
    assert is_gone(api, f"{boxes}/a/status")
