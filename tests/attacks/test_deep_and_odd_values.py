"""Values that are legal and odd: as deep as is allowed and deeper, numbers nobody counts to, text no header may hold.

Nothing of it is a 500, and nothing is stored that cannot be read, changed and deleted again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from support.api_servers import ServerApi, embedded
from support.http import Doc
from tonnage.apiserver.responses import MAX_TOTAL
from tonnage.objects.document import MAX_DEPTH, encode

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
YAML, PROTOBUF = "application/yaml", "application/vnd.kubernetes.protobuf"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerApi]:
    with embedded(tmp_path_factory.mktemp("deep")) as server:
        yield server


def nested(levels: int, leaf: Any = 1) -> Any:
    for _ in range(levels):
        leaf = {"a": leaf}
    return leaf


def revision(name: str, levels: int) -> Doc:
    """An object whose deepest value lies at so many levels: its own map is the first."""
    meta = {"name": name, "labels": {"a": "b"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": meta,
        "revision": 1,
        "data": nested(levels - 1),
    }


def managed(levels: int) -> Doc:
    """A ConfigMap whose managedFields reach so many levels: four of them lie around the fields."""
    fields: Any = {}
    for _ in range(levels - 5):
        fields = {"f:a": fields}
    entry = {
        "manager": "m",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "managed", "managedFields": [entry]},
        "data": {"a": "b"},
    }


# -- depth ------------------------------------------------------------------------------------------------------------


def test_at_the_limit_of_depth_every_verb_works(api: ServerApi) -> None:
    path = f"{REVISIONS}/at-limit"
    doc = revision("at-limit", MAX_DEPTH)
    assert api.post(REVISIONS, doc).code == 201
    for accept in ("application/json", YAML, TABLE, f"{TABLE},{METADATA}", METADATA, "application/json;pretty=1"):
        assert api.get(path, accept=accept).code == 200, accept
    for accept in ("application/json", YAML, TABLE):
        assert api.get(f"{REVISIONS}?labelSelector=a%3Db", accept=accept).code == 200, accept
    assert api.get(f"{path}?pretty=true").code == 200
    assert api.get(f"{REVISIONS}?includeObject=Object", accept=TABLE).code == 200
    assert api.watch(f"{REVISIONS}?watch=1", 1)[0].name == "at-limit"
    assert api.watch(f"{REVISIONS}?watch=1&includeObject=Object", 1, accept=TABLE)[0].type == "ADDED"
    changed = {**doc, "revision": 2}
    assert api.put(path, changed).code == 200
    assert api.put(path, _as_yaml({**doc, "revision": 3}), content_type=YAML).code == 200
    data = nested(MAX_DEPTH - 1)
    assert api.patch(path, {"metadata": {"labels": {"x": "y"}}, "data": data}, "merge").code == 200
    # Nothing is known of the fields inside: upstream's strategic patch fails there too, in these words.
    strategic = api.patch(path, {"metadata": {"labels": {"x": "z"}}, "data": data}, "strategic")
    assert strategic.code == 200 or "unable to find api field" in strategic.message
    deepest = "/data" + "/a" * (MAX_DEPTH - 1)
    assert api.patch(path, [{"op": "replace", "path": deepest, "value": 1}], "json").code == 200
    assert api.patch(path, [{"op": "test", "path": "/data", "value": data}], "json").code == 200
    assert api.patch(path, [{"op": "copy", "from": "/data", "path": "/unknown"}], "json").code == 200
    applied = api.patch(f"{path}?fieldManager=m&force=true", _as_yaml({**doc, "revision": 4}), "apply")
    assert applied.code == 200, applied.body
    assert api.delete(path).code == 200


def _as_yaml(doc: Doc) -> bytes:
    return json.dumps(doc).encode()  # JSON is YAML


def test_one_level_more_is_refused_by_every_verb(api: ServerApi) -> None:
    path, deep = f"{REVISIONS}/shallow", revision("shallow", MAX_DEPTH + 1)
    api.create(REVISIONS, revision("shallow", 3))
    more = nested(MAX_DEPTH)
    at_limit = "/data" + "/a" * (MAX_DEPTH - 2)
    raised = [{"op": "add", "path": "/data", "value": nested(MAX_DEPTH - 1, {})}]
    answers = [
        api.post(REVISIONS, deep),
        api.post(REVISIONS, _as_yaml(deep), content_type=YAML),
        api.put(path, deep),
        api.patch(path, {"data": more}, "merge"),
        api.patch(path, {"data": more}, "strategic"),
        api.patch(path, [{"op": "add", "path": "/data", "value": more}], "json"),
        api.patch(path, [*raised, {"op": "add", "path": f"{at_limit}/a/b", "value": {}}], "json"),
        api.patch(path, [*raised, {"op": "copy", "from": "/metadata", "path": f"{at_limit}/a/b"}], "json"),
        api.patch(path, [*raised, {"op": "move", "from": "/metadata", "path": f"{at_limit}/a/b"}], "json"),
        api.patch(f"{path}?fieldManager=m", _as_yaml(deep), "apply"),
        api.delete(path, {"kind": "DeleteOptions", "apiVersion": "v1", "x": more}),
    ]
    assert [(reply.code, reply.reason) for reply in answers] == [(400, "BadRequest")] * len(answers)
    assert all("exceeded max depth" in reply.message for reply in answers)
    assert api.get(path)["data"] == {"a": {"a": 1}}


@pytest.mark.parametrize("levels", [500, 971, 5_000, 500_000])
@pytest.mark.parametrize("field", ["data", "metadata", "unknown", "spec"])
def test_any_depth_beyond_is_refused_in_json_and_yaml(api: ServerApi, levels: int, field: str) -> None:
    deep = b"[" * levels + b"]" * levels
    body = b'{"apiVersion":"v1","kind":"ConfigMap","%s":%s}' % (field.encode(), deep)
    for content_type in ("application/json", YAML):
        reply = api.post(MAPS, body, content_type=content_type)
        assert reply.code == (413 if levels > 100_000 and content_type != YAML else 400), reply.body
    for kind in ("merge", "strategic", "apply"):
        assert api.patch(f"{MAPS}/a?fieldManager=m", body, kind).code in (400, 413)


def test_brackets_that_are_never_closed_are_a_bad_request(api: ServerApi) -> None:
    for body in (b"[" * 100_000, b'{"a":' * 100_000, b"- " * 100_000, b"{a: " * 100_000):
        for content_type in ("application/json", YAML):
            assert api.post(MAPS, body, content_type=content_type).code == 400


def test_raw_json_in_protobuf_counts_its_levels_from_the_outermost(api: ServerApi) -> None:
    def message(levels: int) -> bytes:
        raw = (
            b"\x0a"
            + _sized(b"\x0a\x01p")
            + b"\x12"
            + _sized(b"\x0a" + _sized(encode(nested(levels - 1))))
            + b"\x18\x01"
        )
        head = b"\x0a" + _sized(b"\x0a\x07apps/v1\x12\x12ControllerRevision")
        return b"k8s\0" + head + b"\x12" + _sized(raw)

    assert api.post(REVISIONS, message(MAX_DEPTH + 1), content_type=PROTOBUF).code == 400
    made = api.post(REVISIONS, message(MAX_DEPTH), content_type=PROTOBUF)
    assert made.code == 201, made.body
    assert api.put(f"{REVISIONS}/p", {**made.body, "revision": 2}).code == 200
    assert api.delete(f"{REVISIONS}/p").code == 200


def _sized(value: bytes) -> bytes:
    length, size = len(value), b""
    while length > 0x7F:
        size, length = size + bytes([length & 0x7F | 0x80]), length >> 7
    return size + bytes([length]) + value


# -- managedFields ----------------------------------------------------------------------------------------------------


def test_managed_fields_are_refused_beyond_the_limit_and_work_at_it(api: ServerApi) -> None:
    refused = api.post(MAPS, managed(500))
    assert (refused.code, "exceeded max depth" in refused.message) == (400, True)
    made = api.post(MAPS, managed(MAX_DEPTH))
    assert made.code == 201
    path = f"{MAPS}/managed"
    for kind in ("merge", "strategic"):
        assert api.patch(path, {"data": {"k": kind}}, kind).code == 200
    assert api.put(path, api.get(path).body).code == 200
    assert api.apply(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "managed"}}).code == 200
    assert api.get(path, accept=YAML).code == 200
    assert api.delete(path).code == 200


ODD_FIELDS: list[Any] = [
    {'v:""': {}, 'v:"a"': {}, "v:1": {}, "v:null": {}, "v:true": {}},
    {'k:{"a":1}': {}, 'k:{"a":"b"}': {}, 'k:{"a":null}': {}, 'k:{"a":true,"b":2}': {}, "k:{}": {}},
    {"i:1": {}, "i:-1": {}, f"i:{'9' * 5_000}": {}},
    {f"v:{'9' * 5_000}": {}},
    {f"v:{'[' * 5_000}": {}},
    {f"k:{'{' * 5_000}": {}},
    {"v:NaN": {}, "v:1e999": {}},
    {f"f:{'x' * 100_000}": {}},
    {"": {}},
    {"f:": {"f:": {".": {}}}},
    {".": {"f:a": {}}},
    {"f:a": [1]},
    [],
    "text",
    0,
]


@pytest.mark.parametrize("fields", ODD_FIELDS, ids=range(len(ODD_FIELDS)))
def test_odd_managed_fields_can_be_changed_and_deleted(api: ServerApi, fields: Any) -> None:
    doc = managed(6)
    doc["metadata"] |= {"name": "odd"}
    doc["metadata"]["managedFields"][0]["fieldsV1"] = fields
    made = api.post(MAPS, doc)
    assert made.code < 500, made.body
    if made.code != 201:
        return
    path = f"{MAPS}/odd"
    assert api.put(path, {**api.get(path).body, "data": {"a": "c"}}).code == 200
    assert api.patch(path, {"metadata": {"managedFields": doc["metadata"]["managedFields"]}}).code < 500
    applied = api.apply(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd"}})
    assert applied.code == 200, applied.body
    assert api.delete(path).code == 200


# -- numbers ----------------------------------------------------------------------------------------------------------

DIGITS = "9" * 5_000


@pytest.mark.parametrize("number", [DIGITS, f"-{DIGITS}", "1e999999", f"0.{DIGITS}e5000", "1" + "0" * 30])
def test_a_number_nobody_counts_to_is_refused(api: ServerApi, number: str) -> None:
    api.post(REVISIONS, revision("numbers", 3))
    path = f"{REVISIONS}/numbers"
    body = json.dumps(revision("number", 3)).replace('"a": 1', f'"a": {number}').encode()
    answers = [
        api.post(REVISIONS, body),
        api.put(path, body),
        api.patch(path, f'{{"data":{number}}}'.encode(), "merge"),
        api.patch(path, f'{{"revision":{number}}}'.encode(), "strategic"),
        api.patch(path, f'[{{"op":"add","path":"/data","value":{number}}}]'.encode(), "json"),
        api.delete(path, f'{{"gracePeriodSeconds":{number}}}'.encode()),
    ]
    for reply in answers:
        assert reply.code in (400, 422) and len(reply.message) < 10_000, reply.body
    for reply in (
        api.post(REVISIONS, body.replace(b'"revision": 1', b'"revision": ' + number.encode()), content_type=YAML),
        api.patch(f"{path}?fieldManager=m", f'{{"revision": {number}}}'.encode(), "apply"),
    ):
        assert 400 <= reply.code < 500 or "expected numeric" in reply.message, reply.body


@pytest.mark.parametrize("parameter", ["limit", "timeoutSeconds", "resourceVersion"])
@pytest.mark.parametrize("number", [DIGITS, f"-{DIGITS}", "9223372036854775808", "1_0", "٣", "1e9", "0x10", " 1"])
def test_a_query_with_such_a_number_is_refused(api: ServerApi, parameter: str, number: str) -> None:
    asked = f"{parameter}={quote(number)}"
    for path in (f"{MAPS}?{asked}", f"{MAPS}?watch=1&timeoutSeconds=1&{asked}"):
        if parameter == "timeoutSeconds":
            path = f"{MAPS}?watch=1&{asked}"
        reply = api.get(path)
        if parameter == "resourceVersion":
            assert reply.code in (400, 410, 500, 504) or path.startswith(f"{MAPS}?watch"), reply.body
            assert "InternalError" not in str(reply.body)
        else:
            assert reply.code == 400 or "limit" in path, reply.body


@pytest.mark.parametrize("seconds", [2**63 - 1, 10**12, 253402300800])
def test_a_pod_with_an_endless_grace_period_can_be_deleted(api: ServerApi, seconds: int) -> None:
    doc = {
        "metadata": {"name": "endless"},
        "spec": {
            "terminationGracePeriodSeconds": seconds,
            "nodeName": "n",
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    api.create(PODS, doc)
    path = f"{PODS}/endless"
    assert api.delete(path).code == 200
    assert api.get(path).meta["deletionTimestamp"] == "9999-12-31T23:59:59Z"
    assert api.delete(f"{path}?gracePeriodSeconds=0").code == 200
    assert api.get(path).code == 404


@pytest.mark.parametrize("text", ["1e1000000", "1e-1000000", DIGITS, f"1e{DIGITS}", f"0.{DIGITS}", "1E+999999Ki"])
def test_a_huge_quantity_is_refused_in_every_kind(api: ServerApi, text: str) -> None:
    limits = {"limits": {"cpu": text, "memory": text}}
    reply = api.post(
        PODS, {"metadata": {"name": "q"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": limits}]}}
    )
    assert reply.code in (400, 422) and "quantit" in reply.message


# -- text -------------------------------------------------------------------------------------------------------------

ODD_TEXTS = ["a\rb", "a\nX-Injected: 1", "a\x00b", "a\x7fb", "\x85", "\u2028", '"\\', "é" * 300, "x" * 20_000, "\ufffe"]


@pytest.mark.parametrize("text", ODD_TEXTS, ids=range(len(ODD_TEXTS)))
def test_an_unknown_field_of_any_name_is_warned_about_and_the_write_is_answered(api: ServerApi, text: str) -> None:
    doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "warned"}, text: 1}
    made = api.post(MAPS, doc)
    assert made.code == 201
    assert len(made.headers.get_all("Warning") or []) == 1
    assert made.headers.get("X-Injected") is None
    patched = api.patch(f"{MAPS}/warned", {text: 2, "data": {"k": "v"}})
    assert patched.code == 200 and len(patched.headers.get_all("Warning") or []) == 1
    assert api.post(f"{MAPS}?fieldValidation=Strict", doc).code == 400
    assert api.delete(f"{MAPS}/warned").code == 200


def test_thousands_of_warnings_become_what_a_client_can_read(api: ServerApi) -> None:
    doc = {"metadata": {"name": "many"}, **{f"unknown{n}": n for n in range(5_000)}}
    made = api.post(MAPS, doc)
    headers = made.headers.get_all("Warning") or []
    assert made.code == 201 and 1 < len(headers) <= 100
    assert sum(map(len, headers)) < MAX_TOTAL + 10 * len(headers)
    repeated = b'{"metadata":{"name":"many"},' + b",".join([b'"data":{"k":"v"}'] * 5_000) + b"}"
    assert len(api.put(f"{MAPS}/many", repeated).headers.get_all("Warning") or []) == 1


APPLIED: list[Any] = [
    {},
    {"metadata": None},
    {"metadata": {}},
    {"metadata": []},
    {"metadata": "x"},
    {"metadata": {"name": None}},
    {"metadata": {"name": 3}},
    {"metadata": {"name": "bare", "labels": []}},
    {"metadata": {"name": "bare"}, "data": None},
    {"metadata": {"name": "bare"}, "data": []},
    {"metadata": {"name": "bare", "ownerReferences": [None]}},
    {"metadata": {"name": "bare", "finalizers": [None]}},
    {"metadata": {"name": "bare", "finalizers": [""]}},
    {"metadata": {"name": "bare", "annotations": {"a": None}}},
]


@pytest.mark.parametrize("rest", APPLIED, ids=range(len(APPLIED)))
@pytest.mark.parametrize("resource", [MAPS, PODS])
def test_odd_configurations_are_applied_or_refused(api: ServerApi, resource: str, rest: Doc) -> None:
    kind = "Pod" if resource == PODS else "ConfigMap"
    for head in ({"apiVersion": "v1", "kind": kind}, {}, {"apiVersion": None, "kind": 3}):
        reply = api.apply(f"{resource}/bare", {**head, **rest})
        # A configuration that does not fit the schema is a 500 of Kubernetes' own, in these words and without a reason.
        assert reply.code < 500 or "failed to create typed patch object" in reply.message, reply.body
    api.delete(f"{resource}/bare")


@pytest.mark.parametrize(
    "body", [b"", b"null", b"3", b"[]", b'"x"', b"---\n", b"&a [*a]", b"? [a]", b"\xff\xfe", b"\x00"]
)
def test_configurations_that_are_none_are_refused(api: ServerApi, body: bytes) -> None:
    assert api.patch(f"{MAPS}/none?fieldManager=m", body, "apply").code == 400


def test_percentages_and_tokens_nobody_counts_to_are_refused(api: ServerApi) -> None:
    budget = {"metadata": {"name": "b"}, "spec": {"maxUnavailable": f"{DIGITS}%", "selector": {}}}
    reply = api.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    assert reply.code == 422 and "must not be greater than 100%" in reply.message
    token = base64.urlsafe_b64encode(b'{"v":' + b"[" * 2_000).decode()
    assert api.get(f"{MAPS}?limit=1&continue={token}").code == 400
    secret = {"metadata": {"name": "s"}, "type": "kubernetes.io/dockerconfigjson"}
    for inside in (b"[" * 5_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, DIGITS.encode()):
        data = {".dockerconfigjson": base64.b64encode(inside).decode()}
        assert api.post("/api/v1/namespaces/default/secrets", {**secret, "data": data}).code == 422


def test_annotations_with_such_numbers_are_taken(api: ServerApi) -> None:
    sets = "/apis/apps/v1/namespaces/default/daemonsets"
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    doc: Doc = {
        "metadata": {"name": "d", "annotations": {"deprecated.daemonset.template.generation": DIGITS}},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    assert api.post(sets, doc).code < 500
    assert api.patch(f"{sets}/d", {"spec": {"template": {"spec": {"hostNetwork": True}}}}).code < 500
