"""The pods of a Job, and the Job of a CronJob. Mirrors what pkg/controller/job puts on its pods."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tonnage.objects.batch_v1 import CronJob, Job
from tonnage.objects.codec import to_doc
from tonnage.objects.document import Doc, copy
from tonnage.objects.templates.owner_references import controller_ref
from tonnage.objects.templates.pod_templates import pod_from_template

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_MAX_HOST_NAME: Final = 63


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
        labels[_INDEX] = str(index)
        metadata.setdefault("annotations", {})[_INDEX] = str(index)
        metadata["generateName"] = f"{owner.name}-{index}-"
        spec.setdefault("hostname", f"{owner.name}-{index}"[:_MAX_HOST_NAME])
    return doc


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
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": copy(dict(template.spec))}
