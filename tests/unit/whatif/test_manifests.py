"""Manifests from files: every form they come in, and every way they can be wrong."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.whatif.creation import Creation
from tonnage.whatif.manifests import Manifests, read
from tonnage.whatif.sources import from_files

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {containers: [{name: c, image: i}]}\n"


def node(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read_text(text: str | bytes, name: str = "x.yaml") -> Manifests:
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read([name])


def keys(found: Manifests) -> list[str]:
    return ["/".join(part for part in key if part) for key in found.by_key]


def refusal(text: str | bytes, name: str = "x.yaml") -> tuple[str, str | None]:
    with pytest.raises(TonnageError) as caught:
        read_text(text, name)
    return caught.value.message, caught.value.hint


# -- the forms --------------------------------------------------------------------------------------------------------


def test_a_yaml_file_holds_several_documents():
    assert keys(read_text(f"{POD}---\n---\napiVersion: v1\nkind: Node\nmetadata: {{name: a}}\n")) == [
        "pods/shop/web",
        "nodes/a",
    ]


def test_a_json_file_is_read_whatever_its_name():
    assert keys(read_text(json.dumps(node("a")), "x.txt")) == ["nodes/a"]


def test_json_documents_may_follow_one_another():
    assert keys(read_text(f"{json.dumps(node('a'))}\n{json.dumps(node('b'))}\n", "x.json")) == ["nodes/a", "nodes/b"]


def test_yaml_in_flow_style_is_not_mistaken_for_json():
    assert keys(read_text("{apiVersion: v1, kind: Node, metadata: {name: a}}\n")) == ["nodes/a"]


def test_the_lists_of_kubectl_get_are_read():
    listed = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [node("a"), node("b")]}
    assert keys(read_text(json.dumps(listed))) == ["nodes/a", "nodes/b"]


def test_items_of_a_typed_list_need_not_say_what_they_are():
    listed = {"apiVersion": "v1", "kind": "NodeList", "metadata": {}, "items": [{"metadata": {"name": "a"}}]}
    assert keys(read_text(json.dumps(listed))) == ["nodes/a"]


def test_a_list_may_hold_lists_and_nothing():
    inner = {"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "a"}}]}
    outer = {"apiVersion": "v1", "kind": "List", "items": [inner, {"apiVersion": "v1", "kind": "List"}, None]}
    assert keys(read_text(json.dumps(outer))) == ["nodes/a"]


def test_text_that_powershell_wrote_is_read():
    assert keys(read_text("\ufeff".encode("utf-16-le") + POD.encode("utf-16-le"))) == ["pods/shop/web"]
    assert keys(read_text(b"\xef\xbb\xbf" + POD.encode())) == ["pods/shop/web"]


def test_a_folder_is_read_with_its_folders_in_order_of_names():
    for path, name in (("d/b.yml", "b"), ("d/a/z.json", "z"), ("d/c.yaml", "c"), ("d/README.md", "no")):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(node(name)))
    assert keys(read(["d"])) == ["nodes/z", "nodes/b", "nodes/c"]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    assert keys(read(["-"])) == ["pods/shop/web"]


# -- what comes out ---------------------------------------------------------------------------------------------------


def test_a_namespace_that_is_left_out_is_default_and_one_too_many_is_dropped():
    found = read_text(
        POD.replace(", namespace: shop", "") + "---\napiVersion: v1\nkind: Node\nmetadata: {name: a, namespace: x}\n"
    )
    assert keys(found) == ["pods/default/web", "nodes/a"]


def test_a_generated_name_is_the_same_at_every_run():
    text = POD.replace("name: web", "generateName: web-")
    (first,), (second,) = keys(read_text(text)), keys(read_text(text))
    assert first == second
    assert first.startswith("pods/shop/web-") and len(first) == len("pods/shop/web-") + 5


def test_values_are_canonical_and_nulls_are_gone():
    found = read_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: null}\nstatus: {allocatable: {cpu: 0.5}}\n"
    )
    (manifest,) = found.by_key.values()
    assert manifest.doc["metadata"] == {"name": "a"}
    assert manifest.doc["status"] == {"allocatable": {"cpu": "500m"}}


def test_kinds_that_decisions_do_not_look_at_are_counted():
    docs = [("apps/v1", "Deployment", "a"), ("apps/v1", "Deployment", "b"), ("example.com/v1", "Pod", "c")]
    text = "---\n".join(f"apiVersion: {v}\nkind: {k}\nmetadata: {{name: {n}}}\nany: thing\n" for v, k, n in docs)
    found = read_text(text)
    assert not found.by_key
    assert found.passed_over == [("Deployment", "a"), ("Deployment", "b"), ("Pod", "c")]
    (note,) = from_files(["x.yaml"], Creation(Gates())).notes
    assert note == "ignored, since scheduling does not read them: 2 Deployment, 1 Pod"


def test_of_two_objects_with_one_name_the_later_counts():
    Path("a.yaml").write_text(POD)
    found = read_text(f"apiVersion: v1\nkind: Node\nmetadata: {{name: a}}\n---\n{POD.replace('image: i', 'image: j')}")
    assert not found.warnings
    found = read(["a.yaml", "x.yaml"])
    assert found.by_key["pods", "shop", "web"].doc["spec"]["containers"][0]["image"] == "j"
    assert found.warnings == ["x.yaml, document 2 (Pod shop/web) is in a.yaml, document 1 too; the later one is used"]


def test_a_key_that_stands_twice_is_a_warning():
    found = read_text("apiVersion: v1\nkind: Node\nmetadata:\n  name: a\n  name: b\n")
    assert keys(found) == ["nodes/b"]
    assert found.warnings == ['x.yaml, document 1: line 5: key "name" stands twice in one map; the last counts']


def test_a_server_may_know_more_fields_than_we_do():
    found = read_text(POD.replace("namespace: shop", 'namespace: shop, resourceVersion: "7"') + "future: 1\n")
    assert found.warnings == ['x.yaml, document 1 (Pod shop/web): ignored fields that Tonnage does not know: "future"']


# -- what is wrong ----------------------------------------------------------------------------------------------------


def test_a_quantity_is_named_with_its_field():
    text = POD.replace("image: i", "image: i, resources: {requests: {cpu: 1 core}}")
    assert refusal(f"{POD}---\n{text}") == (
        'x.yaml, document 2 (Pod shop/web): spec.containers[0].resources.requests.cpu="1 core" is not a quantity: '
        'unknown suffix " core"; use one of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, or an exponent such as '
        "e3",
        None,
    )


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("priority: high", 'spec.priority="high" is not a whole number of 32 bits; write a number such as 3'),
        ('priority: "7"', 'spec.priority="7" is not a whole number of 32 bits; write 7, without quotes'),
        (
            "priority: 3000000000",
            "spec.priority=3000000000 is not a whole number of 32 bits; write a number such as 3",
        ),
        ("nodeName: 7", 'spec.nodeName=7 is not text; write "7", in quotes'),
        ("nodeSelector: {disk: on}", 'spec.nodeSelector.disk=true is not text; write "true", in quotes'),
        ("nodeSelector: {a/b: 1.5}", 'spec.nodeSelector[a/b]=1.5 is not text; write "1.5", in quotes'),
        ("hostNetwork: yes please", 'spec.hostNetwork="yes please" is not true or false; write true or false, '
         "without quotes"),
        ("tolerations: {key: a}", 'spec.tolerations={"key":"a"} is not a list; write a dash before each of its items'),
        (
            "tolerations: [a]",
            'spec.tolerations[0]="a" is not a map; write a name and a colon before each of its values',
        ),
        (
            "volumes: [{name: v, emptyDir: {sizeLimit: [1]}}]",
            'spec.volumes[0].emptyDir.sizeLimit=[1] is not a quantity; write text such as "10Gi"',
        ),
    ],
)  # fmt: skip
def test_a_value_of_a_wrong_type_is_named_with_its_field(spec, problem):
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  {spec}\n"
    assert refusal(text) == (f"x.yaml, document 1 (Pod web): {problem}", None)


def test_a_time_must_be_one():
    text = POD.replace("namespace: shop", "namespace: shop, creationTimestamp: yesterday")
    assert refusal(text)[0] == (
        'x.yaml, document 1 (Pod shop/web): metadata.creationTimestamp="yesterday" is not a time with its zone; '
        'write text such as "2026-11-15T02:29:13Z"'
    )


def test_unknown_fields_are_errors_with_a_guess():
    text = POD.replace("containers: [{name: c, image: i}]", "container: [], tolerations: [{keys: a}]")
    assert refusal(text) == (
        'x.yaml, document 1 (Pod shop/web): unknown field "spec.container", unknown field "spec.tolerations[0].keys"',
        'did you mean "containers"?; did you mean "key"?',
    )


def test_an_item_of_a_list_is_named_by_its_place():
    bad = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}, "spec": {"taints": 3}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [node("a"), bad]}
    assert refusal(json.dumps(listed), "x.json")[0] == (
        "x.json, document 1, items[1] (Node b): spec.taints=3 is not a list; write a dash before each of its items"
    )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("just words\n", "x.yaml, document 1: expected an object, a map with apiVersion and kind", None),
        (
            "apiVersion: v1\nmetadata: {name: a}\n",
            "x.yaml, document 1 (object a): kind is not set",
            "write kind: at its start",
        ),
        ("kind: Pod\n", "x.yaml, document 1 (Pod): apiVersion is not set", "write apiVersion: at its start"),
        (
            "apiVersion: v1\nkind: List\nitems: {a: 1}\n",
            "x.yaml, document 1 (List): items is not a list",
            "write a dash before each object",
        ),
        ("apiVersion: v1\nkind: Node\n", "x.yaml, document 1 (Node): metadata.name is not set", None),
        (
            "apiVersion: storage.k8s.io/v1beta1\nkind: CSINode\nmetadata: {name: a}\n",
            'x.yaml, document 1 (CSINode a): no matches for kind "CSINode" in version "storage.k8s.io/v1beta1"',
            "write apiVersion: storage.k8s.io/v1",
        ),
        (
            "apiVersion: v1\nkind: StatefulSet\nmetadata: {name: a}\n",
            'x.yaml, document 1 (StatefulSet a): no matches for kind "StatefulSet" in version "v1"',
            "write apiVersion: apps/v1",
        ),
        (
            "apiVersion: v1\nkind: pods\nmetadata: {name: a}\n",
            'x.yaml, document 1 (pods a): no matches for kind "pods" in version "v1"',
            'did you mean "Pod"?',
        ),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: a\n",
            "x.yaml: yaml: line 4: did not find expected ',' or '}'",
            "correct the YAML there",
        ),
        (
            '{"apiVersion": "v1",\n "kind" "Node"}',
            "x.yaml: json: line 2 column 9: Expecting ':' delimiter",
            "correct the JSON there",
        ),
        ("# nothing\n", "there is no object in x.yaml", None),
    ],
)
def test_a_document_that_is_no_object_is_named(text, message, hint):
    assert refusal(text) == (message, hint)


def test_kinds_that_only_look_like_ours_are_passed_over():
    text = "---\n".join(
        f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n"
        for version, kind in (
            ("v1", "PodTemplate"),
            ("v1", "ServiceAccount"),
            ("v1", "Endpoints"),
            ("v1", "ResourceQuota"),
            ("v1", "LimitRange"),
            ("storage.k8s.io/v1", "VolumeAttributesClass"),
            ("serving.knative.dev/v1", "Service"),
        )
    )
    found = read_text(text)
    assert (len(found.passed_over), len(found.rules)) == (5, 2)


def test_binary_data_is_no_manifest():
    assert refusal(b"\x89PNG\xff\xfe\x01") == (
        "x.yaml: byte 0 is not UTF-8 text",
        "give YAML or JSON files, saved as UTF-8",
    )


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(TonnageError, match=r"^none.yaml: cannot be read: No such file or directory$"):
        read(["none.yaml"])


def test_a_folder_without_manifests_is_named():
    Path("d").mkdir()
    with pytest.raises(TonnageError) as caught:
        read(["d"])
    assert caught.value.message == "d: no manifests in this folder"
    assert caught.value.hint == "they end in .json, .yaml, .yml"
