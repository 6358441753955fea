"""The `scale` subresource of a custom resource: where in a document its numbers are, the definition says.

As `documents/scale.py` for workloads: a Scale out of a document, a document with the number a Scale asks for, and what
is wrong with the numbers in a document. The sentences are upstream's.
"""

from __future__ import annotations

from typing import Any

from tonnage.documents.go_text import plain
from tonnage.documents.scale import scale_document
from tonnage.errors import BadRequest, Cause, InternalError
from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import Errors, invalid

_MAX = (1 << 31) - 1


def custom_scale_of(doc: Doc, paths: Doc, *, must_have: bool = True) -> Doc:
    """The Scale of a document. Raises InternalError when it has no wanted number, unless that is no matter."""
    replicas, wrong = _integer(doc, paths["specReplicasPath"])
    present, also_wrong = _integer(doc, paths["statusReplicasPath"])
    selector = _found(doc, paths.get("labelSelectorPath") or "")
    if not isinstance(selector, (str, type(None))):
        also_wrong = _mismatch(paths["labelSelectorPath"], selector, "string")
    if wrong or also_wrong:
        raise _internal_error(wrong or also_wrong)
    if replicas is None and must_have:
        raise _internal_error(f'the spec replicas field "{paths["specReplicasPath"]}" does not exist')
    return scale_document(doc, replicas or 0, present or 0, selector or "")


def _internal_error(told: str) -> InternalError:
    return InternalError(f"Internal error occurred: {told}", causes=(Cause("", told),))


def apply_custom_scale(doc: Doc, scale: Doc, paths: Doc) -> Doc:
    """The document with the replicas a Scale asks for; an absent number is zero. `doc` itself is not touched.

    What is wrong with the number, the rules of the object say. Raises BadRequest when there is no place for it.
    """
    replicas = scale.get("spec", {}).get("replicas", 0)
    scaled: Doc = copy(doc)
    *parents, last = _steps(paths["specReplicasPath"])
    place: Any = scaled
    for step in parents:
        place = place.setdefault(step, {})
        if not isinstance(place, dict):
            raise BadRequest(f'the spec replicas field "{paths["specReplicasPath"]}" has no place in the object')
    place[last] = replicas
    for field in ("uid", "resourceVersion"):
        if scale.get("metadata", {}).get(field):
            scaled["metadata"][field] = scale["metadata"][field]
    return scaled


def validate_scale_paths(doc: Doc, paths: Doc | None, *, status_only: bool = False) -> Errors:
    """What is wrong with the numbers where a scale subresource looks for them."""
    if paths is None:
        return []
    errors: Errors = []
    for name in ("statusReplicasPath",) if status_only else ("specReplicasPath", "statusReplicasPath"):
        path = paths[name]
        number, wrong = _integer(doc, path)
        if wrong:
            errors.append(invalid(path, 0, wrong))
        elif number is not None and number < 0:
            errors.append(invalid(path, number, "should be a non-negative integer"))
        elif number is not None and number > _MAX:
            errors.append(invalid(path, number, f"should be less than or equal to {_MAX}"))
    if path := paths.get("labelSelectorPath"):
        selector = _found(doc, path)
        if not isinstance(selector, (str, type(None))):
            errors.append(invalid(path, "", _mismatch(path, selector, "string")))
    return errors


def _steps(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _found(doc: Doc, path: str) -> Any:
    value: Any = doc
    for step in _steps(path) if path else ():
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value if path else None


def _integer(doc: Doc, path: str) -> tuple[int | None, str]:
    """The number at a path and what is wrong with it."""
    value = _found(doc, path)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value, ""
    return None, _mismatch(path, value, "int64")


def _mismatch(path: str, value: Any, wanted: str) -> str:
    found = {str: "string", bool: "bool", float: "float64", list: "[]interface {}", dict: "map[string]interface {}"}
    told = f"{plain(value)} is of the type {found.get(type(value), 'int64')}, expected {wanted}"
    return f"{path} accessor error: {told}"
