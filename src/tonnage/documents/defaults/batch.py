"""Defaults of Jobs and CronJobs. Mirrors upstream's batch/v1 defaults."""

from __future__ import annotations

from tonnage.documents.defaults.pod import default_pod_template
from tonnage.objects.document import Doc

_BACKOFF_LIMIT = 6
_NO_LIMIT = 2**31 - 1


def default_job(doc: Doc) -> None:
    spec: Doc = doc.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    # With a limit for each index, it alone decides.
    spec.setdefault("backoffLimit", _NO_LIMIT if "backoffLimitPerIndex" in spec else _BACKOFF_LIMIT)
    labels = spec.get("template", {}).get("metadata", {}).get("labels")
    if labels and not doc["metadata"].get("labels"):
        doc["metadata"]["labels"] = labels  # the same map, as upstream: what a new Job's template gets, it gets as well
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    _default_job_parts(spec)


def default_cron_job(doc: Doc) -> None:
    """The template's own defaults come with the Job that is made of it, those of its pods are there already."""
    spec: Doc = doc.setdefault("spec", {})
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.setdefault("jobTemplate", {})
    template.setdefault("metadata", {})
    _default_job_parts(template.setdefault("spec", {}))


def _default_job_parts(spec: Doc) -> None:
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            if not pattern.get("status"):
                pattern["status"] = "True"
    default_pod_template(spec.setdefault("template", {}))
