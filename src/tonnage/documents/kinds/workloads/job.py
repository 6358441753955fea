"""Job: how many pods, how often, when it is complete or failed. Mirrors pkg/apis/batch/validation."""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.kinds.pods.pod_defaults import workload_name_warnings
from tonnage.documents.kinds.pods.pod_spec import validate_pod_template
from tonnage.documents.kinds.workloads.apps import WorkloadStrategy, parsed_selector, validate_match
from tonnage.documents.kinds.workloads.job_rules import (
    is_indexed,
    validate_job_status,
    validate_pod_failure_policy,
    validate_success_policy,
)
from tonnage.documents.strategy import TypeRules, has_condition, keep
from tonnage.documents.validation.metadata import validate_label_selector
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, same
from tonnage.objects.field_errors import Errors, Wrong, invalid, required, too_long
from tonnage.objects.field_rules import OfWhole, immutable, unchanged_fields

CONTROLLER_UID, JOB_NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
OLD_CONTROLLER_UID, OLD_JOB_NAME = "controller-uid", "job-name"
_MANY_TO_COUNT, _MOST_OF_MANY = 100_000, 10_000
_MANAGED_BY_MAX = 63


class JobStrategy(WorkloadStrategy):
    """Older than garbage collection: a DELETE without propagationPolicy orphans its pods. (kubectl sends one.)"""

    default_propagation = "Orphan"
    selectable = ("status.successful",)
    selected_at: ClassVar[dict[str, str]] = {"status.successful": "status.succeeded"}

    def default(self, doc: Doc) -> None:
        spec: Doc = doc.setdefault("spec", {})
        labels = spec.get("template", {}).get("metadata", {}).get("labels")
        if labels and not doc["metadata"].get("labels"):
            # As upstream the same map: labels added to a new Job's template are also the Job's.
            doc["metadata"]["labels"] = labels
        super().default(doc)

    def prepare_create(self, doc: Doc) -> None:
        super().prepare_create(doc)
        spec, name, uid = doc["spec"], doc["metadata"].get("name", ""), doc["metadata"].get("uid", "")
        if spec.get("manualSelector"):
            return
        # Select by the Job's uid, which is unique. Labels that a user set there are kept, and validated later.
        meta = spec["template"].setdefault("metadata", {})
        wanted = {OLD_JOB_NAME: name, JOB_NAME: name, OLD_CONTROLLER_UID: uid, CONTROLLER_UID: uid}
        labels = meta.setdefault("labels", {})
        for key, value in wanted.items():  # in place: the Job may share this map
            labels.setdefault(key, value)
        selector = dict(spec.get("selector") or {})
        selector["matchLabels"] = {CONTROLLER_UID: uid, **selector.get("matchLabels", {})}
        spec["selector"] = selector

    def validate(self, doc: Doc) -> Errors:
        spec, name = doc["spec"], doc["metadata"].get("name", "")
        errors = _validate_generated_selector(doc) + validate_job_spec(spec, "spec")
        if spec.get("selector") is None:
            errors.append(required("spec.selector"))
        errors += validate_label_selector(spec.get("selector"), "spec.selector")
        errors += validate_match(spec, spec.get("template", {}))
        completions = spec.get("completions", 0)
        if is_indexed(spec) and completions > 0:
            longest = f"{name}-{completions - 1}"
            if names.dns_label(longest):
                told = f"will not able to create pod with invalid DNS label: {longest}"
                errors.append(invalid("metadata.name", name, told))
        return errors

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        spec, was = new["spec"], old["spec"]
        errors = self.validate(new)
        errors += _validate_completions_kept(spec, was)
        errors += immutable("spec.selector", spec.get("selector"), was.get("selector"))
        errors += _validate_template_kept(spec, was, may_place=_may_change_template(old))
        fixed = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
        return errors + unchanged_fields(new, old, *(f"spec.{field}" for field in fixed))

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        return validate_job_status(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        if old is not None and not self.spec_changed(new, old):
            return []
        named = workload_name_warnings(new["metadata"].get("name", "")) if old is None else []
        return named + size_warnings(new["spec"], "spec") + super().warnings(new, old)


def size_warnings(spec: Doc, path: str) -> list[str]:
    """Warns about an Indexed Job so large that its status cannot list all failed indexes."""
    is_large = spec.get("completions", 0) > _MANY_TO_COUNT and spec.get("parallelism", 0) > _MOST_OF_MANY
    if not (is_indexed(spec) and is_large):
        return []
    return [
        f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
        "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
    ]


def _validate_generated_selector(doc: Doc) -> Errors:
    """Where the server generates selector and labels, other values by a user are errors."""
    spec, meta = doc["spec"], doc["metadata"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    name, uid = meta.get("name", ""), meta.get("uid", "")
    errors = [] if uid else [required("metadata.uid")]
    wanted = {OLD_CONTROLLER_UID: uid, OLD_JOB_NAME: name, CONTROLLER_UID: uid, JOB_NAME: name}
    labels = spec.get("template", {}).get("metadata", {}).get("labels") or {}
    for key, value in wanted.items():
        at, told = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
        if labels.get(key) != value:
            shown = dict(sorted(labels.items()))
            errors.append(invalid(at, shown, told) if key in labels else required(at, told))
    parsed = parsed_selector(spec["selector"])
    if parsed is not None and not parsed.matches(wanted):
        errors.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return errors


def _validate_managed_by(value: str, path: str) -> Wrong:
    host, slash, rest = value.partition("/")
    if not value:
        yield required(path)
    elif not slash or not host or not rest:
        told = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield invalid(path, value, told)
    else:
        yield from (invalid(path, host, told) for told in names.dns_subdomain(host))
        is_url_path = all(char.isalnum() or char in "/-._~%!$&'()*+,;=:" for char in rest)
        if names.path_segment(rest.replace("/", "")) or not is_url_path:
            yield invalid(path, rest, "Invalid path")
    if len(value.encode()) > _MANAGED_BY_MAX:
        yield too_long(path, _MANAGED_BY_MAX)


validate_job_spec = TypeRules(
    "batch.JobSpec",
    managedBy=_validate_managed_by,
    podFailurePolicy=OfWhole(validate_pod_failure_policy),
    successPolicy=OfWhole(validate_success_policy),
    template=validate_pod_template,
)
"""Validates everything but the selector."""


def _validate_completions_kept(spec: Doc, was: Doc) -> Errors:
    """Completions never change, except with the parallelism of an Indexed Job."""
    completions = spec.get("completions")
    if not is_indexed(spec):
        return immutable("spec.completions", completions, was.get("completions"))
    if completions is None or completions == was.get("completions") or completions == spec.get("parallelism"):
        return []
    return [invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")]


def _may_change_template(old: Doc) -> bool:
    """True for a suspended Job without pods: its pods' placement and resources may still change."""
    spec, status = old["spec"], old.get("status", {})
    is_idle = "startTime" not in status or has_condition(old, "Suspended")
    return bool(spec.get("suspend")) and is_idle and not status.get("active", 0)


def _validate_template_kept(spec: Doc, was: Doc, *, may_place: bool) -> Errors:
    template, before = spec.get("template", {}), copy(was.get("template", {}))
    if may_place:
        _take_placement(template, before)
    if not (was.get("suspend") and may_place):
        return immutable("spec.template", template, before)
    pod, pod_before = template.get("spec", {}), before.get("spec", {})
    for field in ("containers", "initContainers"):
        containers, containers_before = pod.get(field, []), pod_before.get(field, [])
        if len(containers) == len(containers_before):
            for new, old in zip(containers, containers_before, strict=True):
                if new.get("name") == old.get("name"):
                    keep(old, new, "resources")
    return immutable("spec.template.spec", pod, pod_before)


def _take_placement(template: Doc, before: Doc) -> None:
    """Copy the placement fields of the new template into the old one, so that they do not count as changes."""
    meta, meta_before = template.get("metadata", {}), before.setdefault("metadata", {})
    pod, pod_before = template.get("spec", {}), before.setdefault("spec", {})
    for field in ("labels", "annotations"):
        keep(meta_before, meta, field)
    for field in ("nodeSelector", "tolerations", "schedulingGates"):
        keep(pod_before, pod, field)
    affinity, affinity_before = pod.get("affinity"), dict(pod_before.get("affinity") or {})
    if affinity is None:
        affinity_before.pop("nodeAffinity", None)
    else:
        keep(affinity_before, affinity, "nodeAffinity")
    pod_before["affinity"] = affinity_before
    if not affinity_before and affinity is None:
        del pod_before["affinity"]
    if same(meta_before, {}) and "metadata" not in template:
        before.pop("metadata")
