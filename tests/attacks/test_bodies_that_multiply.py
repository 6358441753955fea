"""Bodies of a few bytes that stand for a lot: each is refused before it is made, whatever its format.

The server is a process of its own, so that one that dies or grows shows. `quickly` holds every answer to a time: the
bodies below took it down, or kept everybody waiting for 7 to 25 seconds.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.api_servers import ServerApi, embedded
from support.http import ApiClient, Doc, Reply
from tonnage.documents.creation import MAX_OBJECT_BYTES
from tonnage.objects.document import MAX_REQUEST_VALUES

MAPS, PODS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods"
YAML, PROTOBUF = "application/yaml", "application/vnd.kubernetes.protobuf"
QUICK_S = 5.0
"""Of a machine that other tests keep busy; alone it is a fraction of a second."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerApi]:
    with embedded(tmp_path_factory.mktemp("multiply")) as server:
        yield server


def quickly(act: Callable[[], Reply]) -> Reply:
    started_at = time.monotonic()
    reply = act()
    assert time.monotonic() - started_at < QUICK_S
    return reply


def config_map(name: str, **data: str) -> Doc:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def yaml_map(name: str, rest: str) -> bytes:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n{rest}".encode()


# -- YAML -------------------------------------------------------------------------------------------------------------

LONG = "x" * 500_000
MANY_KEYS = ", ".join(f"k{n}: v" for n in range(20_000))
BILLION_LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)
MULTIPLYING_YAML = {
    "aliases of one long string": f"data:\n  a: &a {LONG}\n" + "".join(f"  k{n}: *a\n" for n in range(80_000)),
    "aliases as annotations": f"x: &a {LONG[:100_000]}\nbinaryData:\n" + "".join(f" k{n}: *a\n" for n in range(1_000)),
    "a billion laughs": BILLION_LAUGHS,
    "merges of one large map": f"a: &a {{{MANY_KEYS}}}\ndata: {{{', '.join(['<<: *a'] * 20_000)}}}",
    "a list of merges": f"a: &a {{{MANY_KEYS}}}\ndata: {{<<: [{', '.join(['*a'] * 20_000)}]}}",
    "merges beside many keys": f"a: &a {{k: v}}\ndata: {{{MANY_KEYS}, <<: [{', '.join(['*a'] * 150_000)}]}}",
    "more values than any object": "data:\n" + "- a\n" * 700_000,
}


@pytest.mark.parametrize("text", MULTIPLYING_YAML.values(), ids=MULTIPLYING_YAML)
@pytest.mark.parametrize("verb", ["create", "apply"])
def test_yaml_that_multiplies_is_refused(api: ServerApi, verb: str, text: str) -> None:
    body = yaml_map("bomb", text)
    if verb == "create":
        reply = quickly(lambda: api.post(MAPS, body, content_type=YAML))
    else:
        reply = quickly(lambda: api.patch(f"{MAPS}/bomb?fieldManager=m", body, "apply"))
    assert (reply.code, reply.reason) == (413, "RequestEntityTooLarge"), reply.body
    assert "too many values" in reply.message or "too much text" in reply.message
    assert api.get(f"{MAPS}/bomb").code == 404


TAG_ATTACKS = {
    "one long prefix": f"%TAG !e! tag:{'a' * 1_000_000}\n---\n" + "- !e!x a\n" * 20_000,
    "many directives": "".join(f"%TAG !e{n}! tag:a\n" for n in range(100_000)) + "---\na: 1\n",
}


@pytest.mark.parametrize("text", TAG_ATTACKS.values(), ids=TAG_ATTACKS)
def test_yaml_tags_that_multiply_are_refused(api: ServerApi, text: str) -> None:
    reply = quickly(lambda: api.post(MAPS, text.encode(), content_type=YAML))
    assert reply.code == 400 and "%TAG" in reply.message


def test_a_hundred_kilobytes_do_not_store_a_hundred_megabytes(api: ServerApi) -> None:
    text = f"data:\n  a: &a {'y' * 10_000}\n" + "".join(f"  k{n}: *a\n" for n in range(10_000))
    body = yaml_map("large", text)
    assert len(body) < 150_000
    assert quickly(lambda: api.post(MAPS, body, content_type=YAML)).code == 413


def test_aliases_within_reason_are_read(api: ServerApi) -> None:
    body = yaml_map("aliases", "data:\n  a: &a some text\n  b: *a\n")
    assert api.post(MAPS, body, content_type=YAML)["data"] == {"a": "some text", "b": "some text"}


# -- protobuf ---------------------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80]) + varint(number >> 7) if number > 0x7F else bytes([number])


