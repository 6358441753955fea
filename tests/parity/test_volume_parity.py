"""Pods with volumes, judged and scored as kube-scheduler 1.36.4 did, with the gates as they are there.

The YAML file holds clusters and what a real scheduler made of them; here the same goes the whole way from a
KubeSchedulerConfiguration to a decision. What is ours on purpose stands at the end, in words.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.gates import Gates
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.decision.scheduling_cycle import Decision
from tonnage.scheduling.engine.profiles import Assembled, add_indexes, assemble
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import (
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)

Doc = dict[str, Any]
MEASURED = yaml.load((Path(__file__).parent / "volumes_1_36.yaml").read_text(), yaml.CSafeLoader)
UPSTREAM_GATES = {"CSIStorageCapacityV2": False, "StorageCapacityScoring": False, "VolumeLimitScaling": False}
"""As they are in 1.36 unless they are switched on; the first does not exist there."""
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
REASONS = {
    "affinity": "node(s) didn't match PersistentVolume's node affinity",
    "unbindable": "node(s) didn't find available persistent volumes to bind",
    "full": "node(s) did not have enough free storage",
    "gone": "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    "zone": "node(s) had no available volume zone",
    "limit": "node(s) exceed max volume count",
    "disk": "node(s) had no available disk",
    "once": "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
    "another pod",
}
"""By the word the file uses; a reason that has none stands there in full."""
VOLUME_PLUGINS = {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}
HELPED_BY_PREEMPTION = {REASONS["limit"], REASONS["disk"], REASONS["once"]}
"""And a CSI driver that is not installed; against everything else preemption cannot help, as the file says."""


# -- the cluster ------------------------------------------------------------------------------------------------------


def objects_in(case: Doc) -> Iterator[Object]:
    """Everything but the pods, as the case and what is shared by all say."""
    for name, options in case.get("nodes", {"a": {}, "b": {}}).items():
        yield node(name, **options)
    shared = MEASURED["shared"]
    for name, options in {**shared["classes"], **case.get("classes", {})}.items():
        yield storage_class(name, **options)
    for name, options in {**shared["drivers"], **case.get("drivers", {})}.items():
        yield driver(name, **options)
    for name, limits in case.get("csi_nodes", {}).items():
        migrated = case.get("migrated", {}).get(name)
        yield csi_node(name, limits, **({"annotations": {MIGRATED: migrated}} if migrated else {}))
    for key, options in case.get("claims", {}).items():
        namespace, _, name = key.rpartition("/")
        yield claim(name, **_with_metadata({"namespace": namespace or "default", **options}))
    for name, options in case.get("volumes", {}).items():
        yield volume(name, **_with_metadata(options))
    for number, options in enumerate(case.get("capacities", [])):
        yield capacity(**{"name": f"room-{number}", **options})
    for number, options in enumerate(case.get("attachments", [])):
        yield attachment(f"attachment-{number}", **options)


def pods_in(case: Doc) -> Iterator[Pod]:
    for number, options in enumerate(case.get("pods", [])):
        yield pod_in(f"there-{number}", options)


def pod_in(name: str, doc: Doc) -> Pod:
    options = _with_metadata(doc)
    ephemeral = [_ephemeral(each) for each in options.pop("ephemeral", [])]
    return pod_with(
        name,
        *options.pop("claims", []),
        volumes=[*ephemeral, *options.pop("volumes", [])],
        **options,
    )


def _ephemeral(name: str) -> Doc:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    return {"name": name, "ephemeral": {"volumeClaimTemplate": template}}


def _with_metadata(doc: Doc) -> Doc:
    """The words for what stands in metadata: `terminating`, and the pod that is `owner`.

    And `at`, which the builders call `on`: YAML would read that as a truth.
    """
    options = dict(doc)
    if "at" in options:
        options["on"] = options.pop("at")
    metadata = dict(options.pop("metadata", {}))
    if options.pop("terminating", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    owner = options.pop("owner", None)
    if owner is not None:
        uid = owner.get("uid", f"default-{owner['name']}")
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner["name"], "uid": uid}
        metadata["ownerReferences"] = [{**reference, "controller": owner.get("controller", True)}]
    return {**options, "metadata": metadata}


def cluster_in(case: Doc) -> Cluster:
    cluster = add_indexes(Cluster())
    for each in objects_in(case):
        if isinstance(each, Node):
            cluster.put_node(each)
        else:
            cluster.storage.put(each)
    for there in pods_in(case):
        place(cluster, there)
    return cluster


def profile_named(name: str) -> Assembled:
    said = MEASURED["profiles"][name]
    shape = {"shape": said["shape"]} if "shape" in said else {}
    profile = {
        "plugins": {"multiPoint": {"disabled": [{"name": each} for each in said.get("without", [])]}},
        "pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 600, **shape}}],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    gates = Gates().with_(**{**UPSTREAM_GATES, **said.get("gates", {})})
    configuration = parse(json.dumps(document), source=f"profile {name}", gates=gates)
    return assemble(configuration.profiles[0], random.Random(1))


# -- the answer -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", MEASURED["cases"], ids=lambda case: case["case"])
def test_as_measured(case: Doc) -> None:
    cluster = cluster_in(case)
    assembled = profile_named(case.get("profile", "default"))
    pod = PodInfo(pod_in("asking", case["pod"]))
    first = assembled.decider.decide(cluster, pod, diagnose=True)
    decision = assembled.decider.decide(cluster, pod, diagnose=True)
    diagnosis = decision.diagnosis
    assert first.diagnosis is not None and diagnosis is not None
    # What is remembered of the first attempt changes nothing about the second.
    assert first.feasible == decision.feasible and first.diagnosis.message() == diagnosis.message()
    assert decision.fits is ("message" not in case)
    if "message" in case:
        assert diagnosis.message() == case["message"]
    if diagnosis.refusal is None:
        refused = {name: set(diagnosis.reasons_of(row)) for name, row in cluster.row_of.items()}
        assert {name: reasons for name, reasons in refused.items() if reasons} == {
            name: set(spelled_out(words)) for name, words in case.get("refused", {}).items()
        }
        for row in cluster.row_of.values():
            if diagnosis.rejected_by(row) in VOLUME_PLUGINS:
                assert bool(diagnosis.final[row]) is is_final(diagnosis.reasons_of(row))
    if decision.fits:
        names, scores = volume_scores(assembled, decision)
        assert dict(zip(names, scores, strict=True)) == case.get("scores", dict.fromkeys(names, 0))
        assert volumes_given(assembled, decision, case["node"]) == (case.get("binds", {}), set(case.get("makes", [])))
        if len(names) == 1 or scores.count(max(scores)) == 1:
            assert decision.node == case["node"]


def spelled_out(words: str | list[str]) -> list[str]:
    return [REASONS.get(word, word) for word in ([words] if isinstance(words, str) else words)]


def is_final(reasons: tuple[str, ...]) -> bool:
    return not all(each in HELPED_BY_PREEMPTION or each.endswith("is not installed on the node") for each in reasons)


def volume_scores(assembled: Assembled, decision: Decision) -> tuple[list[str], list[int]]:
    """The nodes that are left, and what VolumeBinding gives each: 0 to a single one, or when it has no say."""
    cycle = decision.cycle
    names = [cycle.cluster.name(row) for row in cycle.feasible.tolist()]
    told = assembled.decider.scores(cycle) if len(names) > 1 else []
    by_plugin = {plugin: scores.tolist() for plugin, _, scores in told}
    return names, by_plugin.get("VolumeBinding", [0] * len(names))


def volumes_given(assembled: Assembled, decision: Decision, node_name: str) -> tuple[Doc, set[str]]:
    """(volumes by claim, claims to be made) as they are taken to be once the pod goes to a node."""
    cycle = decision.cycle
    storage = cycle.cluster.storage
    mounted = [storage.claims.get(key) for key in cycle.pod.claim_keys]
    pending = [each for each in mounted if each is not None and not each.is_bound]
    for plugin in assembled.reserve:
        assert plugin.reserve(cycle, node_name).is_success
    now = {each.name: storage.claims.get(each.key) for each in pending}
    makes = {name for name, each in now.items() if each is not None and each.selected_node == node_name}
    binds: Doc = {}
    for each in pending:
        named = [it for it in storage.volumes if it.spec.claim_ref is not None and it.spec.claim_ref.uid == each.uid]
        # One that was kept for the claim beforehand, uid and all, is not changed, and so not assumed.
        given = [it.name for it in named if storage.volumes.is_assumed(it.key)] or [it.name for it in named]
        if given and each.name not in makes:
            binds[each.name] = given[0] if len(given) == 1 else sorted(given)
    return binds, makes


# -- ours on purpose --------------------------------------------------------------------------------------------------


def decided(profile: str, case: Doc) -> tuple[Assembled, Decision]:
    assembled = profile_named(profile)
    pod = PodInfo(pod_in("asking", case["pod"]))
    return assembled, assembled.decider.decide(cluster_in(case), pod, diagnose=True)


def test_a_pod_that_mounts_a_claim_not_its_own_does_not_keep_others_away() -> None:
    """Upstream fails the attempt of every pod with volumes when a node with attach limits has a pod whose ephemeral
    volume's claim belongs to somebody else. Measured there: `running "NodeVolumeLimits" filter plugin: PVC
    default/there-0-scratch was not created for pod default/there-0 (pod is not owner)`, as a SchedulerError.
    """
    case = {
        "nodes": {"a": {}},
        "csi_nodes": {"a": {"csi.example": 5}},
        "claims": {"there-0-scratch": {"class_name": "plain"}, "data": {"volume": "pv-1"}},
        "volumes": {"pv-1": {"claim": "default/data"}},
        "pods": [{"at": "a", "ephemeral": ["scratch"]}],
        "pod": {"claims": ["data"]},
    }
    assert decided("default", case)[1].node == "a"


def test_an_ephemeral_claim_of_somebody_else_is_a_refusal_also_when_only_limits_are_looked_at() -> None:
    """Upstream, measured: `running "NodeVolumeLimits" filter plugin: PVC default/asking-scratch was not created for pod
    default/asking (pod is not owner)`, as a SchedulerError. With VolumeBinding it is a refusal there as well.
    """
    case = {
        "nodes": {"a": {}},
        "claims": {"asking-scratch": {"class_name": "plain"}},
        "pod": {"ephemeral": ["scratch"]},
    }
    diagnosis = decided("limits-only", case)[1].diagnosis
    assert diagnosis is not None
    assert diagnosis.message() == (
        "0/1 nodes are available: "
        "1 PVC default/asking-scratch was not created for pod default/asking (pod is not owner)."
    )


def test_room_told_by_maximum_volume_size_alone_is_scored_by_that() -> None:
    """Upstream's VolumeBinding.Score reads `capacity` without looking whether it is there, and crashes."""
    case = {
        "claims": {"data": {"size": "10G"}},
        "capacities": [{"node": "a", "maximum": "20G"}, {"node": "b", "free": "100G"}],
        "pod": {"claims": ["data"]},
    }
    names, scores = volume_scores(*decided("most-free", case))
    # 10 of 20 leaves 50, 10 of 100 leaves 90.
    assert dict(zip(names, scores, strict=True)) == {"a": 50, "b": 90}


def test_an_empty_selected_node_is_none() -> None:
    """Upstream takes it for a node that no node is, and the pod waits for good. Measured there: `0/2 nodes are
    available: 2 node(s) didn't find available persistent volumes to bind.`"""
    annotations = {"volume.kubernetes.io/selected-node": ""}
    case = {
        "claims": {"data": {"class_name": "plain", "metadata": {"annotations": annotations}}},
        "pod": {"claims": ["data"]},
    }
    assembled, decision = decided("default", case)
    assert decision.feasible == 2
    assert volumes_given(assembled, decision, decision.node) == ({}, {"data"}), "and it is written anew"
