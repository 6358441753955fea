"""Workloads in one line, for tests: say what matters, the rest is as an API server would fill it in.

deployment("web", 10, surge=3, unavailable=2)        replica_set("web-1", 5, available=4, of=web)
stateful_set("db", 3, claims=["data"])               member(db, 0, ready=True, revision="db-1")
budget("web", max_unavailable=1)                     a_pod("web-x", ready=True, on="node-1")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tonnage.behaviour.workloads.templates import controller_ref
from tonnage.clock import rfc3339
from tonnage.objects.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from tonnage.objects.batch_v1 import JOB_TRACKING, CronJob, Job
from tonnage.objects.codec import convert, to_doc
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.testing.builders import Doc, pod

NOW: Final = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
"""The moment at which tests of workloads look."""
LABELS: Final = {"app": "web"}


def template(image: str = "app:1", labels: Mapping[str, str] = LABELS) -> Doc:
    return {"metadata": {"labels": dict(labels)}, "spec": {"containers": [{"name": "c", "image": image}]}}


def ago(seconds: float) -> str:
    """A time before `NOW`, as it is written."""
    return rfc3339(NOW - timedelta(seconds=seconds))


def owned_by(owner: Object) -> Doc:
    """An owner reference to the controller `owner`."""
    return to_doc(controller_ref(owner))


def deployment(
    name: str = "web",
    replicas: int = 3,
    *,
    surge: int | str = "25%",
    unavailable: int | str = "25%",
    recreate: bool = False,
    image: str = "app:1",
    annotations: Mapping[str, str] | None = None,
    status: Doc | None = None,
    **spec: Any,
) -> Deployment:
    """A Deployment; `spec` adds what has no word here."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    return convert(
        Deployment,
        {
            "kind": "Deployment",
            "metadata": _meta(name, annotations=dict(annotations or {})),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": LABELS},
                "template": template(image),
                "strategy": {"type": "Recreate"} if recreate else rolling,
                **spec,
            },
            "status": {"observedGeneration": 1, **(status or {})},
        },
    )


def replica_set(
    name: str = "web-1",
    replicas: int = 3,
    *,
    available: int | None = None,
    image: str = "app:1",
    age_s: float = 0.0,
    of: Object | None = None,
    annotations: Mapping[str, str] | None = None,
    status: Doc | None = None,
    **spec: Any,
) -> ReplicaSet:
    """A ReplicaSet whose status says what its size says, with all its pods available unless told otherwise."""
    well = replicas if available is None else available
    counts = {"replicas": replicas, "readyReplicas": well, "availableReplicas": well, "observedGeneration": 1}
    metadata = _meta(name, annotations=dict(annotations or {}), labels=dict(LABELS), creationTimestamp=ago(age_s))
    if of is not None:
        metadata["ownerReferences"] = [owned_by(of)]
    return convert(
        ReplicaSet,
        {
            "kind": "ReplicaSet",
            "metadata": metadata,
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": LABELS},
                "template": template(image),
                **spec,
            },
            "status": {**counts, **(status or {})},
        },
    )


def daemon_set(
    name: str = "agent",
    *,
    unavailable: int | str = 1,
    surge: int | str = 0,
    on_delete: bool = False,
    image: str = "app:1",
    status: Doc | None = None,
    metadata: Doc | None = None,
    pod_spec: Doc | None = None,
    **spec: Any,
) -> DaemonSet:
    """A DaemonSet; `pod_spec` adds to its template, `spec` what has no word here."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    made = template(image)
    made["spec"] |= pod_spec or {}
    return convert(
        DaemonSet,
        {
            "kind": "DaemonSet",
            "metadata": _meta(name, **(metadata or {})),
            "spec": {
                "selector": {"matchLabels": LABELS},
                "template": made,
                "updateStrategy": {"type": "OnDelete"} if on_delete else rolling,
                **spec,
            },
            "status": status or {},
        },
    )


def stateful_set(
    name: str = "db",
    replicas: int = 3,
    *,
    parallel: bool = False,
    on_delete: bool = False,
    partition: int = 0,
    start: int = 0,
    claims: Iterable[str] = (),
    retention: tuple[str, str] = ("Retain", "Retain"),
    image: str = "app:1",
    status: Doc | None = None,
    metadata: Doc | None = None,
    **spec: Any,
) -> StatefulSet:
    """A StatefulSet; `retention` is (whenScaled, whenDeleted)."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
    return convert(
        StatefulSet,
        {
            "kind": "StatefulSet",
            "metadata": _meta(name, **(metadata or {})),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": LABELS},
                "serviceName": name,
                "template": template(image),
                "podManagementPolicy": "Parallel" if parallel else "OrderedReady",
                "updateStrategy": {"type": "OnDelete"} if on_delete else rolling,
                "ordinals": {"start": start},
                "volumeClaimTemplates": [_claim_template(each) for each in claims],
                "persistentVolumeClaimRetentionPolicy": {"whenScaled": retention[0], "whenDeleted": retention[1]},
                **spec,
            },
            "status": status or {},
        },
    )