def field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(kind: str, raw: bytes, api_version: str = "v1", content_type: bytes = b"") -> bytes:
    head = field(1, field(1, api_version.encode()) + field(2, kind.encode()))
    return b"k8s\0" + head + field(2, raw) + (field(4, content_type) if content_type else b"")


META = field(1, field(1, b"bomb"))
CONTAINER = field(1, b"c") + field(2, b"i")
MULTIPLYING_MESSAGES = {
    "empty containers": message("Pod", META + field(2, b"\x12\x00" * 900_000)),
    "empty volumes": message("Pod", META + field(2, field(2, CONTAINER) + b"\x0a\x00" * 900_000)),
    "empty ports of one container": message("Pod", META + field(2, field(2, CONTAINER + b"\x32\x00" * 900_000))),
    "empty owners": message("ConfigMap", field(1, field(1, b"bomb") + b"\x6a\x00" * 900_000)),
    "one name, again and again": message("ConfigMap", field(1, b"\x0a\x01b" * 900_000)),
    "fields nobody knows": message("ConfigMap", META + b"\xf8\x07\x01" * 900_000),
    "groups in groups": message("ConfigMap", META + b"\xfb\x07" * 700_000 + b"\xfc\x07" * 700_000),
    "a quantity of many texts": message("Pod", META + field(2, field(2, field(8, field(1, b"\x0a\x00" * 900_000))))),
    "lists of the envelope": b"k8s\0" + b"\x12\x00" * 900_000,
    "JSON within": message("ConfigMap", b'{"data":[' + b"{}," * 900_000 + b"{}]}", content_type=b"application/json"),
    "managedFields": message(
        "ConfigMap",
        field(1, field(1, b"bomb") + field(17, field(7, field(1, b'{"f:a":[' + b"{}," * 900_000 + b"0]}")))),
    ),
}


@pytest.mark.parametrize("body", MULTIPLYING_MESSAGES.values(), ids=MULTIPLYING_MESSAGES)
def test_protobuf_that_multiplies_is_refused(api: ServerApi, body: bytes) -> None:
    resource = PODS if b"Pod" in body[:40] else MAPS
    reply = quickly(lambda: api.post(resource, body, content_type=PROTOBUF))
    assert (reply.code, reply.reason) == (413, "RequestEntityTooLarge"), reply.body
    assert len(json.dumps(reply.body)) < 1_000


@pytest.mark.parametrize("count", [20_000, MAX_REQUEST_VALUES - 100])
def test_what_defaults_multiply_is_refused_by_its_size(api: ServerApi, count: int) -> None:
    # 20,000 empty containers are 60 kB of JSON, and 4 MB with the defaults of each.
    raw = META + field(2, b"\x12\x00" * count)
    started_at = time.monotonic()
    reply = api.post(PODS, message("Pod", raw), content_type=PROTOBUF)
    assert time.monotonic() - started_at < 2 * QUICK_S
    assert (reply.code, reply.reason) == (413, "RequestEntityTooLarge"), reply.body
    assert f"limit is {MAX_OBJECT_BYTES}" in reply.message


# -- JSON and patches -------------------------------------------------------------------------------------------------

MULTIPLYING_JSON = {
    "empty lists": b'{"x":[' + b"[]," * 1_000_000 + b"[]]}",
    "empty maps": b'{"data":[' + b"{}," * 1_000_000 + b"{}]}",
    "nulls": b'{"x":[' + b"null," * 600_000 + b"null]}",
    "keys": b'{"data":{' + b",".join(b'"k%d":""' % n for n in range(200_000)) + b"}}",
}


@pytest.mark.parametrize("body", MULTIPLYING_JSON.values(), ids=MULTIPLYING_JSON)
def test_json_of_too_many_values_is_refused(api: ServerApi, body: bytes) -> None:
    api.post(MAPS, config_map("a"))
    for send in (
        lambda: api.post(MAPS, body),
        lambda: api.put(f"{MAPS}/a", body),
        lambda: api.patch(f"{MAPS}/a", body, "merge"),
        lambda: api.patch(f"{MAPS}/a", body, "strategic"),
        lambda: api.patch(f"{MAPS}/a", b"[" + body + b"]", "json"),
        lambda: api.delete(f"{MAPS}/a", body),
    ):
        reply = quickly(send)
        assert (reply.code, reply.reason) == (413, "RequestEntityTooLarge"), reply.body


def test_commas_and_brackets_of_a_text_are_no_values(api: ServerApi) -> None:
    table = "\n".join(["a,b,[c],{d}"] * 40_000)
    reply = quickly(lambda: api.post(MAPS, config_map("csv", table=table)))
    assert reply.code == 201, reply.body


