"""One served version of a custom resource: a row like those in `objects/resources.py`, with its schema compiled.

A row is made from a valid definition and replaced when the definition changes; rows are compared by identity. All
versions share their objects: a document is stored in the current storage version, and shown in the requested version
with another apiVersion and no other change (`shown`).

    row = custom_resource(definition, "v1alpha1")
    findings = row.admit(doc)           nulls, defaults, metadata, pruning; returns unknown fields
    errors = row.validate(doc)          by the schema, embedded resources and list types too
    apply(row.struct, live=…, …)        server-side apply and managed fields follow `struct`

In OpenAPI version 3 it shows its schema unchanged.
Version 2 cannot express `anyOf` and its kin, null, or objects that keep unknown fields, and its clients complain about
fields it does not name; so these parts are left open. Mirrors upstream's openapi builder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from tonnage.clock import Clock
from tonnage.documents.admit import Findings, admit
from tonnage.documents.apply.field_walk import shape_of
from tonnage.documents.custom import definition_rules, pruning, schema_rules
from tonnage.documents.custom.printer_columns import PrinterColumn, printer_columns
from tonnage.documents.custom.structural import EMBEDDED, INT_OR_STRING, PRESERVE, struct_of
from tonnage.documents.custom.validation import ABSENT, Rules, embedded_errors, list_errors
from tonnage.documents.schema import ShapedResource, Struct, schema_of_resource
from tonnage.documents.strategy import Generation, Strategy
from tonnage.documents.subresources import validate_scale_paths
from tonnage.documents.validation.metadata import STANDARD_FINALIZERS
from tonnage.gates import Gates
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, dig, keys_in
from tonnage.objects.field_errors import Errors
from tonnage.objects.resources import Resource

STORE_PREFIX = "custom:"
"""The prefix of custom objects' keys: a definition that names a built-in resource must not reach its objects."""
_LARGE_FIELDS = 2000


