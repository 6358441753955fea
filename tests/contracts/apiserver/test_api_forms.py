"""The forms of an answer: objects, Tables, metadata alone; JSON and YAML."""

from __future__ import annotations

import pytest
import yaml
from contract_documents import METADATA, METADATA_LIST, TABLE, config_map, pod

from support.api_servers import ServerApi


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", "application/xml,application/json", "application/json;q=0.1"]
)
def test_json_is_what_there_is_unless_asked_otherwise(api: ServerApi, maps: str, accept: str) -> None:
    api.create(maps, config_map("a"))
    assert api.get(f"{maps}/a", accept=accept)["kind"] == "ConfigMap"
    assert api.get(maps, accept=accept)["kind"] == "ConfigMapList"


def test_yaml_holds_the_same(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a", {"k": "v"}))
    shown = api.get(f"{maps}/a", accept="application/yaml")
    assert shown.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(shown.body) == api.get(f"{maps}/a").body


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "application/*"])
def test_a_form_nobody_serves_is_refused_before_anything_happens(api: ServerApi, maps: str, accept: str) -> None:
    refused = api.post(maps, config_map("a"), accept=accept)
    assert (refused.code, refused.reason) == (406, "NotAcceptable")
    assert refused.message.startswith(
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml"
    )
    assert api.get(f"{maps}/a").code == 404


@pytest.mark.parametrize("accept", ["application/json;as=Bogus;v=v1;g=meta.k8s.io", "application/json;as=Table"])
def test_a_shape_nobody_serves_is_refused(api: ServerApi, maps: str, accept: str) -> None:
    refused = api.get(maps, accept=accept)
    assert refused.code == 406
    assert refused.message.startswith("only the following media types are accepted: application/json, application/yaml")
    assert api.get(maps, accept=f"{accept},application/json").code == 200


