"""Kubernetes' own roles and bindings as documents, and what an older cluster lacks of them.

`bootstrap_policy.yaml` is the data. At every start a server creates missing roles and bindings and adds missing rules
and subjects; additions by users stay. An object with the annotation `rbac.authorization.kubernetes.io/autoupdate:
"false"` is left alone. Mirrors auth/rbac/reconciliation of component-helpers.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from tonnage.documents.access.escalation import single_rights, uncovered
from tonnage.documents.access.rules import RuleIndex, aggregated_rules, document_of, rules_of
from tonnage.objects.document import Doc, copy
from tonnage.objects.resources import RBAC
from tonnage.objects.texts import yaml_text

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_LABEL = "kubernetes.io/bootstrapping"


def bootstrap_policy() -> list[Doc]:
    """Every role and binding, roles first. Aggregated roles have the rules of the roles that they select."""
    documents: list[Doc] = copy(_policy())  # a copy that the caller may change
    return documents


@cache
def _policy() -> list[Doc]:
    text = (files("tonnage.documents.access") / "bootstrap_policy.yaml").read_text()
    documents = [_marked(each.value) for each in yaml_text.documents(text)]
    clusterwide = [doc for doc in documents if doc["kind"] == "ClusterRole"]
    gathering = [role for role in clusterwide if "aggregationRule" in role]
    # Selected roles come before the roles that select them: view, edit, admin.
    for role in sorted(gathering, key=lambda role: role["metadata"]["name"], reverse=True):
        role["rules"] = aggregated_rules(role, clusterwide)
    return sorted(documents, key=lambda doc: doc["kind"].endswith("Binding"))


def _marked(doc: Doc) -> Doc:
    meta = doc["metadata"]
    labels, annotations = {_LABEL: "rbac-defaults", **meta.get("labels", {})}, {AUTOUPDATE: "true"}
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {**meta, "labels": labels, "annotations": annotations}}
    return {**doc, **head}


def reconciled(existing: Doc, expected: Doc) -> Doc | None:
    """The object with everything it lacks of `expected`; None if it lacks nothing or is protected."""
    if is_protected(existing):
        return None
    doc: Doc = copy(existing)
    for field in ("labels", "annotations"):
        merged = {**expected["metadata"].get(field, {}), **doc["metadata"].get(field, {})}
        if merged:
            doc["metadata"][field] = merged
    if "roleRef" in expected:
        missing = [subject for subject in expected.get("subjects", ()) if subject not in doc.get("subjects", ())]
        if missing:
            doc["subjects"] = [*doc.get("subjects", ()), *missing]
        return doc if doc != existing else None
    is_gathered = "aggregationRule" in expected  # then its rules are not written here
    if not is_gathered and existing.get("rules") != expected.get("rules"):
        missing = uncovered([RuleIndex(rules_of(existing))], rules_of(expected))
        doc["rules"] = [*doc.get("rules", ()), *(document_of(right) for box in missing for right in single_rights(box))]
    _reconcile_aggregation(doc, expected)
    return doc if doc != existing else None


def _reconcile_aggregation(doc: Doc, expected: Doc) -> None:
    if "aggregationRule" not in expected:
        doc.pop("aggregationRule", None)
        return
    selectors = doc.get("aggregationRule", {}).get("clusterRoleSelectors", [])
    wanted = expected["aggregationRule"]["clusterRoleSelectors"]
    missing = [selector for selector in wanted if selector not in selectors]
    if missing:
        doc["aggregationRule"] = {"clusterRoleSelectors": [*selectors, *missing]}


def must_be_recreated(existing: Doc, expected: Doc) -> bool:
    """True if the binding names another role than it should. A roleRef cannot be changed."""
    return not is_protected(existing) and existing.get("roleRef") != expected.get("roleRef")


def is_protected(doc: Doc) -> bool:
    return bool(doc["metadata"].get("annotations", {}).get(AUTOUPDATE) == "false")
