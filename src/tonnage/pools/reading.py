"""Reads documents of other programs with care: amounts, names, owners, and when something was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from tonnage.objects.document import Doc, dig
from tonnage.objects.storage_v1 import StorageClass
from tonnage.quantity import InvalidQuantity, Quantity


def bytes_of(told: Any) -> int | None:
    """A number of bytes from a quantity or a plain number, rounded down; None if it is neither, or negative."""
    if isinstance(told, bool) or not isinstance(told, str | int | float) or told == "":
        return None
    try:
        quantity = Quantity.of(told)
    except (InvalidQuantity, ValueError):
        return None
    whole = quantity.value()
    if Quantity.from_bytes(whole) > quantity:
        whole -= 1
    return whole if whole >= 0 else None


def number_of(told: Any) -> int:
    return told if isinstance(told, int) and not isinstance(told, bool) else 0


def copies_of(told: Any) -> int | None:
    """A class's number of replicas; None if it is not a positive number."""
    text = text_of(told)
    return int(text) if text.isdecimal() and 0 < int(text) < 100 else None


def text_of(told: Any) -> str:
    return told if isinstance(told, str) else ""


def records(doc: Doc, name: str) -> Iterator[Mapping[str, Any]]:
    found = doc.get(name)
    return (each for each in (found if isinstance(found, list) else ()) if isinstance(each, dict))


def name_of(doc: Doc) -> str:
    return text_of(dig(doc, "metadata", "name"))


def labels_of(doc: Doc) -> dict[str, str]:
    return _texts(dig(doc, "metadata", "labels"))


def annotations_of(doc: Doc) -> dict[str, str]:
    return _texts(dig(doc, "metadata", "annotations"))


def node_of(doc: Doc) -> str:
    """The Node that an object is about: its owner, else the node of the same name."""
    owners = dig(doc, "metadata", "ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and owner.get("kind") == "Node" and text_of(owner.get("name")):
            return text_of(owner["name"])
    return name_of(doc)


def newest_by_node(
    objects: Iterable[Doc], problems: list[str], names: Mapping[str, str] | None = None
) -> dict[str, Doc]:
    """The newest object of every node. `names`: node by name, for objects without an owner."""
    found: dict[str, Doc] = {}
    for doc in objects:
        node = node_of(doc)
        if names and node == name_of(doc):
            node = names.get(node, node)
        if not node:
            continue
        other = found.get(node)
        if other is not None:
            problems.append(f"there are several objects for node {node}; the one written last is read")
        if other is None or _order(doc) > _order(other):
            found[node] = doc
    return found


def _order(doc: Doc) -> tuple[float, int]:
    at, version = written_at(doc), text_of(dig(doc, "metadata", "resourceVersion"))
    return (at.timestamp() if at is not None else 0.0, int(version) if version.isdecimal() and len(version) < 20 else 0)


def parameters_of(storage_class: StorageClass) -> dict[str, str]:
    """A class's parameters by lower-case key, as OpenEBS drivers read them."""
    return {key.lower(): value for key, value in storage_class.parameters.items()}


def written_at(doc: Doc) -> datetime | None:
    """When an object was last written, by managedFields; else when it was created."""
    times = [at for manager in _managers(doc) if (at := _time(manager.get("time"))) is not None]
    return max(times, default=_time(dig(doc, "metadata", "creationTimestamp")))


def field_written_at(doc: Doc, *path: str) -> datetime | None:
    """When a field was last written, by managedFields, else None: a Node as a whole is written every few seconds."""
    steps = [f"f:{step}" for step in path]
    owners = [manager for manager in _managers(doc) if dig(dict(manager), "fieldsV1", *steps) is not None]
    return max((at for owner in owners if (at := _time(owner.get("time"))) is not None), default=None)


def _managers(doc: Doc) -> Iterator[Mapping[str, Any]]:
    metadata = doc.get("metadata")
    return records(metadata if isinstance(metadata, dict) else {}, "managedFields")


def _time(told: Any) -> datetime | None:
    if isinstance(told, datetime):
        return told if told.tzinfo is not None else None
    try:
        found = datetime.fromisoformat(text_of(told))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _texts(told: Any) -> dict[str, str]:
    found = told if isinstance(told, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, str)}
