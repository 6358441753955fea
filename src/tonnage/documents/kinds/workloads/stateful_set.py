"""StatefulSet: replicas with stable names, and claim templates that are whole claims, as in upstream's types."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tonnage.documents.kinds.pods.pod_spec import validate_pod_template
from tonnage.documents.kinds.storage.persistent_volume_claim import default_claim, validate_claim_spec
from tonnage.documents.kinds.workloads import workload
from tonnage.documents.strategy import fill
from tonnage.documents.validation.type_rules import TypeRules
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, same
from tonnage.objects.field_errors import Errors, forbidden, invalid

_SPEC, _ROLLING = TypeRules("apps.StatefulSetSpec"), TypeRules("apps.RollingUpdateStatefulSetStrategy")
_MUTABLE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)
_LATER_DEFAULTS: Doc = {
    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    "revisionHistoryLimit": 10,
    "volumeClaimTemplates?": {"metadata": {}, "spec": {"resources": {}}},
}


class StatefulSetStrategy(workload.WorkloadStrategy):
    # A pod's name is the set's name and a number, and must be a host name.
    name_rule: ClassVar[Callable[[str], list[str]]] = staticmethod(names.dns_label)
    new_status: ClassVar[Doc] = {"replicas": 0, "availableReplicas": 0}
    defaults: ClassVar[Doc] = {"spec": {"serviceName": "", "podManagementPolicy": "OrderedReady"}}
    parts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    ready_told = "cannot be greater than status.readyReplicas"

    def default(self, doc: Doc) -> None:
        super().default(doc)
        spec = doc["spec"]
        strategy = spec.setdefault("updateStrategy", {})
        if "type" not in strategy:
            fill(strategy, {"type": "RollingUpdate", "rollingUpdate": {}})
        if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
            strategy["rollingUpdate"].setdefault("partition", 0)
        fill(spec, _LATER_DEFAULTS)
        for claim in spec.get("volumeClaimTemplates", ()):
            claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
            default_claim(claim)

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        super().drop_disabled_fields(new, old)
        # MaxUnavailableStatefulSet is closed on a stock server.
        new["spec"].get("updateStrategy", {}).get("rollingUpdate", {}).pop("maxUnavailable", None)

    def validate(self, doc: Doc, *, is_update: bool = False) -> Errors:
        """On an update immutable fields are not validated again."""
        spec = doc["spec"]
        errors = _SPEC(spec, "spec", "podManagementPolicy")
        errors += _validate_strategy(spec.get("updateStrategy", {}))
        errors += _SPEC(spec, "spec", "persistentVolumeClaimRetentionPolicy")
        if not is_update:
            for idx, claim in enumerate(spec.get("volumeClaimTemplates", ())):
                errors += validate_claim_spec(claim.get("spec", {}), f"spec.volumeClaimTemplates[{idx}].spec")
        errors += _SPEC(spec, "spec", "replicas", "minReadySeconds", "ordinals")
        if not is_update:
            errors += _SPEC(spec, "spec", "serviceName")
        errors += workload.validate_selector(spec, "statefulset", "")
        template = _with_claim_volumes(spec)
        errors += workload.validate_match(spec, template)
        errors += validate_pod_template(template, "spec.template")
        return errors + workload.validate_always_running(spec.get("template", {}), "StatefulSet")

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        errors = self.validate(new, is_update=True)
        fixed, was = (
            {field: value for field, value in each["spec"].items() if field not in _MUTABLE} for each in (new, old)
        )
        if not same(fixed, was):
            mutable = f"{', '.join(map(repr, _MUTABLE[:-1]))} and {_MUTABLE[-1]!r}"
            told = f"updates to statefulset spec for fields other than {mutable} are forbidden"
            errors.append(forbidden("spec", told))
        return errors

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        told = super().warnings(new, old)
        if new["spec"].get("revisionHistoryLimit", 0) < 0:
            told.append(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
                "a value >= 0 is recommended"
            )
        return told


def _validate_strategy(strategy: Doc) -> Errors:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    if kind == "OnDelete":
        if rolling is None:
            return []
        shown = {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}
        return [invalid(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")]
    if kind != "RollingUpdate":
        shown = workload.shown_strategy(kind, rolling, ("Partition", "MaxUnavailable"))
        return [invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")]
    return _ROLLING(rolling or {}, f"{path}.rollingUpdate")


def _with_claim_volumes(spec: Doc) -> Doc:
    """The template as its pods have it: a volume for every claim, no host names (the controller sets them)."""
    template: Doc = copy(spec.get("template", {}))
    pod = template.get("spec", {})
    for field in ("hostname", "subdomain"):
        pod.pop(field, None)
    made = {claim.get("metadata", {}).get("name", ""): claim for claim in spec.get("volumeClaimTemplates", ())}
    if made:
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in made]
        pod["volumes"] = volumes + [item for item in pod.get("volumes", []) if item.get("name", "") not in made]
    return template
