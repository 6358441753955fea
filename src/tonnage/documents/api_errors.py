"""Errors about an object, by its resource and name, in the words of apimachinery's `api/errors`.

Errors about a request rather than an object stand in `apiserver/requests.py`.
"""

from __future__ import annotations

from typing import TypedDict

from tonnage import errors
from tonnage.documents.schema import ShapedResource
from tonnage.errors import ApiError, Conflict
from tonnage.objects.document import BudgetExceeded, Doc
from tonnage.objects.field_errors import Errors, invalid_object
from tonnage.objects.resources import BY_PLURAL, Resource

_PODS = BY_PLURAL["", "pods"]


class UnknownReason(ApiError, code=500, reason=""):
    """An error that upstream does not turn into an API error: 500, with metav1.StatusReasonUnknown."""


def too_much(exceeded: BudgetExceeded) -> ApiError:
    """The answer to a body that expands to too much: 413, or as upstream 400 if it nests too deeply."""
    if exceeded.is_depth:
        return errors.BadRequest(f"exceeded max depth: {exceeded.message}")
    return errors.RequestEntityTooLarge(f"Request entity too large: {exceeded.message}")


class About(TypedDict):
    """The fields of a Status that name its object."""

    group: str
    kind: str
    name: str


def about(resource: Resource, name: str) -> About:
    return {"group": resource.group, "kind": resource.plural, "name": name}


def not_found(resource: Resource, name: str) -> errors.NotFound:
    return errors.NotFound(f'{resource.qualified} "{name}" not found', **about(resource, name))


def already_exists(resource: Resource, name: str, *, is_terminating: bool = False) -> errors.AlreadyExists:
    told = f'{resource.qualified} "{name}" already exists'
    return errors.AlreadyExists(f"object is being deleted: {told}" if is_terminating else told, **about(resource, name))


def conflict(resource: Resource, name: str, why: str) -> Conflict:
    told = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return Conflict(told, **about(resource, name))


def conflict_of_kind(group: str, kind: str, name: str, why: str) -> Conflict:
    """The same where upstream names the kind instead of the resource."""
    about = f"{kind}.{group}" if group else kind
    return Conflict(f'Operation cannot be fulfilled on {about} "{name}": {why}', group=group, kind=kind, name=name)


def modified(resource: Resource, name: str) -> Conflict:
    """The writer's resourceVersion is not the newest."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def precondition_failed(
    resource: Resource, namespace: str, name: str, *, field: str, asked: str, found: str
) -> Conflict:
    """The writer means another object of that name, or another version. The sentence is of upstream's storage layer."""
    # Upstream keeps custom resources under their group, and most other resources under none.
    place = f"{resource.group}/{resource.plural}" if isinstance(resource, ShapedResource) else resource.plural
    key = f"/registry/{place}/{namespace}/{name}" if namespace else f"/registry/{place}/{name}"
    return conflict(
        resource,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {field} in precondition: {asked}, {field} in object meta: {found}",
    )


def forbidden(resource: Resource, name: str, why: str, *causes: errors.Cause) -> errors.Forbidden:
    what = f'{resource.qualified} "{name}"' if name else resource.qualified
    return errors.Forbidden(f"{what} is forbidden: {why}", causes=causes, **about(resource, name))


def forbidden_pod(pod: Doc, why: str) -> errors.Forbidden:
    return forbidden(_PODS, pod["metadata"].get("name") or pod["metadata"].get("generateName", ""), why)


def invalid(resource: Resource, name: str, errors: Errors) -> errors.Invalid:
    return invalid_object(resource.stored.group, resource.kind, name, errors)
