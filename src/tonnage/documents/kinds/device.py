"""The resource.k8s.io kinds, lightly: enough for a scheduler that lists and watches them, and for claims to be stored.

Defaults and what may never change are upstream's; selectors, configuration and the contents of slices are not judged.
"""

from __future__ import annotations

from tonnage.documents.strategy import Generation, Strategy, keep
from tonnage.documents.validation.metadata import immutable
from tonnage.objects.document import Doc, dig
from tonnage.objects.field_errors import Errors, required


class DeviceClassStrategy(Strategy):
    generation = Generation.COUNTED

    def default(self, doc: Doc) -> None:
        doc.setdefault("spec", {})


class ResourceClaimStrategy(Strategy):
    """What a claim asks for is settled at creation; allocation and users are its status."""

    def default(self, doc: Doc) -> None:
        _default_requests(doc.setdefault("spec", {}))

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {}

    def validate(self, doc: Doc) -> Errors:
        return _validate_requests(doc["spec"], "spec")

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return immutable("spec", new["spec"], old["spec"])

    def prepare_status(self, new: Doc, old: Doc) -> None:
        """Not even metadata is written here."""
        super().prepare_status(new, old)
        keep(new, old, "metadata")


class ResourceClaimTemplateStrategy(Strategy):
    def default(self, doc: Doc) -> None:
        spec = doc.setdefault("spec", {})
        spec.setdefault("metadata", {})
        _default_requests(spec.setdefault("spec", {}))

    def validate(self, doc: Doc) -> Errors:
        return _validate_requests(doc["spec"]["spec"], "spec.spec")

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return immutable("spec", new["spec"], old["spec"])


class ResourceSliceStrategy(Strategy):
    generation = Generation.COUNTED

    def validate(self, doc: Doc) -> Errors:
        spec = doc.get("spec", {})
        errors = [] if spec.get("driver") else [required("spec.driver")]
        return errors if spec.get("pool", {}).get("name") else [*errors, required("spec.pool.name")]

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        """Driver, pool and node say whose devices these are; the devices themselves come and go."""
        errors = self.validate(new)
        for field in ("driver", "nodeName"):
            errors += immutable(f"spec.{field}", dig(new, "spec", field), dig(old, "spec", field))
        names = (dig(each, "spec", "pool", "name") for each in (new, old))
        return errors + immutable("spec.pool.name", *names)


def _default_requests(spec: Doc) -> None:
    for request in spec.get("devices", {}).get("requests", ()):
        asked = [request["exactly"]] if "exactly" in request else request.get("firstAvailable", [])
        for device in asked:
            if not device.get("allocationMode"):
                device["allocationMode"] = "ExactCount"
            if device["allocationMode"] == "ExactCount" and not device.get("count"):
                device["count"] = 1


def _validate_requests(spec: Doc, path: str) -> Errors:
    errors: Errors = []
    for idx, request in enumerate(spec.get("devices", {}).get("requests", ())):
        at = f"{path}.devices.requests[{idx}]"
        if not request.get("name"):
            errors.append(required(f"{at}.name"))
        if "exactly" in request and not request["exactly"].get("deviceClassName"):
            errors.append(required(f"{at}.exactly.deviceClassName"))
    return errors
