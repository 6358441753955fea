"""Defaults of the workloads: how many, in what order, how they are replaced. Mirrors upstream's apps/v1 defaults.

A StatefulSet's claim templates are whole claims, with kind, apiVersion and a pending status, because that is how
upstream's types have it.
"""

from __future__ import annotations

from tonnage.documents.defaults.persistent_volumes import default_claim
from tonnage.documents.defaults.pod import default_pod_template
from tonnage.objects.document import Doc

_HISTORY_LIMIT = 10
_PROGRESS_DEADLINE_S = 600


def default_deployment(doc: Doc) -> None:
    spec = _default_common(doc)
    strategy = spec.setdefault("strategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", _HISTORY_LIMIT)
    spec.setdefault("progressDeadlineSeconds", _PROGRESS_DEADLINE_S)


def default_replica_set(doc: Doc) -> None:
    _default_common(doc)


def default_stateful_set(doc: Doc) -> None:
    spec = _default_common(doc)
    spec.setdefault("serviceName", "")
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for field in ("whenDeleted", "whenScaled"):
        if not retention.get(field):
            retention[field] = "Retain"
    spec.setdefault("revisionHistoryLimit", _HISTORY_LIMIT)
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
        claim.setdefault("metadata", {})
        claim.setdefault("spec", {}).setdefault("resources", {})
        default_claim(claim)


def default_daemon_set(doc: Doc) -> None:
    spec = doc.setdefault("spec", {})
    _drop_zero(spec, "minReadySeconds")
    default_pod_template(spec.setdefault("template", {}))
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", _HISTORY_LIMIT)


def default_replication_controller(doc: Doc) -> None:
    """The oldest of them: its selector and its own labels follow the template's labels."""
    spec = doc.setdefault("spec", {})
    labels = spec.get("template", {}).get("metadata", {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not doc["metadata"].get("labels"):
            doc["metadata"]["labels"] = dict(labels)
    spec.setdefault("replicas", 1)
    _drop_zero(spec, "minReadySeconds")
    if "template" in spec:
        default_pod_template(spec["template"])


def _default_common(doc: Doc) -> Doc:
    spec: Doc = doc.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _drop_zero(spec, "minReadySeconds", "paused")
    default_pod_template(spec.setdefault("template", {}))
    return spec


def _drop_zero(spec: Doc, *fields: str) -> None:
    for field in fields:
        if not spec.get(field, True):
            del spec[field]
