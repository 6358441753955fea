"""Definitions of custom resources and objects of theirs, for contract tests."""

from __future__ import annotations

import itertools
import os
from typing import Any

from support.api_servers import ServerApi
from support.eventually import eventually

Doc = dict[str, Any]

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NUMBERS = itertools.count(1)

SCHEMA: Doc = {
    "type": "object",
    "description": "A box.",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "colour": {"type": "string", "default": "red", "enum": ["red", "green", "blue"]},
                "size": {"type": "integer", "minimum": 0},
                "replicas": {"type": "integer"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
                    },
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "replicas": {"type": "integer"},
                "selector": {"type": "string"},
            },
        },
    },
}
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def version(name: str = "v1", *, storage: bool = True, served: bool = True, **more: Any) -> Doc:
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": SCHEMA}, **more}


def definition(group: str, *versions: Doc, scope: str = "Namespaced", plural: str = "boxes", **names: Any) -> Doc:
    named = {"plural": plural, "singular": "box", "kind": "Box", "listKind": "BoxList", **names}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": named, "versions": list(versions) or [version()]},
    }


def new_group() -> str:
    """A group that no other test has."""
    return f"g{os.getpid()}-{next(_NUMBERS)}.example.com"


def establish(api: ServerApi, doc: Doc) -> str:
    """Create a definition and wait until its resources are served; the path of its group."""
    api.create(CRDS, doc)
    served(api, doc)
    return f"/apis/{doc['spec']['group']}"


def served(api: ServerApi, doc: Doc) -> None:
    """Wait until every served version of a definition can be listed, as discovery tells."""
    path, spec = f"{CRDS}/{doc['metadata']['name']}", doc["spec"]
    eventually(lambda: condition(api.get(path).body, "Established") == "True", "the definition to be established")
    paths = [
        f"/apis/{spec['group']}/{each['name']}/{spec['names']['plural']}" for each in spec["versions"] if each["served"]
    ]
    eventually(lambda: all(api.get(each).code == 200 for each in paths), f"{paths} to be served")


def condition(doc: Doc, kind: str) -> str:
    found = (each for each in doc.get("status", {}).get("conditions") or () if each["type"] == kind)
    return next((each["status"] for each in found), "")


def box(group: str, name: str = "a", *, version: str = "v1", **fields: Any) -> Doc:
    return {"apiVersion": f"{group}/{version}", "kind": "Box", "metadata": {"name": name}, **fields}
