"""The refusals every verb shares, in upstream's words, so that each sentence stands once."""

from __future__ import annotations

from tonnage.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
    Timeout,
)
from tonnage.objects.field_errors import Errors, invalid_object
from tonnage.objects.resources import Resource


class Unwrapped(ApiError):
    """An error that upstream passes on without making it a proper API error: 500 and no reason."""

    reason = ""


def not_found(resource: Resource, name: str) -> NotFound:
    return NotFound(f'{resource.qualified} "{name}" not found', group=resource.group, kind=resource.plural, name=name)


def no_such_resource() -> NotFound:
    return NotFound("the server could not find the requested resource")


def method_not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource")


def already_exists(resource: Resource, name: str, *, is_going: bool = False) -> AlreadyExists:
    told = f'{resource.qualified} "{name}" already exists'
    return AlreadyExists(
        f"object is being deleted: {told}" if is_going else told,
        group=resource.group,
        kind=resource.plural,
        name=name,
    )


def conflict(resource: Resource, name: str, why: str) -> Conflict:
    return Conflict(
        f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}',
        group=resource.group,
        kind=resource.plural,
        name=name,
    )


def modified(resource: Resource, name: str) -> Conflict:
    return conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def another_uid(resource: Resource, namespace: str, name: str, *, asked: str, found: str) -> Conflict:
    """Of a PUT that means another object of that name. The sentence is upstream's storage layer speaking."""
    key = f"/registry/{resource.plural}/{namespace}/{name}" if namespace else f"/registry/{resource.plural}/{name}"
    return conflict(
        resource,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, UID in object meta: {found}",
    )


def nothing_with_uid(resource: Resource, name: str, uid: str) -> Conflict:
    """Of an apply that means an object which is not there, and would create another."""
    return conflict(
        resource, name, f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    )


def forbidden(resource: Resource, name: str, why: str, *causes: Cause) -> Forbidden:
    about = f'{resource.qualified} "{name}"' if name else resource.qualified
    return Forbidden(
        f"{about} is forbidden: {why}", group=resource.group, kind=resource.plural, name=name, causes=causes
    )


def namespace_terminating(resource: Resource, name: str, namespace: str) -> Forbidden:
    return forbidden(
        resource,
        name,
        f"unable to create new content in namespace {namespace} because it is being terminated",
        Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"),
    )


def invalid(resource: Resource, name: str, errors: Errors) -> Invalid:
    return invalid_object(resource.stored.group, resource.kind, name, errors)


def invalid_options(kind: str, errors: Errors) -> Invalid:
    """Wrong query parameters are judged as an object of kind CreateOptions, ListOptions, …"""
    return invalid_object("meta.k8s.io", kind, "", errors)


def resource_version_too_large(asked: int, current: int, *, may_come: bool = True) -> Timeout:
    """Of a list or a get. `may_come` tells the client to try again, because a later version would do as well."""
    return Timeout(
        f"Timeout: Too large resource version: {asked}, current: {current}",
        causes=(Cause("ResourceVersionTooLarge", "Too large resource version"),),
        retry_after_s=1 if may_come else 0,
    )


def resource_version_too_old(asked: int, oldest: int) -> Expired:
    """Of a watch."""
    return Expired(f"too old resource version: {asked} ({oldest})")


def list_too_old() -> Expired:
    return Expired("The resourceVersion for the provided list is too old.")


def bad_name(name: str, wrong: list[str]) -> BadRequest:
    """Of a name in a URL that no object can have."""
    return BadRequest(f'Name parameter invalid: "{name}": {";".join(wrong)}')


def wrong_name(in_body: str, in_url: str) -> BadRequest:
    if not in_body:
        return BadRequest(f"the name of the object ({in_url} based on URL) was undeterminable: name must be provided")
    return BadRequest(f"the name of the object ({in_body}) does not match the name on the URL ({in_url})")


def wrong_namespace() -> BadRequest:
    return BadRequest("the namespace of the provided object does not match the namespace sent on the request")
