"""Patches, apply and ownership against the answers of a real kube-apiserver 1.36.4.

`merge_cases_1_36.json` holds one request a case: the live object, what was asked, and the answer, each naming the
upstream function it shows. Times, uids and resource versions are left out. The real server also defaults what it
stores, so documents are compared by containment: all that we make must be there, lists item by item. Entries of
managedFields and refusals are compared in full.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tonnage.documents.apply.managed_fields import FieldWrite, track_update
from tonnage.documents.apply.server_side_apply import apply
from tonnage.documents.patches.json_patch import json_patch, merge_patch
from tonnage.documents.patches.strategic_merge import strategic_merge
from tonnage.documents.schema import schema_of_resource
from tonnage.errors import ApiError
from tonnage.objects.document import Doc, copy, dig
from tonnage.objects.resources import RESOURCES

CASES = json.loads(Path(__file__).with_name("merge_cases_1_36.json").read_text())
NOW = "2026-01-01T00:00:00Z"
KINDS = {resource.kind: resource for resource in RESOURCES if resource.group != "events.k8s.io"}


def cases_with(*verbs: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in CASES if any(verb in case for verb in verbs)]


def tracked_cases() -> list[Any]:
    """The writes whose owners were recorded: those that succeeded, without the many of strategic merge."""
    written = cases_with("patch", "create", "update")
    return [
        param for param in written if "object" in param.values[0]["answer"] and not param.id.startswith("strategic")
    ]


@pytest.mark.parametrize("case", cases_with("apply"))
def test_apply_answers_as_upstream(case: Doc) -> None:
    resource, asked, untouched = KINDS[case["kind"]], case["apply"], copy(case)
    subresource = asked.get("subresource", "")

    def ask() -> Doc:
        return apply(
            FieldWrite.of(resource, subresource, manager=asked["manager"], now=NOW),
            live=case["live"],
            config=asked["config"],
            force=asked.get("force", False),
        )

    if "object" not in case["answer"]:
        assert refusal(ask) == case["answer"]
    else:
        result = ask()
        assert missing(contents(result), case["answer"]["object"]) == []
        assert entries(result) == entries(case["answer"]["object"])
    assert case == untouched, "neither the live object nor the configuration may be changed"


@pytest.mark.parametrize("case", cases_with("patch"))
def test_patches_answer_as_upstream(case: Doc) -> None:
    resource, asked, untouched = KINDS[case["kind"]], case["patch"], copy(case)

    def ask() -> Doc:
        if asked["type"] == "strategic":
            return strategic_merge(schema_of_resource(resource), case["live"], asked["body"])
        return (json_patch if asked["type"] == "json" else merge_patch)(case["live"], asked["body"])

    if "object" not in case["answer"]:
        assert refusal(ask) == case["answer"]
    else:
        result = ask()
        if asked.get("subresource") == "status":  # the endpoint drops everything else
            result = {"status": result["status"]}
        assert missing(contents(result), case["answer"]["object"]) == []
    assert case == untouched, "neither the live object nor the patch may be changed"


@pytest.mark.parametrize("case", tracked_cases())
def test_writes_are_owned_as_upstream(case: Doc) -> None:
    asked = case.get("patch") or case.get("create") or case["update"]
    resource, subresource = KINDS[case["kind"]], asked.get("subresource", "")
    written = copy(case["answer"]["object"])
    written["metadata"].pop("managedFields", None)
    if "sent" in asked:
        written["metadata"]["managedFields"] = asked["sent"]
    live = copy(case["live"])
    track_update(FieldWrite.of(resource, subresource, manager=asked["manager"], now=NOW), old=case["live"], new=written)
    assert entries(written) == entries(case["answer"]["object"])
    assert case["live"] == live


def refusal(ask: Any) -> Doc:
    """An error in the form of the recorded answers; the order of causes is not upstream's to keep (it ranges a map)."""
    with pytest.raises(ApiError) as caught:
        ask()
    error = caught.value
    told: Doc = {"code": error.code, "reason": error.reason, "message": error.message}
    told["causes"] = sorted([cause.reason, cause.message, cause.field] for cause in error.causes)
    return {name: value for name, value in told.items() if value}


def entries(doc: Doc) -> list[Doc]:
    """managedFields without times, sorted by owner: without times there is no other order."""
    found = [{k: v for k, v in entry.items() if k != "time"} for entry in dig(doc, "metadata", "managedFields") or []]
    return sorted(found, key=lambda entry: json.dumps(entry, sort_keys=True))


def contents(doc: Doc) -> Doc:
    """What a patch is about: no managedFields, and no status, which the main endpoint would drop."""
    metadata = {name: value for name, value in doc.get("metadata", {}).items() if name != "managedFields"}
    if "spec" not in doc:
        return {**doc, "metadata": metadata}
    return {name: value for name, value in {**doc, "metadata": metadata}.items() if name != "status"}


def missing(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """What of `ours` is not in `theirs`; null and empty values need not be, a Go server does not show them."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [gap for name, value in ours.items() for gap in missing(value, theirs.get(name), f"{path}.{name}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            gap
            for i, (mine, other) in enumerate(zip(ours, theirs, strict=True))
            for gap in missing(mine, other, f"{path}[{i}]")
        ]
    if ours == theirs or ours in (None, {}, []):
        return []
    return [f"{path}: {ours!r} is not {theirs!r}"]


def test_every_case_names_what_it_mirrors() -> None:
    assert all(case["mirrors"] for case in CASES)
    assert len({case["name"] for case in CASES}) == len(CASES)
