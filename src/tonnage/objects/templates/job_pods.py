"""The pods of a Job, and the Job of a CronJob. Mirrors what pkg/controller/job puts on its pods."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tonnage.objects.batch_v1 import COMPLETION_INDEX, CRONJOB_SCHEDULED_AT, CronJob, Job
from tonnage.objects.codec import to_doc
from tonnage.objects.document import Doc, copy
from tonnage.objects.templates.owner_references import controller_ref
from tonnage.objects.templates.pod_templates import pod_from_template

_MAX_HOST_NAME: Final = 63
_MAX_GENERATED_BASE: Final = 63 - 5
_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"


def job_pod(owner: Job, index: int) -> Doc:
    """One pod of a job; with completionMode Indexed it has an index, and a host name by it."""
    doc = pod_from_template(owner.spec.template, owner)
    metadata, spec = doc["metadata"], doc["spec"]
    labels = metadata.setdefault("labels", {})
    labels |= {
        "batch.kubernetes.io/controller-uid": owner.uid,
        "batch.kubernetes.io/job-name": owner.name,
        "controller-uid": owner.uid,
        "job-name": owner.name,
    }
    if owner.spec.completion_mode == "Indexed":
        labels[COMPLETION_INDEX] = str(index)
        metadata.setdefault("annotations", {})[COMPLETION_INDEX] = str(index)
        ending = f"-{index}-"
        metadata["generateName"] = f"{owner.name[: _MAX_GENERATED_BASE - len(ending)]}{ending}"
        spec["hostname"] = f"{owner.name}-{index}"[:_MAX_HOST_NAME]
        for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
            _tell_index(container)
    return doc


def _tell_index(container: Doc) -> None:
    """Let the container know its index, unless its author has thought of that."""
    if any(each.get("name") == _INDEX_VARIABLE for each in container.get("env", ())):
        return
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    container["env"] = [*container.get("env", ()), {"name": _INDEX_VARIABLE, "valueFrom": source}]


def job_of(owner: CronJob, at: datetime) -> Doc:
    """The job that is made at a time of the schedule."""
    template = owner.spec.job_template
    metadata: Doc = {
        "name": f"{owner.name}-{int(at.timestamp()) // 60}",
        "namespace": owner.namespace,
        "ownerReferences": [to_doc(controller_ref(owner))],
    }
    said = template.metadata
    metadata |= {field: copy(said[field]) for field in ("labels", "annotations") if said.get(field)}
    metadata.setdefault("annotations", {})[CRONJOB_SCHEDULED_AT] = _in_zone(at, owner.spec.time_zone)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": copy(dict(template.spec))}


def _in_zone(at: datetime, zone: str | None) -> str:
    """The time as the clocks of the schedule's zone show it."""
    try:
        shown = at.astimezone(ZoneInfo(zone)) if zone else at
    except (ZoneInfoNotFoundError, ValueError, OSError):
        shown = at
    text = shown.isoformat(timespec="seconds")
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
