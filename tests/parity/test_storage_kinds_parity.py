"""The storage kinds and Node, judged as kube-apiserver 1.36.4 judged them.

`storage_kinds_1_36.yaml` holds requests and the answers a real server gave; each case names the upstream function it
mirrors. Here every request goes the way the verbs send it: admitted, defaulted, prepared, judged.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.documents.admit import admit
from tonnage.documents.kinds.node import NodeStrategy
from tonnage.documents.kinds.storage.csi import CSIDriverStrategy, CSINodeStrategy, CSIStorageCapacityStrategy
from tonnage.documents.kinds.storage.persistent_volume import PersistentVolumeStrategy
from tonnage.documents.kinds.storage.persistent_volume_claim import PersistentVolumeClaimStrategy
from tonnage.documents.kinds.storage.storage_class import StorageClassStrategy
from tonnage.documents.kinds.storage.volume_attachment import VolumeAttachmentStrategy
from tonnage.documents.schema import schema_of_resource
from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.metadata import validate_object_meta, validate_object_meta_update
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import Errors
from tonnage.objects.resources import BY_KIND

RECORDED = yaml.load((Path(__file__).parent / "storage_kinds_1_36.yaml").read_text(), yaml.CSafeLoader)
# As on the server that answered: there VolumeLimitScaling is off, and what is ours alone does not exist.
AS_UPSTREAM = Gates.parse("VolumeLimitScaling=false,CSIStorageCapacityV2=false")
STRATEGIES: dict[str, type[Strategy]] = {
    "CSIDriver": CSIDriverStrategy,
    "CSINode": CSINodeStrategy,
    "CSIStorageCapacity": CSIStorageCapacityStrategy,
    "Node": NodeStrategy,
    "PersistentVolume": PersistentVolumeStrategy,
    "PersistentVolumeClaim": PersistentVolumeClaimStrategy,
    "StorageClass": StorageClassStrategy,
    "VolumeAttachment": VolumeAttachmentStrategy,
}


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: f"{case['mirrors']}: {case['name']}")
def test_a_request_is_answered_as_the_real_server_answered_it(case: Doc) -> None:
    base = RECORDED["bases"][case["kind"]] | {"kind": case["kind"]}
    strategy = STRATEGIES[case["kind"]](BY_KIND[base["apiVersion"], case["kind"]], AS_UPSTREAM)
    old: Doc | None = None
    if "create" in case:
        doc, errors = create(strategy, merged(base, spelled_out(case["create"])))
    else:
        old, refused = create(strategy, merged(base, spelled_out(case["from"])))
        assert not refused
        if "from_status" in case:
            old["status"] = case["from_status"]
        doc, errors = update(strategy, old, case)

    causes = [[error.field, error.reason, error.body] for error in errors]
    assert causes == case.get("causes", [])
    if errors:
        return
    assert told(doc) == without_empties(case["accepted"])
    assert strategy.warnings(doc, old) == case.get("warnings", [])


def create(strategy: Strategy, doc: Doc) -> tuple[Doc, Errors]:
    doc = decoded(strategy, doc)
    strategy.drop_disabled_fields(doc, {})
    strategy.prepare_create(doc)
    namespaced = strategy.resource.namespaced
    errors = validate_object_meta(doc, namespaced=namespaced, name_rule=type(strategy).name_rule)
    return doc, errors + strategy.validate(doc)


def update(strategy: Strategy, old: Doc, case: Doc) -> tuple[Doc, Errors]:
    old["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}
    change = case.get("update", case.get("update_status"))
    new = decoded(strategy, merged(old, spelled_out(change)))
    if "update" in case:
        strategy.drop_disabled_fields(new, old)
        strategy.prepare_update(new, old)
        errors = strategy.validate_update(new, old)
    else:
        strategy.prepare_status(new, old)
        errors = strategy.validate_status(new, old)
    return new, validate_object_meta_update(new, old) + errors


def decoded(strategy: Strategy, doc: Doc) -> Doc:
    doc = copy(doc)
    assert not admit(schema_of_resource(strategy.resource), doc).unknown
    strategy.default(doc)
    return doc


def told(doc: Doc) -> Doc:
    """What the record keeps of an object; the time of a phase is not the same twice."""
    shown = {field: value for field, value in doc.items() if field not in ("apiVersion", "kind", "metadata")}
    if "lastPhaseTransitionTime" in shown.get("status", {}):
        shown["status"] = {
            field: value for field, value in shown["status"].items() if field != "lastPhaseTransitionTime"
        }
    if labels := doc["metadata"].get("labels"):
        shown["metadata"] = {"labels": labels}
    result: Doc = without_empties(shown)
    return result


def without_empties(value: Any) -> Any:
    """Lists that hold nothing are `null` to a Go server and `[]` to ours."""
    if isinstance(value, dict):
        return {key: without_empties(item) for key, item in value.items() if item != []}
    if isinstance(value, list):
        return [without_empties(item) for item in value]
    return value


def merged(target: Any, change: Any) -> Any:
    """A JSON merge patch (RFC 7396)."""
    if not isinstance(change, dict):
        return change
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def spelled_out(value: Any) -> Any:
    """`{x*3}` is xxx; `{513 keys}` a map of so many."""
    if isinstance(value, dict):
        return {spelled_out(key): spelled_out(item) for key, item in value.items()}
    if isinstance(value, list):
        return [spelled_out(item) for item in value]
    if not isinstance(value, str):
        return value
    if keys := re.fullmatch(r"\{(\d+) keys\}", value):
        return {f"key-{idx}": "value" for idx in range(int(keys[1]))}
    return re.sub(r"\{(\w)\*(\d+)\}", lambda found: found[1] * int(found[2]), value)