@dataclass(frozen=True, eq=False, kw_only=True)
class CustomResource(ShapedResource):
    """A resource that a definition has added."""

    definition: Doc
    of_version: Doc
    """What the definition says about this version."""
    schema: Rules
    struct: Struct
    """The shape of documents for server-side apply and managed fields."""
    api_versions: frozenset[str]
    scale: Doc | None
    is_terminating: bool
    """The definition is being deleted: objects may be deleted, but not created."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @cached_property
    def stored(self) -> Resource:
        version = definition_rules.storage_version(self.definition) or self.version
        return Resource(self.group, version, self.kind, self.plural, self.namespaced)

    @cached_property
    def store_prefix(self) -> str:
        return f"{STORE_PREFIX}{self.qualified}/"

    @cached_property
    def shape_id(self) -> str:
        """The state of the definition it was made from: another state may show the same object differently."""
        return shape_id(self.definition)

    @cached_property
    def deprecation_warning(self) -> str | None:
        """The text of the Warning header for clients of a deprecated version."""
        return definition_rules.deprecation_warning(self.definition["spec"], self.of_version)

    @cached_property
    def selectable_fields(self) -> tuple[str, ...]:
        """Fields that a field selector may name beside metadata.name and metadata.namespace: `spec.colour`."""
        return tuple(each["jsonPath"].removeprefix(".") for each in self.of_version.get("selectableFields") or ())

    @cached_property
    def columns(self) -> tuple[PrinterColumn, ...]:
        """The columns of a table after Name."""
        return printer_columns(self.of_version.get("additionalPrinterColumns") or ())

    @cached_property
    def is_large(self) -> bool:
        """True if the schema has so many fields that defaulting even a small document may take long."""
        return sum(1 for _ in islice(schema_rules.walk_schema(self.schema.source), _LARGE_FIELDS)) == _LARGE_FIELDS

    def shown(self, doc: Doc) -> Doc:
        """A stored document as this version shows it: with the current defaults, pruned by the current schema."""
        rest = {field: value for field, value in doc.items() if field not in ("apiVersion", "kind")}
        shown: Doc = {"apiVersion": self.api_version, "kind": self.kind, **rest}
        self.admit(shown)
        return shown

    def admit(self, doc: Doc) -> Findings:
        """Default and prune a client's document in place, and return its unknown fields. Raises Malformed."""
        keys = keys_in(doc)
        self.default(doc)
        findings = pruning.prune(self.schema, doc)
        findings.keys = keys
        return findings

    def default(self, doc: Doc) -> None:
        """Fill in defaults, for stored objects too: the definition may have gained defaults since."""
        pruning.fill_defaults(self.schema, doc)

    def validate(self, doc: Doc) -> Errors:
        """The errors of a new document, except of metadata (the create verb has validated it)."""
        return self.schema.errors(doc) + embedded_errors(self.schema, doc, "") + list_errors(self.schema, doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        """The errors of a change; an error that was there before in an unchanged value is allowed."""
        return self.schema.errors(new, old) + embedded_errors(self.schema, new, "") + self._new_list_errors(new, old)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        """The errors of a change through the status subresource: of status alone, with paths under `status`."""
        errors, rules = self._new_list_errors(new, old), self.schema.properties.get("status")
        if "status" in new and rules is not None:
            return rules.errors(new["status"], old.get("status", ABSENT), "status") + errors
        return errors

    def _new_list_errors(self, new: Doc, old: Doc) -> Errors:
        return [] if list_errors(self.schema, old) else list_errors(self.schema, new)

    def openapi_definition(self, *, is_v3: bool) -> Doc:
        schema = self.schema.source
        if not schema or (not is_v3 and schema.get(PRESERVE)):
            # kubectl would refuse every field that is not named, so none is.
            made: Doc = {"type": "object"}
        else:
            made = _unfolded(schema) if is_v3 else _as_v2(_unfolded(schema))
            made.setdefault("properties", {})
            _add_embedded(made, is_v3)
            made["properties"] = {**made["properties"], **_meta_properties(is_v3)}
        head = {"group": self.group, "version": self.version, "kind": self.kind}
        made["x-kubernetes-group-version-kind"] = [head]
        if is_v3 and self.selectable_fields:
            made["x-kubernetes-selectable-fields"] = [{"fieldPath": field} for field in self.selectable_fields]
        return made


def admit_as(resource: Resource, doc: Doc) -> Findings:
    """Check and canonicalise a client's document in place, built-in or custom. Raises Malformed."""
    if isinstance(resource, CustomResource):
        return resource.admit(doc)
    return admit(schema_of_resource(resource), doc)


def custom_resources(definition: Doc) -> dict[str, CustomResource]:
    """The served versions of a definition, by version name, under the accepted names."""
    status = definition.get("status") or {}
    accepted = {name: value for name, value in (status.get("acceptedNames") or {}).items() if value}
    spec = {**definition["spec"], "names": {**definition["spec"]["names"], **accepted}}
    definition = {**definition, "spec": spec}
    served = [version["name"] for version in spec["versions"] if version.get("served")]
    return {version: custom_resource(definition, version) for version in served}


def custom_resource(definition: Doc, version: str) -> CustomResource:
    """One version of a definition. Raises KeyError if there is none."""
    spec, names = definition["spec"], definition["spec"]["names"]
    found: Doc = {each["name"]: each for each in spec["versions"]}[version]
    schema = Rules(dig(found, "schema", "openAPIV3Schema") or {})
    struct = struct_of(schema, spec["group"], version, names["kind"])
    shape_of(struct)  # now, before several threads use it
    subresources: Doc = found.get("subresources") or {}
    return CustomResource(
        spec["group"],
        version,
        names["kind"],
        names["plural"],
        spec["scope"] == "Namespaced",
        tuple(names.get("shortNames") or ()),
        tuple(names.get("categories") or ()),
        tuple(name for name in ("status", "scale") if subresources.get(name) is not None),
        singular_name=names.get("singular") or "",
        list_kind_name=names.get("listKind") or "",
        definition=definition,
        of_version=found,
        schema=schema,
        struct=struct,
        api_versions=frozenset(f"{spec['group']}/{each['name']}" for each in spec["versions"]),
        scale=subresources.get("scale"),
        is_terminating="deletionTimestamp" in definition["metadata"],
    )


def shape_id(definition: Doc) -> str:
    """Names the state of a definition that its resources depend on. Conditions and labels do not belong to it."""
    metadata = definition["metadata"]
    names = dig(definition, "status", "acceptedNames") or {}
    told = "/".join(f"{name}={names[name]}" for name in sorted(names))
    return f"{metadata['name']}/{metadata['uid']}/{metadata.get('generation', 0)}/{told}"


class CustomResourceStrategy(Strategy):
    """The strategy of one row; a new row gets a new one."""

    generation = Generation.COUNTED
    unconditional_update = False
    are_finalizers_qualified = False

    def __init__(self, resource: CustomResource, gates: Gates, clock: Clock | None = None) -> None:
        super().__init__(resource, gates, clock)
        self._custom = resource

    def default(self, doc: Doc) -> None:
        self._custom.default(doc)

    def validate(self, doc: Doc) -> Errors:
        return self._custom.validate(doc) + validate_scale_paths(doc, self._custom.scale)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return self._custom.validate_update(new, old) + validate_scale_paths(new, self._custom.scale)

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        """Every change outside metadata counts. With a status subresource, status is still the old one here."""
        return _without_metadata(new) != _without_metadata(old)

    def prepare_status(self, new: Doc, old: Doc) -> None:
        """Everything but status stays as it was, metadata too, except managedFields."""
        kept: Doc = {field: copy(value) for field, value in old.items() if field != "status"}
        kept["metadata"].pop("managedFields", None)
        if "managedFields" in new["metadata"]:
            kept["metadata"]["managedFields"] = new["metadata"]["managedFields"]
        if "status" in new:
            kept["status"] = new["status"]
        new.clear()
        new.update(kept)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        errors = self._custom.validate_status(new, old)
        return errors + validate_scale_paths(new, self._custom.scale, status_only=True)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        """Warnings about new finalizers without a qualified name."""
        known = set(old["metadata"].get("finalizers", ())) if old is not None else set()
        told: list[str] = []
        for finalizer in sorted(set(new["metadata"].get("finalizers", ())) - known):
            told += [f'metadata.finalizers: "{finalizer}": {wrong}' for wrong in names.qualified_name(finalizer)]
            if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
                path = " including a path (/)" if "." in finalizer else ""
                told.append(
                    f'metadata.finalizers: "{finalizer}": prefer a domain-qualified finalizer name{path} to avoid '
                    "accidental conflicts with other finalizer writers"
                )
        return told


def _without_metadata(doc: Doc) -> Doc:
    return {field: value for field, value in doc.items() if field not in ("apiVersion", "kind", "metadata")}


_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_V2_REFS, _V3_REFS = "#/definitions/", "#/components/schemas/"
_LAST = ("properties", "items", "additionalProperties")
_COMBINING = ("allOf", "anyOf", "oneOf", "not")
_ABOUT = {
    "apiVersion": "APIVersion defines group and version of this object's schema, such as storage.k8s.io/v1.",
    "kind": "Kind is the name of what this object is.",
    "metadata": "Standard object's metadata: name, labels, owners and what the server keeps about every object.",
}


def _meta_properties(is_v3: bool) -> dict[str, Doc]:
    ref = {"$ref": f"{_V3_REFS if is_v3 else _V2_REFS}{_META}.ObjectMeta"}
    return {
        "apiVersion": {"type": "string", "description": _ABOUT["apiVersion"]},
        "kind": {"type": "string", "description": _ABOUT["kind"]},
        # In version 3 a reference may have no neighbours, so it stands in `allOf`.
        "metadata": {"description": _ABOUT["metadata"], **({"allOf": [ref]} if is_v3 else ref)},
    }


def _each_below(schema: Doc, change: Any) -> Doc:
    """A copy of a schema with `change` applied to its properties, items and additionalProperties."""
    made: Doc = {}
    for word in sorted(schema, key=lambda word: _LAST.index(word) if word in _LAST else -1):
        if word == "properties":
            made[word] = {name: change(below) for name, below in schema[word].items()}
        else:
            is_schema = word in _LAST and isinstance(schema[word], dict)
            made[word] = change(schema[word]) if is_schema else copy(schema[word])
    return made


def _unfolded(schema: Doc) -> Doc:
    """The schema with `x-kubernetes-int-or-string` spelled out, for clients that do not know the word."""
    made = _each_below(schema, _unfolded)
    if made.get("x-kubernetes-int-or-string"):
        first = (made.get("allOf") or [{}])[0]
        if made.get("anyOf") != INT_OR_STRING and first.get("anyOf") != INT_OR_STRING:
            if "anyOf" not in made:
                made["anyOf"] = copy(INT_OR_STRING)
            else:
                made["allOf"] = [{"anyOf": copy(INT_OR_STRING)}, *made.get("allOf", [])]
    return made


def _as_v2(schema: Doc) -> Doc:
    """The schema without what version 2 cannot express, so that kubectl refuses nothing that the server takes."""
    nullable = [name for name, below in (schema.get("properties") or {}).items() if below.get("nullable")]
    made = {word: said for word, said in schema.items() if word not in _COMBINING}
    if isinstance(made.get("required"), list):
        made["required"] = [name for name in made["required"] if name not in nullable]
    additional = made.get("additionalProperties")
    if not made.get("required") or (isinstance(additional, dict) and additional.get("nullable")):
        made.pop("required", None)
    if made.pop("nullable", False):
        for word in ("type", "items", "properties"):
            made.pop(word, None)
    if made.get(PRESERVE):
        for word in ("items", "properties"):
            made.pop(word, None)
        if made.get("type") == "object":
            del made["type"]
    if made.get("type") == "array" and "items" not in made:
        del made["type"]
    if made.get("additionalProperties") is True:  # the default
        del made["additionalProperties"]
    return _each_below(made, _as_v2)


def _add_embedded(schema: Doc, is_v3: bool) -> None:
    """Give every embedded resource, in place, the fields that all resources have."""
    below = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for each in below:
        if isinstance(each, dict):
            _add_embedded(each, is_v3)
    if not schema.get(EMBEDDED) or (schema.get(PRESERVE) and not is_v3):
        return
    schema["properties"] = {**schema.get("properties", {}), **_meta_properties(is_v3)}
    needed = schema.get("required", [])
    schema["required"] = [*needed, *(name for name in ("kind", "apiVersion") if name not in needed)]
