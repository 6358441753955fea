"""Every object that the chart and the overlays make is one that API servers take, as it stands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rendered import OVERLAYS, VALUES, Document, chart_objects, identity, needs_helm, needs_kubectl, overlay_objects

from support.api_servers import ServerApi, embedded, kube_apiserver
from support.eventually import eventually

ASSETS = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))
NAMESPACES = ("tonnage-system", "example-driver", "monitoring")
OPERATOR = "monitoring.coreos.com"
"""The Prometheus operator's group: what has no definition there is not known to a server."""

pytestmark = [needs_helm, needs_kubectl]


@pytest.fixture(
    scope="module",
    params=[
        "embedded",
        pytest.param(
            "kube-apiserver",
            marks=[
                pytest.mark.envtest,
                pytest.mark.skipif(
                    not (ASSETS / "kube-apiserver").exists(),
                    reason="KUBEBUILDER_ASSETS names no folder with kube-apiserver",
                ),
            ],
        ),
    ],
)
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerApi]:
    folder = tmp_path_factory.mktemp("server")
    with embedded(folder) if request.param == "embedded" else kube_apiserver(folder, ASSETS) as server:
        for name in NAMESPACES:
            made = server.post("/api/v1/namespaces", {"metadata": {"name": name}})
            assert made.code == 201, made.body
        for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule"):
            define(server, kind)
        yield server


def define(api: ServerApi, kind: str) -> None:
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    spec = {
        "group": OPERATOR,
        "scope": "Namespaced",
        "names": {"kind": kind, "plural": plural},
        "versions": [version],
    }
    made = api.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{OPERATOR}"},
            "spec": spec,
        },
    )
    assert made.code == 201, made.body
    eventually(lambda: api.get(f"/apis/{OPERATOR}/v1/{plural}").code == 200, f"{plural} to be served")


PLURALS = {"NetworkPolicy": "networkpolicies", "StorageClass": "storageclasses", "Ingress": "ingresses"}


def path_of(document: Document) -> str:
    version, namespace = document["apiVersion"], document["metadata"].get("namespace")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = PLURALS.get(document["kind"], f"{document['kind'].lower()}s")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def served_of(api: ServerApi, objects: list[Document]) -> list[Document]:
    """The objects without an Ingress where none is served: the embedded server routes no traffic."""
    return [each for each in objects if each["kind"] != "Ingress" or api.get(path_of(each)).code == 200]


@pytest.mark.parametrize("values", VALUES)
def test_objects_of_the_chart_are_created(api: ServerApi, values: str):
    created_and_kept(api, served_of(api, chart_objects(values)))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_objects_of_overlays_are_created(api: ServerApi, overlay: str):
    created_and_kept(api, [each for each in overlay_objects(overlay) if each["kind"] != "Namespace"])


def created_and_kept(api: ServerApi, objects: list[Document]) -> None:
    """Created strictly, so that no field is unknown; what was asked for is what stands there; then deleted again."""
    made: list[str] = []
    try:
        for document in objects:
            path = path_of(document)
            answer = api.post(f"{path}?fieldValidation=Strict", document)
            assert answer.code == 201, f"{identity(document)}: {answer.body}"
            made.append(f"{path}/{document['metadata']['name']}")
            assert missing(document, answer.body) == [], identity(document)
    finally:
        for one in reversed(made):
            assert api.delete(one).code == 200


def missing(wanted: Any, found: Any, path: str = "") -> list[str]:
    """What of a document the server did not keep; what it filled in does not matter."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [line for key, value in wanted.items() for line in missing(value, found.get(key), f"{path}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) <= len(found):
        # Admission adds behind what a list has: tolerations, projected volumes.
        return [line for idx, each in enumerate(wanted) for line in missing(each, found[idx], f"{path}[{idx}]")]
    return [] if wanted == found or (wanted in ({}, []) and found is None) else [f"{path}: {wanted} became {found}"]
