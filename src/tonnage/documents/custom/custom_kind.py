"""One version of a custom resource, compiled: all that a server asks about documents of that kind.

    kind = CustomKind(definition, "v1alpha1")
    findings = kind.admit(doc)          nulls, defaults, metadata, pruning; what was unknown
    errors = kind.validate(doc)         by the schema, embedded resources and list types too
    apply(kind.struct, live=…, …)       server-side apply and managed fields follow `struct`

Made of a definition that `definition.validate_definition` found nothing wrong with. It never changes: an updated
definition gets new ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import islice
from typing import Any

from tonnage.documents.admit import Findings
from tonnage.documents.custom.defaulting import drop_nulls, fill_defaults
from tonnage.documents.custom.merging import struct_of
from tonnage.documents.custom.openapi import kind_definition
from tonnage.documents.custom.printer_columns import PrinterColumn, printer_columns
from tonnage.documents.custom.pruning import keys_in, prune
from tonnage.documents.custom.structural import Structural, compile_schema, walk
from tonnage.documents.custom.validation import validate, validate_status, validate_update
from tonnage.documents.custom.value_rules import Rules
from tonnage.documents.custom.version_order import deprecation_warning
from tonnage.documents.schema import Struct
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors
from tonnage.objects.resources import Resource

_LARGE_FIELDS = 2000


class CustomKind:
    """A served version of a definition."""

    def __init__(self, definition: Doc, version: str) -> None:
        """KeyError when the definition has no such version."""
        spec = definition["spec"]
        found = next((each for each in spec["versions"] if each["name"] == version), None)
        if found is None:
            raise KeyError(version)
        self._version: Doc = found
        names: Doc = spec["names"]
        subresources: Doc = found.get("subresources") or {}
        self.schema: Structural = compile_schema((found.get("schema") or {}).get("openAPIV3Schema"))
        self.is_served = bool(found.get("served"))
        self.is_stored = bool(found.get("storage"))
        self.has_status = "status" in subresources
        self.scale: Doc | None = subresources.get("scale")
        """specReplicasPath, statusReplicasPath and perhaps labelSelectorPath; None without a scale subresource."""
        self.singular: str = names.get("singular") or names["kind"].lower()
        self.list_kind: str = names.get("listKind") or f"{names['kind']}List"
        self.resource = Resource(
            spec["group"],
            version,
            names["kind"],
            names["plural"],
            spec["scope"] == "Namespaced",
            tuple(names.get("shortNames") or ()),
            tuple(names.get("categories") or ()),
            (("status",) if self.has_status else ()) + (("scale",) if self.scale is not None else ()),
        )
        """The row this kind would have in the table of resources. Its singular and list kind are the two above."""
        self.deprecation_warning: str | None = deprecation_warning(spec, found)
        """What a client of a deprecated version is told in a Warning header."""
        self.selectable_fields: tuple[str, ...] = tuple(
            each["jsonPath"].removeprefix(".") for each in found.get("selectableFields") or ()
        )
        """Fields that a field selector may name beside metadata.name and metadata.namespace: `spec.colour`."""

    @cached_property
    def is_large(self) -> bool:
        """Has the schema so many fields that to fill in their defaults may take long, however small a document is?"""
        return sum(1 for _ in islice(walk(self.schema), _LARGE_FIELDS)) == _LARGE_FIELDS

    @cached_property
    def struct(self) -> Struct:
        """The shape of documents for server-side apply and managed fields."""
        return struct_of(self.schema, group=self.resource.group, version=self.resource.version, kind=self.resource.kind)

    @cached_property
    def _rules(self) -> Rules:
        return Rules(self.schema.source)

    @cached_property
    def _status_rules(self) -> Rules:
        status = self.schema.properties.get("status")
        return Rules(status.source if status is not None else {})

    def admit(self, doc: Doc) -> Findings:
        """Make of a client's document, in place, what the rules can trust, and tell which fields were unknown.

        Takes the place of `documents.admit.admit`. Raises Malformed for metadata that cannot be read.
        """
        keys = keys_in(doc)
        self.default(doc)
        findings = prune(self.schema, doc)
        findings.keys = keys
        return findings

    def default(self, doc: Doc) -> None:
        """Fill in defaults, of stored objects as well as of new ones: a definition may have got them since."""
        drop_nulls(self.schema, doc)
        fill_defaults(self.schema, doc)

    def validate(self, doc: Doc) -> Errors:
        """Everything wrong with a new document, metadata apart (the create verb has judged that)."""
        return validate(self.schema, doc, self._rules)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        """Everything wrong with a change; what was wrong before and did not change may stay so."""
        return validate_update(self.schema, new, old, self._rules)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        """Everything wrong with a change through the status subresource: of status, and of nothing else."""
        return validate_status(self.schema, new, old, self._status_rules)

    @cached_property
    def columns(self) -> tuple[PrinterColumn, ...]:
        """The columns of a table after Name."""
        return printer_columns(self._version.get("additionalPrinterColumns") or ())

    def openapi_definition(self, *, is_v3: bool) -> Doc:
        """What OpenAPI says about the kind. It refers to ObjectMeta of meta/v1."""
        return kind_definition(
            self.schema.source,
            group=self.resource.group,
            version=self.resource.version,
            kind=self.resource.kind,
            selectable_fields=self.selectable_fields,
            is_v3=is_v3,
        )

    def column_definitions(self) -> list[Doc]:
        """TableColumnDefinitions after Name, in upstream's form."""
        return [column.definition() for column in self.columns]

    def cells(self, doc: Doc, age: Callable[[str], str]) -> list[Any]:
        """What stands in those columns for a document, None where it has nothing. `age` words an RFC 3339 time."""
        return [column.cell(doc, age) for column in self.columns]


def custom_kinds(definition: Doc) -> dict[str, CustomKind]:
    """Every served version of a definition, by name."""
    return {
        each["name"]: CustomKind(definition, each["name"]) for each in definition["spec"]["versions"] if each["served"]
    }