def a_pod(
    name: str,
    *,
    ready: bool = False,
    ready_for_s: float = 60.0,
    phase: str = "",
    on: str = "",
    age_s: float = 60.0,
    going: bool = False,
    of: Object | None = None,
    labels: Mapping[str, str] | None = None,
    restarts: int = 0,
    conditions: Iterable[Doc] = (),
    **metadata: Any,
) -> Pod:
    """A pod of a workload: Running when it is ready or has a node, else Pending, unless `phase` says otherwise."""
    meta: Doc = {"creationTimestamp": ago(age_s), **metadata}
    if going:
        meta["deletionTimestamp"] = ago(0)
    if of is not None:
        meta["ownerReferences"] = [owned_by(of)]
    said = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": ago(ready_for_s)}
    status = {
        "phase": phase or ("Running" if ready or on else "Pending"),
        "conditions": [said, *conditions],
        "containerStatuses": [{"name": "c", "restartCount": restarts}],
    }
    return pod(name, on=on, labels=LABELS if labels is None else labels, status=status, metadata=meta)


def member(owner: StatefulSet, ordinal: int, revision: str = "db-1", **options: Any) -> Pod:
    """The pod of an ordinal, with its labels."""
    name = f"{owner.name}-{ordinal}"
    identity = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)}
    labels = {**LABELS, **identity, "controller-revision-hash": revision}
    return a_pod(name, of=owner, labels=labels, **options)


def budget(
    name: str = "web",
    *,
    min_available: int | str | None = None,
    max_unavailable: int | str | None = None,
    status: Doc | None = None,
) -> PodDisruptionBudget:
    limits = {"minAvailable": min_available, "maxUnavailable": max_unavailable}
    return convert(
        PodDisruptionBudget,
        {
            "kind": "PodDisruptionBudget",
            "metadata": _meta(name),
            "spec": {
                "selector": {"matchLabels": LABELS},
                **{field: limit for field, limit in limits.items() if limit is not None},
            },
            "status": status or {},
        },
    )


def _meta(name: str, **more: Any) -> Doc:
    return {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1, "resourceVersion": "1", **more}


def _claim_template(name: str) -> Doc:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": spec}


def job(name: str = "sum", *, status: Doc | None = None, created_ago_s: float = 60, **spec: Any) -> Job:
    """A Job as a server has filled it in; without a word, one pod that has to succeed."""
    wanted: Doc = {"completions": 1, "parallelism": 1, "template": template(), "selector": {"matchLabels": LABELS}}
    doc: Doc = {"kind": "Job", "metadata": {**_meta(name), "creationTimestamp": ago(created_ago_s)}}
    doc["spec"] = {key: value for key, value in {**wanted, **spec}.items() if value is not None}
    return convert(Job, {**doc, "status": {"startTime": ago(created_ago_s), **(status or {})}})


def job_pod(
    name: str,
    phase: str = "Running",
    *,
    index: int | None = None,
    exit_code: int | None = None,
    ended_ago_s: float = 0,
    tracked: bool = True,
    is_terminating: bool = False,
    annotations: Mapping[str, str] | None = None,
    conditions: Iterable[Doc] = (),
) -> Pod:
    """A pod of a Job. One that has ended did so `ended_ago_s` before `NOW`."""
    meta: Doc = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": dict(LABELS)}
    meta["annotations"] = dict(annotations or {})
    meta["creationTimestamp"] = ago(ended_ago_s + 5)
    if index is not None:
        meta["annotations"]["batch.kubernetes.io/job-completion-index"] = str(index)
    if tracked:
        meta["finalizers"] = [JOB_TRACKING]
    if is_terminating:
        meta |= {"deletionTimestamp": ago(0), "deletionGracePeriodSeconds": 30}
    status: Doc = {"phase": phase, "conditions": list(conditions)}
    if phase in ("Succeeded", "Failed"):
        code = exit_code if exit_code is not None else int(phase == "Failed")
        ended = {"exitCode": code, "finishedAt": ago(ended_ago_s)}
        status["containerStatuses"] = [{"name": "c", "state": {"terminated": ended}}]
    spec = {"nodeName": "node-1", "containers": [{"name": "c"}]}
    return convert(Pod, {"kind": "Pod", "metadata": meta, "spec": spec, "status": status})


def cron_job(
    schedule: str = "*/5 * * * *", *, created_ago_s: float = 3600, status: Doc | None = None, **spec: Any
) -> CronJob:
    meta = {**_meta("tick"), "creationTimestamp": ago(created_ago_s)}
    doc: Doc = {"kind": "CronJob", "metadata": meta, "spec": {"schedule": schedule, **spec}, "status": status or {}}
    return convert(CronJob, doc)
