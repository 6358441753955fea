"""One served version of a custom resource, as a row like those of the table of resources.

Rows of `objects/resources.py` are the same for as long as a server runs; these are made of a definition and replaced
when it changes. They are told apart by identity, so that nothing that was found out about one is taken to be true of
its successor. All versions of a resource share their objects: a document is stored in the storage version of the day,
and shown in the version that is asked for, with another apiVersion and nothing else changed (`shown`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tonnage.documents.admit import Findings, admit
from tonnage.documents.apply.field_walk import shape_of
from tonnage.documents.custom.custom_kind import CustomKind
from tonnage.documents.schema import ShapedResource, Struct, schema_of_resource
from tonnage.objects.document import Doc, dig
from tonnage.objects.resources import Resource

STORE_PREFIX = "custom:"
"""What keys of custom objects begin with: a definition may name a resource that the table has, and must not get at
its objects."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CustomResource(ShapedResource):
    """A row of the table that a definition has added."""

    custom: CustomKind
    storage_version: str
    api_versions: frozenset[str]
    """apiVersions of the definition, served or not: owners of fields in these are known."""
    shape_id: str
    """Which state of which definition it was made of: another one may show the same object otherwise."""
    is_terminating: bool = False
    """The definition is being deleted: objects may go, and none may come."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def struct(self) -> Struct:
        return self.custom.struct

    @cached_property
    def stored(self) -> Resource:
        return Resource(self.group, self.storage_version, self.kind, self.plural, self.namespaced)

    @cached_property
    def store_prefix(self) -> str:
        return f"{STORE_PREFIX}{self.qualified}/"

    def shown(self, doc: Doc) -> Doc:
        """A stored document as this version shows it: with today's defaults, without what today's schema drops."""
        rest = {field: value for field, value in doc.items() if field not in ("apiVersion", "kind")}
        shown: Doc = {"apiVersion": self.api_version, "kind": self.kind, **rest}
        self.custom.admit(shown)
        return shown


def admit_as(resource: Resource, doc: Doc) -> Findings:
    """Check and canonicalise a client's document in place, whoever says what its kind looks like. Raises Malformed."""
    if isinstance(resource, CustomResource):
        return resource.custom.admit(doc)
    return admit(schema_of_resource(resource), doc)


def custom_resources(definition: Doc) -> dict[str, CustomResource]:
    """The served versions of a definition whose names are accepted, by name, under the names that it has."""
    status = definition.get("status") or {}
    accepted = {name: value for name, value in (status.get("acceptedNames") or {}).items() if value}
    spec = {**definition["spec"], "names": {**definition["spec"]["names"], **accepted}}
    definition = {**definition, "spec": spec}
    versions: list[Doc] = spec["versions"]
    storage = next(each["name"] for each in versions if each.get("storage"))
    api_versions = frozenset(f"{spec['group']}/{each['name']}" for each in versions)
    made: dict[str, CustomResource] = {}
    for version in versions:
        if not version.get("served"):
            continue
        kind = CustomKind(definition, version["name"])
        row = kind.resource
        made[row.version] = CustomResource(
            row.group,
            row.version,
            row.kind,
            row.plural,
            row.namespaced,
            row.short_names,
            row.categories,
            row.subresources,
            singular_name=kind.singular,
            list_kind_name=kind.list_kind,
            custom=kind,
            storage_version=storage,
            api_versions=api_versions,
            shape_id=shape_id(definition),
            is_terminating="deletionTimestamp" in definition["metadata"],
        )
        shape_of(kind.struct)  # now, before threads walk by it
    return made


def shape_id(definition: Doc) -> str:
    """Names the state of a definition that its resources follow from. Conditions and labels are no part of it."""
    metadata = definition["metadata"]
    names = dig(definition, "status", "acceptedNames") or {}
    told = "/".join(f"{name}={names[name]}" for name in sorted(names))
    return f"{metadata['name']}/{metadata['uid']}/{metadata.get('generation', 0)}/{told}"
