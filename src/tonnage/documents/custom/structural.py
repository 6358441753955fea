"""A structural schema, compiled: the tree that pruning, defaulting, validation and merging follow.

A schema of apiextensions.k8s.io/v1 says the type of every value outside `allOf`, `anyOf`, `oneOf` and `not`; that is
what makes it structural, and what lets a server know of each field whether it is known. `compile_schema` reads one
that was found to be structural (`structural_rules`). What concerns single values only (bounds, patterns, choices)
stays in `source` and is compiled by `validation`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tonnage.objects.document import Doc, encode

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
"""What every object has, whatever its schema says."""


_MAX_STEP_CHARS = 256


def step(name: str) -> str:
    """A name as it stands in paths. It may be megabytes long, and a hundred thousand fields may lie below it."""
    return name if len(name) <= _MAX_STEP_CHARS else f"{name[:_MAX_STEP_CHARS]}..."


@dataclass(frozen=True, slots=True, eq=False)
class Structural:
    """One value: what it may hold, and whether what is not said about it is kept."""

    type: str = ""
    nullable: bool = False
    default: Any = None
    """None: there is none, as with a default of null."""
    default_bytes: int = 0
    """The size of the default as JSON."""
    properties: dict[str, Structural] = field(default_factory=dict, repr=False)
    additional: Structural | None = None
    """The values of names that are not in `properties`."""
    has_additional: bool = False
    """`additionalProperties` is there; without a schema (`true`) names are kept and nothing that lies below them."""
    items: Structural | None = None
    preserves_unknown: bool = False
    is_embedded: bool = False
    is_int_or_string: bool = False
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    source: Doc = field(default_factory=dict, repr=False)

    def field(self, name: str) -> Structural | None:
        """The schema of what lies under a name, None when nothing is said about it."""
        return self.properties.get(name, self.additional)


def compile_schema(schema: Doc | None) -> Structural:
    """The tree of one `openAPIV3Schema`. A definition without one says nothing: everything is unknown."""
    schema = schema or {}
    additional = schema.get("additionalProperties")
    items = schema.get("items")
    return Structural(
        type=schema.get("type", ""),
        nullable=bool(schema.get("nullable")),
        default=schema.get("default"),
        default_bytes=len(encode(schema["default"])) if schema.get("default") is not None else 0,
        properties={name: compile_schema(below) for name, below in (schema.get("properties") or {}).items()},
        additional=compile_schema(additional) if isinstance(additional, dict) else None,
        has_additional=isinstance(additional, dict) or additional is True,
        items=compile_schema(items) if isinstance(items, dict) else None,
        preserves_unknown=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        is_embedded=bool(schema.get("x-kubernetes-embedded-resource")),
        is_int_or_string=bool(schema.get("x-kubernetes-int-or-string")),
        list_type=schema.get("x-kubernetes-list-type") or "",
        list_map_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        map_type=schema.get("x-kubernetes-map-type") or "",
        source=schema,
    )


def walk(node: Structural) -> Iterator[Structural]:
    """A node and every node below it."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending += node.properties.values()
        pending += [below for below in (node.items, node.additional) if below is not None]
