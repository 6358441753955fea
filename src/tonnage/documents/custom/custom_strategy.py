"""The rules that custom resources have in common; what a document may hold, its definition says."""

from __future__ import annotations

from tonnage.clock import Clock
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.scale import validate_scale_paths
from tonnage.documents.strategy import Generation, Strategy
from tonnage.gates import Gates
from tonnage.objects import names
from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import Errors

_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


class CustomResourceStrategy(Strategy):
    """Made for one row, and as short-lived as that is."""

    generation = Generation.COUNTED
    unconditional_update = False
    are_finalizers_qualified = False

    def __init__(self, resource: CustomResource, gates: Gates, clock: Clock | None = None) -> None:
        super().__init__(resource, gates, clock)
        self._kind = resource.custom

    def default(self, doc: Doc) -> None:
        self._kind.default(doc)

    def validate(self, doc: Doc) -> Errors:
        return self._kind.validate(doc) + validate_scale_paths(doc, self._kind.scale)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return self._kind.validate_update(new, old) + validate_scale_paths(new, self._kind.scale)

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        """Whatever changes counts, but for metadata; status is the old one here if it has an endpoint of its own."""
        return _without_metadata(new) != _without_metadata(old)

    def prepare_status(self, new: Doc, old: Doc) -> None:
        """Everything but status stays as it was, metadata too; managedFields tell of this write."""
        kept: Doc = {field: copy(value) for field, value in old.items() if field != "status"}
        kept["metadata"].pop("managedFields", None)
        if "managedFields" in new["metadata"]:
            kept["metadata"]["managedFields"] = new["metadata"]["managedFields"]
        if "status" in new:
            kept["status"] = new["status"]
        new.clear()
        new.update(kept)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        errors = self._kind.validate_status(new, old)
        return errors + validate_scale_paths(new, self._kind.scale, status_only=True)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        """About finalizers that came just now and are not named as they should be."""
        known = set(old["metadata"].get("finalizers", ())) if old is not None else set()
        told: list[str] = []
        for finalizer in sorted(set(new["metadata"].get("finalizers", ())) - known):
            told += [f'metadata.finalizers: "{finalizer}": {wrong}' for wrong in names.qualified_name(finalizer)]
            if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
                path = " including a path (/)" if "." in finalizer else ""
                told.append(
                    f'metadata.finalizers: "{finalizer}": prefer a domain-qualified finalizer name{path} to avoid '
                    "accidental conflicts with other finalizer writers"
                )
        return told


def _without_metadata(doc: Doc) -> Doc:
    return {field: value for field, value in doc.items() if field not in ("apiVersion", "kind", "metadata")}
