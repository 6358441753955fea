"""Custom resources: all that can be done with objects of a kind that a definition brought."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from contract_documents import METADATA, TABLE
from custom_documents import CRDS, SCALE, box, definition, establish, new_group, version

from support.api_servers import ServerApi
from support.eventually import eventually

COLUMNS = [
    {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
]


@pytest.fixture(scope="module")
def group(api: ServerApi) -> Iterator[str]:
    """The group of boxes, in two versions, with everything a definition can ask for."""
    name = new_group()
    more: dict[str, Any] = {
        "subresources": {"status": {}, "scale": SCALE},
        "additionalPrinterColumns": COLUMNS,
        "selectableFields": [{"jsonPath": ".spec.colour"}],
    }
    doc = definition(
        name, version(**more), version("v1beta1", storage=False, **more), shortNames=["bx"], categories=["all"]
    )
    establish(api, doc)
    yield name
    api.delete(f"{CRDS}/boxes.{name}")


@pytest.fixture
def boxes(group: str, ns: str) -> str:
    return f"/apis/{group}/v1/namespaces/{ns}/boxes"


def test_an_object_is_made_with_the_defaults_of_its_schema_and_without_what_that_does_not_know(
    api: ServerApi, boxes: str, group: str, ns: str
) -> None:
    made = api.create(boxes, box(group, spec={"size": 3, "unknown": 1}, status={"phase": "no"}))
    assert made["spec"] == {"colour": "red", "size": 3}
    assert "status" not in made.body
    assert (made["apiVersion"], made["kind"]) == (f"{group}/v1", "Box")
    assert (made.meta["namespace"], made.meta["generation"]) == (ns, 1)
    assert made.meta["managedFields"][0]["fieldsV1"] == {"f:spec": {".": {}, "f:colour": {}, "f:size": {}}}
    assert made.warnings == ['unknown field "spec.unknown"']
    assert api.get(f"{boxes}/a").body == made.body


def test_what_the_schema_forbids_is_refused_with_its_field(api: ServerApi, boxes: str, group: str) -> None:
    refused = api.post(boxes, box(group, spec={"colour": "pink", "size": -1}))
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert sorted(field for field, _ in refused.causes) == ["spec.colour", "spec.size"]
    assert refused["details"]["group"] == group and refused["details"]["kind"] == "Box"


def test_unknown_fields_are_refused_when_that_is_asked_for(api: ServerApi, boxes: str, group: str) -> None:
    refused = api.post(f"{boxes}?fieldValidation=Strict", box(group, spec={"unknown": 1}))
    assert refused.code == 400 and 'strict decoding error: unknown field "spec.unknown"' in refused.message
    assert api.post(f"{boxes}?fieldValidation=Ignore", box(group, spec={"unknown": 1})).warnings == []


def test_a_document_says_what_it_is(api: ServerApi, boxes: str, group: str) -> None:
    doc = box(group)
    nameless = api.post(boxes, {field: value for field, value in doc.items() if field != "kind"})
    assert nameless.code == 400 and "Object 'Kind' is missing" in nameless.message
    other_version = api.post(boxes, {**doc, "apiVersion": f"{group}/v1beta1"})
    assert other_version.code == 400
    assert "does not match the expected API version" in other_version.message
    other_kind = api.post(boxes, {**doc, "kind": "Crate"})
    assert (other_kind.code, other_kind.causes) == (422, [("kind", 'Invalid value: "Crate": must be Box')])
    api.create(boxes, doc)
    patched = api.patch(f"{boxes}/a", {"apiVersion": "other/v1"})
    assert (patched.code, patched.causes) == (
        422,
        [("apiVersion", f'Invalid value: "other/v1": must be {group}/v1')],
    )


def test_names_are_generated_and_namespaces_must_exist(api: ServerApi, boxes: str, group: str) -> None:
    made = api.create(boxes, {**box(group), "metadata": {"generateName": "box-"}})
    assert made.meta["name"].startswith("box-") and len(made.meta["name"]) == len("box-") + 5
    elsewhere = api.post(f"/apis/{group}/v1/namespaces/nowhere/boxes", box(group))
    assert (elsewhere.code, elsewhere.message) == (404, 'namespaces "nowhere" not found')
    assert api.post(boxes, box(group, made.meta["name"])).code == 409
    assert api.post(f"/apis/{group}/v1/boxes", box(group)).code in (404, 405)


def test_an_update_needs_the_version_it_was_made_from_and_counts_generations(
    api: ServerApi, boxes: str, group: str
) -> None:
    made = api.create(boxes, box(group, spec={"size": 1}))
    blind = api.put(f"{boxes}/a", box(group, spec={"size": 2}))
    assert blind.code == 422
    assert [field for field, _ in blind.causes] == ["metadata.resourceVersion"]
    body = made.body
    body["spec"]["size"] = 2
    changed = api.put(f"{boxes}/a", body)
    assert (changed.code, changed.meta["generation"]) == (200, 2)
    assert api.put(f"{boxes}/a", body).code == 409
    labelled = api.patch(f"{boxes}/a", {"metadata": {"labels": {"x": "y"}}})
    assert labelled.meta["generation"] == 2
    same = api.patch(f"{boxes}/a", {"spec": {"size": 2}})
    assert same.version == labelled.version


def test_patches_of_three_kinds_and_no_strategic_one(api: ServerApi, boxes: str, group: str) -> None:
    api.create(boxes, box(group, spec={"size": 1, "parts": [{"name": "lid"}]}))
    merged = api.patch(f"{boxes}/a", {"spec": {"size": None, "colour": "blue"}})
    assert merged["spec"] == {"colour": "blue", "parts": [{"name": "lid"}]}
    jsoned = api.patch(f"{boxes}/a", [{"op": "add", "path": "/spec/size", "value": 7}], "json")
    assert jsoned["spec"]["size"] == 7
    defaulted = api.patch(f"{boxes}/a", {"spec": {"colour": None}})
    assert defaulted["spec"]["colour"] == "red"
    refused = api.patch(f"{boxes}/a", {"spec": {"size": 1}}, "strategic")
    assert refused.code == 415
    assert refused.message.startswith("the body of the request was in an unknown format - accepted media types include")
    assert api.patch(f"{boxes}/a", {"spec": {"size": -1}}).code == 422


def test_server_side_apply_merges_owns_and_conflicts(api: ServerApi, boxes: str, group: str) -> None:
    path = f"{boxes}/a"
    mine = box(group, spec={"size": 1, "parts": [{"name": "lid", "weight": 1}]})
    made = api.apply(path, mine, "me")
    assert (made.code, made["spec"]["colour"]) == (201, "red")
    theirs = api.apply(path, box(group, spec={"parts": [{"name": "base"}]}), "they")
    assert [part["name"] for part in theirs["spec"]["parts"]] == ["lid", "base"]
    conflict = api.apply(path, box(group, spec={"size": 2}), "they")
    assert conflict.code == 409 and conflict["details"]["causes"][0]["field"] == ".spec.size"
    forced = api.apply(path, box(group, spec={"size": 2}), "they", query="&force=true")
    assert forced["spec"]["size"] == 2
    assert [part["name"] for part in forced["spec"]["parts"]] == ["lid"]
    undeclared = api.apply(path, box(group, spec={"nothing": 1}), "me")
    assert undeclared.code in (400, 422, 500) and "field not declared in schema" in undeclared.message


def test_status_has_its_own_endpoint(api: ServerApi, boxes: str, group: str) -> None:
    made = api.create(boxes, box(group, spec={"size": 1}))
    ignored = api.patch(f"{boxes}/a", {"status": {"phase": "Open"}})
    assert "status" not in ignored.body
    body = {**made.body, "metadata": {**made.meta, "labels": {"x": "y"}}}
    written = api.put(f"{boxes}/a/status", {**body, "spec": {"size": 9}, "status": {"phase": "Open"}})
    assert (written["status"], written["spec"]) == ({"phase": "Open"}, made["spec"])
    assert "labels" not in written.meta and written.meta["generation"] == 1
    assert api.patch(f"{boxes}/a/status", {"status": {"phase": "Shut"}})["status"] == {"phase": "Shut"}
    assert api.get(f"{boxes}/a/status")["status"] == {"phase": "Shut"}
    kept = api.patch(f"{boxes}/a", {"spec": {"size": 2}})
    assert (kept["status"], kept.meta["generation"]) == ({"phase": "Shut"}, 2)
    owners = {entry.get("subresource", ""): entry["fieldsV1"] for entry in kept.meta["managedFields"]}
    assert owners["status"] == {"f:status": {".": {}, "f:phase": {}}}
    assert api.patch(f"{boxes}/a/status", {"status": {"phase": 1}}).code == 422


def test_scale_reads_and_writes_where_the_definition_says(api: ServerApi, boxes: str, group: str) -> None:
    api.create(boxes, box(group, spec={"replicas": 2}))
    api.patch(f"{boxes}/a/status", {"status": {"replicas": 1, "selector": "app=box"}})
    scale = api.get(f"{boxes}/a/scale")
    assert (scale["apiVersion"], scale["kind"], scale["spec"]) == ("autoscaling/v1", "Scale", {"replicas": 2})
    assert scale["status"] == {"replicas": 1, "selector": "app=box"}
    scaled = api.put(f"{boxes}/a/scale", {**scale.body, "spec": {"replicas": 5}})
    assert (scaled.code, scaled["spec"]) == (200, {"replicas": 5})
    assert api.patch(f"{boxes}/a/scale", {"spec": {"replicas": 6}})["spec"] == {"replicas": 6}
    assert api.get(f"{boxes}/a")["spec"]["replicas"] == 6
    api.create(boxes, box(group, "b"))
    missing = api.get(f"{boxes}/b/scale")
    assert (missing.code, 'the spec replicas field ".spec.replicas" does not exist' in missing.message) == (500, True)
    assert api.patch(f"{boxes}/b/scale", {"spec": {"replicas": 1}})["spec"] == {"replicas": 1}
    negative = api.patch(f"{boxes}/a/scale", {"spec": {"replicas": -1}})
    assert (negative.code, negative.causes) == (
        422,
        [(".spec.replicas", "Invalid value: -1: should be a non-negative integer")],
    )


def test_lists_are_narrowed_down_and_come_in_pages(api: ServerApi, boxes: str, group: str) -> None:
    for name, colour in (("a", "red"), ("b", "blue"), ("c", "blue")):
        doc = box(group, name, spec={"colour": colour})
        doc["metadata"]["labels"] = {"name": name}
        api.create(boxes, doc)
    assert api.get(f"{boxes}?labelSelector=name!%3Da").names == ["b", "c"]
    assert api.get(f"{boxes}?fieldSelector=metadata.name%3Db").names == ["b"]
    assert api.get(f"{boxes}?fieldSelector=spec.colour%3Dblue").names == ["b", "c"]
    refused = api.get(f"{boxes}?fieldSelector=spec.size%3D1")
    assert (refused.code, "field label not supported: spec.size" in refused.message) == (400, True)
    page = api.get(f"{boxes}?limit=2")
    assert (page.names, page["kind"], page["metadata"]["remainingItemCount"]) == (["a", "b"], "BoxList", 1)
    assert page["items"][0]["kind"] == "Box"
    rest = api.get(f"{boxes}?limit=2&continue={page['metadata']['continue']}")
    assert rest.names == ["c"] and rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
    everywhere = api.get(f"/apis/{group}/v1/boxes?labelSelector=name")
    assert set(everywhere.names) >= {"a", "b", "c"}


def test_watches_tell_what_happens_in_the_version_that_is_watched(api: ServerApi, boxes: str, group: str) -> None:
    made = api.create(boxes, box(group, spec={}))
    api.patch(f"{boxes}/a", {"spec": {"size": 1}})
    api.delete(f"{boxes}/a")
    for name in ("v1", "v1beta1"):
        path = boxes.replace("/v1/", f"/{name}/")
        events = api.watch(f"{path}?watch=1&resourceVersion={made.version}", 2)
        assert [event.type for event in events] == ["MODIFIED", "DELETED"]
        assert [event.object["apiVersion"] for event in events] == [f"{group}/{name}"] * 2
    selected = api.watch(f"{boxes}?watch=1&fieldSelector=spec.colour%3Dred&resourceVersion={made.version}", 2)
    assert [event.type for event in selected] == ["MODIFIED", "DELETED"]


def test_a_watch_that_begins_with_the_state_ends_it_by_a_bookmark(api: ServerApi, boxes: str, group: str) -> None:
    if not api.is_embedded:
        pytest.skip("kube-apiserver needs RequestWatchProgress for this, which etcd has from 3.5.8 and 3.4.25 on")
    api.create(boxes, box(group))
    query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    events = api.watch(f"{boxes}?{query}", 2)
    assert [event.type for event in events] == ["ADDED", "BOOKMARK"]
    bookmark = events[1].object
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("Box", f"{group}/v1")
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_deletion_with_preconditions_finalizers_and_collections(api: ServerApi, boxes: str, group: str) -> None:
    doc = box(group)
    doc["metadata"]["finalizers"] = ["example.com/wait"]
    made = api.create(boxes, doc)
    assert api.delete(f"{boxes}/a", {"preconditions": {"uid": "another"}}).code == 409
    marked = api.delete(f"{boxes}/a")
    assert marked.code == 200 and marked.meta["deletionTimestamp"] and marked.meta["generation"] == 2
    api.patch(f"{boxes}/a", {"metadata": {"finalizers": None}})
    assert api.get(f"{boxes}/a").code == 404
    api.create(boxes, box(group, "b"))
    gone = api.delete(f"{boxes}/b")
    assert (gone["kind"], gone["status"], gone["details"]["kind"]) == ("Status", "Success", "boxes")
    api.create(boxes, box(group, "c"))
    assert api.delete(f"{boxes}?dryRun=All").code == 200
    assert api.get(boxes).names == ["c"]
    assert api.delete(boxes).code == 200
    eventually(lambda: api.get(boxes).names == [], "the collection to be empty")
    assert made.meta["uid"]


def test_foreground_and_orphan_become_finalizers(api: ServerApi, boxes: str, group: str) -> None:
    api.create(boxes, box(group))
    marked = api.delete(f"{boxes}/a", {"propagationPolicy": "Foreground"})
    assert marked.meta["finalizers"] == ["foregroundDeletion"]
    api.patch(f"{boxes}/a", {"metadata": {"finalizers": None}})


def test_dry_runs_write_nothing(api: ServerApi, boxes: str, group: str) -> None:
    made = api.post(f"{boxes}?dryRun=All", box(group))
    assert (made.code, made["spec"] if "spec" in made.body else None) == (201, None)
    assert api.get(f"{boxes}/a").code == 404
    api.create(boxes, box(group, spec={"size": 1}))
    assert api.patch(f"{boxes}/a?dryRun=All", {"spec": {"size": 2}})["spec"]["size"] == 2
    assert api.get(f"{boxes}/a")["spec"]["size"] == 1


def test_one_object_in_every_version(api: ServerApi, boxes: str, group: str) -> None:
    older = boxes.replace("/v1/", "/v1beta1/")
    api.create(older, box(group, version="v1beta1", spec={"size": 1}))
    assert api.get(f"{boxes}/a")["apiVersion"] == f"{group}/v1"
    assert api.get(f"{older}/a")["apiVersion"] == f"{group}/v1beta1"
    assert api.get(older)["items"][0]["apiVersion"] == f"{group}/v1beta1"
    changed = api.patch(f"{boxes}/a", {"spec": {"size": 2}})
    assert {entry["apiVersion"] for entry in changed.meta["managedFields"]} == {f"{group}/v1", f"{group}/v1beta1"}
    applied = api.apply(f"{boxes}/a", box(group, spec={"colour": "blue"}), "me", query="&force=true")
    again = api.apply(f"{older}/a", box(group, version="v1beta1", spec={}), "me")
    assert (applied["spec"]["colour"], again["spec"]["colour"]) == ("blue", "red")


def test_tables_have_the_columns_of_the_definition(api: ServerApi, boxes: str, group: str) -> None:
    api.create(boxes, box(group, spec={"colour": "green", "size": 4}))
    table = api.get(boxes, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Colour", "Size"]
    assert [column["priority"] for column in table["columnDefinitions"]] == [0, 0, 1]
    assert [row["cells"] for row in table["rows"]] == [["a", "green", 4]]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    one = api.get(f"{boxes}/a", accept=METADATA)
    assert (one["kind"], one.meta["name"]) == ("PartialObjectMetadata", "a")


def test_yaml_is_read_and_written_and_protobuf_is_not(api: ServerApi, boxes: str, group: str) -> None:
    text = f"apiVersion: {group}/v1\nkind: Box\nmetadata: {{name: yaml}}\nspec: {{size: 5}}\n"
    made = api.post(boxes, text.encode(), content_type="application/yaml")
    assert made.code == 201
    assert api.get(f"{boxes}/yaml")["spec"]["size"] == 5
    protobuf = "application/vnd.kubernetes.protobuf"
    assert api.get(f"{boxes}/yaml", accept=protobuf).code == 406
    if api.is_embedded:  # kube-apiserver 1.36 closes the connection without an answer
        assert api.post(boxes, b"k8s\x00\x0a\x00", content_type=protobuf).code in (400, 415)


def test_paths_that_a_definition_does_not_have(api: ServerApi, group: str, ns: str) -> None:
    assert api.get(f"/apis/{group}/v2/namespaces/{ns}/boxes").code == 404
    assert api.get(f"/apis/{group}/v1/namespaces/{ns}/crates").code == 404
    assert api.get(f"/apis/{group}/v1/namespaces/{ns}/boxes/a/log").code == 404
    assert api.get(f"/apis/{group}/v1/namespaces/{ns}/boxes/a").message == f'boxes.{group} "a" not found'
