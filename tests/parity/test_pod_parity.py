"""Pods, workloads and small kinds, judged as kube-apiserver 1.36.4 judged them.

The two YAML files hold requests and the answers of a real server; each case names the upstream function it mirrors.
Here every request goes the way the verbs send it: admitted, defaulted, prepared, judged. Upstream tells errors in
maps in random order, so refusals are compared sorted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.documents.admission import resolve_priority
from tonnage.documents.admit import admit
from tonnage.documents.kinds.config_map import ConfigMapStrategy
from tonnage.documents.kinds.event import EventStrategy, from_events_v1, to_events_v1
from tonnage.documents.kinds.lease import LeaseStrategy
from tonnage.documents.kinds.namespace import NamespaceStrategy
from tonnage.documents.kinds.pod_disruption_budget import PodDisruptionBudgetStrategy
from tonnage.documents.kinds.pods.pod import PodStrategy
from tonnage.documents.kinds.priority_class import PriorityClassStrategy
from tonnage.documents.kinds.resource_claim import DeviceClassStrategy, ResourceClaimStrategy
from tonnage.documents.kinds.secret import SecretStrategy
from tonnage.documents.kinds.service import ServiceStrategy
from tonnage.documents.kinds.service_account import ServiceAccountStrategy
from tonnage.documents.kinds.workloads.apps import (
    ControllerRevisionStrategy,
    DaemonSetStrategy,
    DeploymentStrategy,
    ReplicaSetStrategy,
    ReplicationControllerStrategy,
    StatefulSetStrategy,
)
from tonnage.documents.schema import schema_of_resource
from tonnage.documents.strategy import Generation, Strategy
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import Errors
from tonnage.objects.resources import BY_KIND

HERE = Path(__file__).parent
PODS = yaml.load((HERE / "pod_rules_1_36.yaml").read_text(), yaml.CSafeLoader)
KINDS = yaml.load((HERE / "workload_and_small_kinds_1_36.yaml").read_text(), yaml.CSafeLoader)
STRATEGIES: dict[str, type[Strategy]] = {
    "ConfigMap": ConfigMapStrategy,
    "ControllerRevision": ControllerRevisionStrategy,
    "DaemonSet": DaemonSetStrategy,
    "Deployment": DeploymentStrategy,
    "DeviceClass": DeviceClassStrategy,
    "Event": EventStrategy,
    "Lease": LeaseStrategy,
    "Namespace": NamespaceStrategy,
    "NewEvent": EventStrategy,
    "PodDisruptionBudget": PodDisruptionBudgetStrategy,
    "PriorityClass": PriorityClassStrategy,
    "ReplicaSet": ReplicaSetStrategy,
    "ReplicationController": ReplicationControllerStrategy,
    "ResourceClaim": ResourceClaimStrategy,
    "Secret": SecretStrategy,
    "Service": ServiceStrategy,
    "ServiceAccount": ServiceAccountStrategy,
    "StatefulSet": StatefulSetStrategy,
}
POD = BY_KIND["v1", "Pod"]


def name_of(case: Doc) -> str:
    return f"{case.get('kind', 'Pod')}, {case['mirrors']}: {case['case']}"


@pytest.mark.parametrize("case", PODS["create"], ids=name_of)
def test_a_new_pod_is_judged_as_upstream_judges_it(case: Doc) -> None:
    strategy = PodStrategy(POD, Gates())
    pod, errors = created_pod(strategy, case)
    assert sorted(told(errors)) == sorted(case["refusals"])
    if not errors:
        assert strategy.warnings(pod, None) == case.get("warnings", [])


@pytest.mark.parametrize("case", PODS["stored"], ids=name_of)
def test_a_pod_is_stored_as_upstream_stores_it(case: Doc) -> None:
    pod, errors = created_pod(PodStrategy(POD, Gates()), case)
    assert not errors
    assert {"spec": pod["spec"], "status": pod["status"]} == case["stored"]


@pytest.mark.parametrize("case", PODS["update"], ids=name_of)
def test_a_change_of_a_pod_is_judged_as_upstream_judges_it(case: Doc) -> None:
    strategy = PodStrategy(POD, Gates())
    old, refused = created_pod(strategy, case)
    assert not refused
    new = merged(copy(old), case["patch"])
    admit(schema_of_resource(POD), new)
    errors, generation = changed(strategy, new, old, case.get("through", ""))
    assert sorted(told(errors)) == sorted(case["refusals"])
    if not errors:
        assert generation == case["generation"]


@pytest.mark.parametrize("case", KINDS["cases"], ids=name_of)
def test_other_kinds_are_judged_as_upstream_judges_them(case: Doc) -> None:
    base = {"kind": case["kind"].removeprefix("New"), **KINDS["bases"][case["kind"]]}
    strategy = STRATEGIES[case["kind"]](BY_KIND[base["apiVersion"], base["kind"]], Gates())
    wanted = merged(copy(base), case["object"])
    if strategy.resource.namespaced:
        wanted["metadata"]["namespace"] = "podrules"
    doc = received(strategy, wanted)
    errors = create(strategy, doc)
    generation = 1 if strategy.generation is Generation.COUNTED else None
    old: Doc | None = None
    if "patch" in case:
        assert not errors
        old, doc = doc, received(strategy, merged(shown(strategy, doc), case["patch"]))
        errors, generation = changed(strategy, doc, old, case.get("through", ""))
    assert sorted(told(errors)) == sorted(case["refusals"])
    if not errors:
        assert strategy.warnings(doc, old) == case.get("warnings", [])
        doc = shown(strategy, doc)
        metadata = doc.pop("metadata")
        assert {key: value for key, value in doc.items() if key not in ("kind", "apiVersion")} == case["accepted"]
        assert metadata.get("labels") == case.get("labels")
        assert metadata.get("annotations") == case.get("annotations")
        assert generation == case.get("generation")


def created_pod(strategy: Strategy, case: Doc) -> tuple[Doc, Errors]:
    metadata = {"name": "p", "namespace": "podrules", **case.get("metadata", {})}
    spec = {"containers": [{"name": "c", "image": "x"}], **copy(case["spec"])}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    admit(schema_of_resource(POD), pod)
    strategy.default(pod)
    resolve_priority(pod, [])
    strategy.drop_disabled_fields(pod, {})
    strategy.prepare_create(pod)
    return pod, strategy.validate(pod)


def create(strategy: Strategy, doc: Doc) -> Errors:
    strategy.default(doc)
    strategy.drop_disabled_fields(doc, {})
    strategy.prepare_create(doc)
    return strategy.validate(doc)


def changed(strategy: Strategy, new: Doc, old: Doc, through: str) -> tuple[Errors, int | None]:
    """What is wrong with a change of a new object, and its generation after it."""
    strategy.default(new)
    generation = 1 if strategy.generation is Generation.COUNTED else None
    if through == "status":
        strategy.prepare_status(new, old)
        return strategy.validate_status(new, old), generation
    strategy.drop_disabled_fields(new, old)
    strategy.prepare_update(new, old)
    if generation is not None:
        generation += strategy.spec_changed(new, old)
    return strategy.validate_update(new, old), generation


def received(strategy: Strategy, doc: Doc) -> Doc:
    """What a client sent, as it is stored."""
    admit(schema_of_resource(strategy.resource), doc)
    return from_events_v1(doc) if strategy.resource.stored_as else doc


def shown(strategy: Strategy, doc: Doc) -> Doc:
    """What is stored, as a client of this resource sees it."""
    return to_events_v1(doc) if strategy.resource.stored_as else copy(doc)


def told(errors: Errors) -> list[str]:
    return list(dict.fromkeys(f"{error.field}: {error.body}" for error in errors))


def merged(doc: Any, patch: Any) -> Any:
    """RFC 7386: a null takes a field away, a map is merged, everything else is replaced."""
    if not isinstance(patch, dict):
        return patch
    result = dict(doc) if isinstance(doc, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