def copies(*steps: tuple[str, str]) -> list[Any]:
    return [{"op": "copy", "from": source, "path": path} for source, path in steps]


COPYING_PATCHES = {
    "one long text": [
        {"op": "add", "path": "/data/a", "value": "x" * 200_000},
        *copies(*(("/data/a", f"/data/k{n}") for n in range(5_000))),
    ],
    "doubling": [
        {"op": "add", "path": "/data", "value": {"a": "x"}},
        *copies(*(("/data", f"/data/k{n}") for n in range(60))),
    ],
    "small maps": [
        {"op": "add", "path": "/x", "value": [{}] * 1_000},
        *copies(*(("/x", f"/x{n}") for n in range(9_000))),
    ],
    "moves that go deeper": [
        {"op": "add", "path": "/x", "value": {"a": [0] * 100_000, "b": {}}},
        *(
            {"op": "move", "from": source, "path": path}
            for _ in range(4_000)
            for source, path in (("/x", "/y"), ("/y/a", "/y/b/a"), ("/y/b/a", "/y/a"), ("/y", "/x"))
        ),
    ][:9_999],
}


@pytest.mark.parametrize("operations", COPYING_PATCHES.values(), ids=COPYING_PATCHES)
def test_json_patches_that_multiply_are_refused(api: ServerApi, operations: list[Any]) -> None:
    api.post(MAPS, config_map("patched", k="v"))
    reply = quickly(lambda: api.patch(f"{MAPS}/patched", operations, "json"))
    assert reply.code in (413, 422), reply.body
    assert api.get(f"{MAPS}/patched")["data"] == {"k": "v"}


def test_a_json_patch_has_ten_thousand_operations_at_most(api: ServerApi) -> None:
    api.post(MAPS, config_map("patched", k="v"))
    operations = [{"op": "test", "path": "/data/k", "value": "v"}] * 10_001
    assert quickly(lambda: api.patch(f"{MAPS}/patched", operations, "json")).code == 413


# -- the size of an object --------------------------------------------------------------------------------------------


def test_an_object_is_stored_up_to_one_and_a_half_megabytes(api: ServerApi) -> None:
    text = "x" * 500_000
    revisions = "/apis/apps/v1/namespaces/default/controllerrevisions"
    large: Doc = {"metadata": {"name": "large"}, "revision": 1, "data": {"a": text, "b": text}}
    assert api.post(revisions, large).code == 201
    too_large = {**large, "metadata": {"name": "larger"}, "data": {**large["data"], "c": text, "d": text}}
    reply = api.post(revisions, too_large)
    assert (reply.code, reply.reason) == (413, "RequestEntityTooLarge")
    assert "split it into several objects" in reply.message
    assert api.patch(f"{revisions}/large", {"metadata": {"annotations": {"a": "b"}}}).code == 200
    labels = {f"example.com/l{n}": "v" * 63 for n in range(10_000)}
    assert api.patch(f"{revisions}/large", {"metadata": {"labels": labels}}).code == 413
    assert api.delete(f"{revisions}/large").code == 200


def test_what_is_wrong_with_many_items_is_told_in_little(api: ServerApi) -> None:
    ports = [{"containerPort": 0, "name": "UPPER" * 20} for _ in range(5_000)]
    doc = {"metadata": {"name": "wrong"}, "spec": {"containers": [{"name": "c", "image": "i", "ports": ports}]}}
    reply = quickly(lambda: api.post(PODS, doc))
    assert reply.code == 422
    assert "more errors" in reply.message and len(json.dumps(reply.body)) < 2_000_000


def test_readyz_answers_through_all_of_it(api: ServerApi) -> None:
    bodies = [(MAPS, yaml_map("bomb", text), YAML) for text in list(MULTIPLYING_YAML.values())[:3]]
    bodies += [(PODS, body, PROTOBUF) for body in list(MULTIPLYING_MESSAGES.values())[:3]]
    bodies += [(MAPS, body, "application/json") for body in list(MULTIPLYING_JSON.values())[:3]]
    ended = threading.Event()
    waits_s: list[float] = []

    def probe() -> None:
        client = ApiClient(api.url, "", keep_alive=True)
        while not ended.is_set():
            started_at = time.monotonic()
            assert client.get("/readyz").code == 200
            waits_s.append(time.monotonic() - started_at)
        client.close()

    prober = threading.Thread(target=probe)
    prober.start()
    try:
        for path, body, content_type in bodies:
            assert api.post(path, body, content_type=content_type).code in (400, 413)
    finally:
        ended.set()
        prober.join()
    assert max(waits_s) < QUICK_S
