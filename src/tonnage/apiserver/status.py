"""Answers without an object, and the errors of bad requests in upstream's words.

Errors about objects are in `documents/api_errors.py`.
"""

from __future__ import annotations

from tonnage import errors
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, invalid_object
from tonnage.objects.resources import Resource
from tonnage.store.errors import KeyDamaged, StoreError, StoreFull, StoreRemoved


def success(resource: Resource, name: str, uid: str) -> Doc:
    """The answer to a deletion that returns no object."""
    details: Doc = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details |= {"kind": resource.plural, "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def created_nothing() -> Doc:
    """The answer of a subresource that changed another object (binding, eviction)."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def from_store(error: StoreError) -> errors.ApiError:
    """The error of a failed store; it includes the remedy if the operator has one."""
    hint = f"; {error.hint}" if isinstance(error, (StoreFull, StoreRemoved, KeyDamaged)) else ""
    return errors.InternalError(f"Internal error occurred: {error.message}{hint}")


def unexpected(error: BaseException) -> errors.ApiError:
    """A bug of ours; the message names it, the log has the rest."""
    return errors.InternalError(f"Internal error occurred: {type(error).__name__}: {error}")


def no_such_resource() -> errors.NotFound:
    return errors.NotFound("the server could not find the requested resource")


def method_not_allowed() -> errors.MethodNotAllowed:
    return errors.MethodNotAllowed("the server does not allow this method on the requested resource")


def verb_not_supported(resource: Resource, method: str, *, is_collection: bool) -> errors.ApiError:
    """The same for a custom resource, whose error names the verb."""
    if is_collection and method in ("PUT", "PATCH"):
        return errors.BadRequest("name must be provided")
    verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method, method.lower())
    return errors.MethodNotAllowed(
        f'{verb} is not supported on resources of kind "{resource.qualified}"',
        group=resource.group,
        kind=resource.plural,
    )


def invalid_options(kind: str, errors: Errors) -> errors.Invalid:
    """Wrong query parameters are reported as an object of kind CreateOptions, ListOptions, …"""
    return invalid_object("meta.k8s.io", kind, "", errors)


def resource_version_too_large(asked: int, current: int, *, may_come: bool = True) -> errors.Timeout:
    """The error of a list or get. `may_come`: tell the client to retry, because a later version would do."""
    return errors.Timeout(
        f"Timeout: Too large resource version: {asked}, current: {current}",
        causes=(errors.Cause("ResourceVersionTooLarge", "Too large resource version"),),
        retry_after_s=1 if may_come else 0,
    )


def wrong_name(in_body: str, in_url: str) -> errors.BadRequest:
    if not in_body:
        return errors.BadRequest(
            f"the name of the object ({in_url} based on URL) was undeterminable: name must be provided"
        )
    return errors.BadRequest(f"the name of the object ({in_body}) does not match the name on the URL ({in_url})")


def wrong_namespace() -> errors.BadRequest:
    return errors.BadRequest("the namespace of the provided object does not match the namespace sent on the request")


class RequestTimeout(errors.ApiError):
    code = 408
    reason = "Timeout"


class ExpectationFailed(errors.ApiError):
    code = 417
    reason = "BadRequest"
