"""The rules of PodTemplate: those of the template of a workload, without a workload."""

from __future__ import annotations

from tonnage.documents.defaults.pod import default_pod_template
from tonnage.documents.strategies.base import Generation, Strategy
from tonnage.documents.strategies.pod import drop_disabled_pod_fields
from tonnage.documents.validation.pods.pod import validate_pod_template
from tonnage.documents.validation.pods.pod_warnings import spec_warnings
from tonnage.objects.document import Doc, same
from tonnage.objects.field_errors import Errors


class PodTemplateStrategy(Strategy):
    generation = Generation.COUNTED

    def default(self, doc: Doc) -> None:
        default_pod_template(doc.setdefault("template", {}))

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        drop_disabled_pod_fields(new["template"]["spec"])

    def validate(self, doc: Doc) -> Errors:
        return validate_pod_template(doc["template"], "template")

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        return not same(new.get("template"), old.get("template"))

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        if old is not None and not self.spec_changed(new, old):
            return []
        return spec_warnings(new["template"]["spec"], "template.spec")