def test_a_table_of_pods_has_kubectls_columns(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a", nodeName="n1"))
    shown = api.get(pods, accept=TABLE)
    assert (shown["kind"], shown["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [(column["name"], column["type"], column["priority"]) for column in shown["columnDefinitions"]]
    assert columns == [
        ("Name", "string", 0),
        ("Ready", "string", 0),
        ("Status", "string", 0),
        ("Restarts", "string", 0),
        ("Age", "string", 0),
        ("IP", "string", 1),
        ("Node", "string", 1),
        ("Nominated Node", "string", 1),
        ("Readiness Gates", "string", 1),
    ]
    [row] = shown["rows"]
    assert row["cells"][:4] == ["a", "0/1", "Pending", "0"] and row["cells"][5:] == ["<none>", "n1", "<none>", "<none>"]
    assert row["object"]["kind"] == "PartialObjectMetadata" and row["object"]["metadata"]["name"] == "a"
    assert int(shown.version) > 0


def test_a_table_of_one_object(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a", {"k": "v"}))
    shown = api.get(f"{maps}/a", accept=TABLE)
    assert [row["cells"][:2] for row in shown["rows"]] == [["a", 1]] and shown.version == made.version


def test_a_table_carries_as_much_of_each_object_as_was_asked_for(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a", {"k": "v"}))
    none = api.get(f"{maps}?includeObject=None", accept=TABLE)["rows"][0]["object"]
    whole = api.get(f"{maps}?includeObject=Object", accept=TABLE)["rows"][0]["object"]
    assert none is None and whole["data"] == {"k": "v"} and whole["kind"] == "ConfigMap"
    assert api.get(f"{maps}?includeObject=Bogus", accept=TABLE).code == 400


def test_a_table_has_pages(api: ServerApi, maps: str) -> None:
    for name in ("a", "b", "c"):
        api.create(maps, config_map(name))
    shown = api.get(f"{maps}?limit=2", accept=TABLE)
    assert len(shown["rows"]) == 2 and shown.meta["remainingItemCount"] == 1 and shown.meta["continue"]


def test_metadata_alone(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a", {"k": "v"}))
    shown = api.get(f"{maps}/a", accept=METADATA)
    assert shown.body == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }
    listed = api.get(maps, accept=METADATA_LIST)
    assert (listed["kind"], listed.names) == ("PartialObjectMetadataList", ["a"])


def test_one_is_not_many(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a"))
    assert api.get(maps, accept=METADATA).message == (
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    )
    assert api.get(f"{maps}/a", accept=METADATA_LIST).message == (
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
    )


def test_writes_can_be_answered_in_any_form(api: ServerApi, maps: str) -> None:
    assert api.post(maps, config_map("a"), accept=TABLE)["kind"] == "Table"
    assert api.patch(f"{maps}/a", {"data": {"k": "v"}}, accept=METADATA)["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize("agent", ["curl/8.0", "Wget/1.21", "Mozilla/5.0 (X11)"])
def test_people_get_line_breaks(api: ServerApi, maps: str, agent: str) -> None:
    api.create(maps, config_map("a"))
    assert raw(api, f"{maps}/a", agent).startswith('{\n  "kind": "ConfigMap",\n  "apiVersion": "v1"')
    assert raw(api, f"{maps}/a?pretty=false", agent).startswith('{"kind":"ConfigMap","apiVersion":"v1","metadata":{')


def test_programs_get_line_breaks_when_they_ask(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a"))
    assert raw(api, f"{maps}/a", "program/1").startswith('{"kind":"ConfigMap"')
    assert raw(api, f"{maps}/a?pretty=true", "program/1").startswith("{\n  ")


def raw(api: ServerApi, path: str, agent: str) -> str:
    connection = api._connection()
    try:
        headers = {"Authorization": f"Bearer {api.token}", "User-Agent": agent, "Accept": "application/json"}
        connection.request("GET", path, headers=headers)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_tables_and_metadata_have_the_version_that_was_asked_for(api: ServerApi, maps: str, version: str) -> None:
    api.create(maps, config_map("a"))
    asked, wanted = f"v={version};g=meta.k8s.io", f"meta.k8s.io/{version}"
    table = api.get(maps, accept=f"application/json;as=Table;{asked}")
    assert table["apiVersion"] == table["rows"][0]["object"]["apiVersion"] == wanted
    assert api.get(f"{maps}/a", accept=f"application/json;as=Table;{asked}")["apiVersion"] == wanted
    assert api.get(f"{maps}/a", accept=f"application/json;as=PartialObjectMetadata;{asked}")["apiVersion"] == wanted
    listed = api.get(maps, accept=f"application/json;as=PartialObjectMetadataList;{asked}")
    assert listed["apiVersion"] == wanted


def test_a_watch_of_tables_has_the_version_that_was_asked_for(api: ServerApi, maps: str) -> None:
    start = api.create(maps, config_map("a")).version
    api.create(maps, config_map("b"))
    accept = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
    [seen] = api.watch(f"{maps}?watch=1&resourceVersion={start}", 1, accept=accept)
    assert seen.object["apiVersion"] == "meta.k8s.io/v1beta1"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_what_is_not_stored_is_no_row_of_a_table(api: ServerApi, ns: str, pods: str, version: str) -> None:
    api.create(pods, pod("a"))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": "n"},
    }
    refused = api.post(f"{pods}/a/binding", binding, accept=f"application/json;as=Table;v={version};g=meta.k8s.io")
    assert (refused.code, refused.reason) == (406, "NotAcceptable")
    assert "nodeName" not in api.get(f"{pods}/a")["spec"]


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
REVIEW = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_an_access_review_is_no_row_of_a_table(api: ServerApi, version: str) -> None:
    refused = api.post(REVIEWS, REVIEW, accept=f"application/json;as=Table;v={version};g=meta.k8s.io")
    assert (refused.code, refused.reason) == (406, "NotAcceptable")


def test_whoever_holds_a_token_may_do_everything(api: ServerApi) -> None:
    reviewed = api.post(REVIEWS, REVIEW)
    assert (reviewed.code, reviewed["kind"], reviewed["status"]["allowed"]) == (201, "SelfSubjectAccessReview", True)
    asked = {"verb": "delete", "resource": "pods", "namespace": "default"}
    assert api.post(REVIEWS, {"spec": {"resourceAttributes": asked}})["status"]["allowed"] is True
    assert api.post(REVIEWS, {"spec": {}}).code == 422
    assert api.post(REVIEWS, {"spec": {**REVIEW["spec"], "resourceAttributes": asked}}).code == 422
    assert api.get(REVIEWS).code == 405
