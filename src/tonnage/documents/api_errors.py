"""Refusals of an object by its resource and name, in upstream's words, so that each sentence stands once.

Upstream has them in apimachinery's `api/errors`. What an API server says about a request rather than an object stands
in `apiserver/status.py`.
"""

from __future__ import annotations

from typing import ClassVar, TypedDict

from tonnage.documents.schema import ShapedResource
from tonnage.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    RequestEntityTooLarge,
)
from tonnage.objects.field_errors import Errors, invalid_object
from tonnage.objects.resources import Resource
from tonnage.objects.texts.decode_budget import BudgetExceeded


class UnknownReason(ApiError):
    """An error that upstream passes on without making it an API error: 500, with metav1.StatusReasonUnknown."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = ""


def too_much(exceeded: BudgetExceeded) -> ApiError:
    """The answer to a body that stands for too much; one that nests too deeply cannot be read (400, as upstream's)."""
    if exceeded.is_depth:
        return BadRequest(f"exceeded max depth: {exceeded.message}")
    return RequestEntityTooLarge(f"Request entity too large: {exceeded.message}")


class About(TypedDict):
    """The part of a Status that says which object it is about."""

    group: str
    kind: str
    name: str


def about(resource: Resource, name: str) -> About:
    return {"group": resource.group, "kind": resource.plural, "name": name}


def not_found(resource: Resource, name: str) -> NotFound:
    return NotFound(f'{resource.qualified} "{name}" not found', **about(resource, name))


def already_exists(resource: Resource, name: str, *, is_terminating: bool = False) -> AlreadyExists:
    told = f'{resource.qualified} "{name}" already exists'
    return AlreadyExists(f"object is being deleted: {told}" if is_terminating else told, **about(resource, name))


def conflict(resource: Resource, name: str, why: str) -> Conflict:
    told = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return Conflict(told, **about(resource, name))


def modified(resource: Resource, name: str) -> Conflict:
    """The resourceVersion that the writer has seen is not the newest."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def precondition_failed(
    resource: Resource, namespace: str, name: str, *, field: str, asked: str, found: str
) -> Conflict:
    """The writer means another object of that name, or another version. The sentence is upstream's storage layer's."""
    # Upstream keeps custom resources under their group, and of the others most under none.
    place = f"{resource.group}/{resource.plural}" if isinstance(resource, ShapedResource) else resource.plural
    key = f"/registry/{place}/{namespace}/{name}" if namespace else f"/registry/{place}/{name}"
    return conflict(
        resource,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {field} in precondition: {asked}, {field} in object meta: {found}",
    )


def forbidden(resource: Resource, name: str, why: str, *causes: Cause) -> Forbidden:
    what = f'{resource.qualified} "{name}"' if name else resource.qualified
    return Forbidden(f"{what} is forbidden: {why}", causes=causes, **about(resource, name))


def invalid(resource: Resource, name: str, errors: Errors) -> Invalid:
    return invalid_object(resource.stored.group, resource.kind, name, errors)
