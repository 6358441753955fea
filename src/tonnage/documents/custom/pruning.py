"""Pruning and defaulting: unknown fields are dropped, and defaults are filled in at every level.

`x-kubernetes-preserve-unknown-fields` keeps unknown fields from there on down, but not below fields that the schema
names again. apiVersion, kind and metadata of a resource, also an embedded one, are known without being in the schema;
metadata has the schema of all kinds. Mirrors pruning.Prune and objectmeta.Coerce.

A null that the schema does not allow becomes the default, or the field is dropped. Inside lists such a null stays for
validation to refuse, unless the items have a default. An object is defaulted before its fields, so a default object
gets the defaults of its fields. Mirrors defaulting.Default and PruneNonNullableNullsWithoutDefaults.
"""

from __future__ import annotations

from typing import Any

from tonnage.documents.admit import ROOT, Findings, Malformed, Path, compile_check
from tonnage.documents.custom.structural import META_FIELDS, Structural, described
from tonnage.documents.schema import schema_of
from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import go_value


def prune(schema: Structural, doc: Doc) -> Findings:
    """Drop unknown fields, in place, and bring metadata into canonical form. Raises Malformed for bad metadata."""
    findings = Findings()
    _admit_meta(doc, ROOT, findings)
    _coerce(schema, doc, ROOT, findings)
    _prune(schema, doc, ROOT, findings, keeps=schema.preserves_unknown, is_resource=True)
    return findings


def prune_value(schema: Structural, value: Any) -> None:
    """Drop unknown fields from one value, such as a default, in place."""
    _prune(schema, value, ROOT, Findings(), keeps=schema.preserves_unknown)


def coerce_value(schema: Structural, value: Any) -> None:
    """Bring metadata of resources within one value into canonical form, in place. Raises Malformed."""
    _coerce(schema, value, ROOT, Findings())


def _prune(
    schema: Structural | None, value: Any, path: Path, findings: Findings, *, keeps: bool, is_resource: bool = False
) -> None:
    """`keeps`: unknown fields of this value stay. Below a named field, that field's own schema decides."""
    if isinstance(value, dict):
        is_resource = is_resource or (schema is not None and schema.is_embedded)
        unknown: list[str] = []
        for name, item in value.items():
            if is_resource and name in META_FIELDS:
                continue
            if schema is None or not (name in schema.declared or schema.has_additional):
                unknown.append(name)
            elif isinstance(item, (dict, list)):
                below = schema.field(name)
                keeps_below = below is not None and below.preserves_unknown
                _prune(below, item, Path((path, name)), findings, keeps=keeps_below)
        for name in unknown if not keeps else ():
            findings.unknown_paths.append(Path((path, name)))
            del value[name]
    elif isinstance(value, list):
        items = schema.items if schema is not None else None
        if keeps and items is None:
            return
        # If a list keeps unknown fields, so do its items, even where the schema describes them.
        keeps_items = keeps or (items is not None and items.preserves_unknown)
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                _prune(items, item, Path((path, index)), findings, keeps=keeps_items)


# -- metadata ---------------------------------------------------------------------------------------------------------


def _admit_meta(doc: Doc, path: Path, findings: Findings) -> None:
    """Bring one resource's metadata into canonical form, as for every other kind."""
    if "metadata" not in doc:
        return
    if doc["metadata"] is None:
        del doc["metadata"]
        return
    seen, where = Findings(), Path((path, "metadata"))
    try:
        doc["metadata"] = compile_check(schema_of("meta", "v1", "ObjectMeta"))(
            doc["metadata"], where, "ObjectMeta", seen
        )
    except Malformed as exc:
        # Upstream decodes metadata by itself: the paths in its errors start there.
        told = exc.message.replace(f"ObjectMeta.{where.fields()}.", "ObjectMeta.")
        told = told.replace(f"Go struct field ObjectMeta.{where.fields()} of", "Go value of")
        if path != ROOT:
            told = f"{where.text()}: Invalid value: {go_value(doc['metadata'])}: {told}"
        raise Malformed(told) from exc
    findings.unknown_paths += seen.unknown_paths


def _coerce(schema: Structural | None, value: Any, path: Path, findings: Findings) -> None:
    """Canonicalise the metadata of every embedded resource; apiVersion and kind there are text."""
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.is_embedded:
            for name in ("apiVersion", "kind"):
                if name in value and not isinstance(value[name], str):
                    where = Path((path, name)).text()
                    raise Malformed(f"{where}: Invalid value: {go_value(value[name])}: must be a string")
            _admit_meta(value, path, findings)
        for name, item in value.items():
            if isinstance(item, (dict, list)):
                _coerce(schema.field(name), item, Path((path, name)), findings)
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            _coerce(schema.items, item, Path((path, index)), findings)


MAX_DEFAULT_BYTES = 3 * 1024 * 1024
"""How many bytes defaults may add to one document. It is more than an object may have, so a new object that reaches it
is refused (`documents/creation.py`). Without it, two bytes of an empty item could become a default of a megabyte, a
hundred thousand times.
"""


def fill_defaults(schema: Structural, value: Any) -> None:
    """Replace absent fields and nulls by their defaults, in place, up to `MAX_DEFAULT_BYTES`. Other nulls go."""
    left_bytes = MAX_DEFAULT_BYTES

    def default_of(schema: Structural) -> Any:
        """A copy of the default, null without one and once the bytes are used up."""
        nonlocal left_bytes
        left_bytes -= schema.default_bytes
        return copy(schema.default) if left_bytes >= 0 else None

    for node, found, _ in described(schema, value, ""):
        if isinstance(found, list):
            if (items := node.items) is not None:
                found[:] = [default_of(items) if _is_no_value(item, items) else item for item in found]
            continue
        for name in (*found, *(name for name in node.properties if name not in found)):
            below = node.field(name)
            if below is not None and (name not in found or _is_no_value(found[name], below)):
                if (made := default_of(below)) is not None:
                    found[name] = made
                else:
                    found.pop(name, None)


def _is_no_value(value: Any, schema: Structural) -> bool:
    return value is None and not schema.nullable
