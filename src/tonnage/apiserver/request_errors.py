"""What is wrong with a request, in upstream's words. What is wrong with an object is `documents/api_errors.py`."""

from __future__ import annotations

from tonnage.errors import (
    ApiError,
    BadRequest,
    Cause,
    Expired,
    Invalid,
    MethodNotAllowed,
    NotFound,
    Timeout,
)
from tonnage.objects.field_errors import Errors, invalid_object
from tonnage.objects.resources import Resource


def no_such_resource() -> NotFound:
    return NotFound("the server could not find the requested resource")


def method_not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource")


def verb_not_supported(resource: Resource, method: str, *, is_collection: bool) -> ApiError:
    """The same of a custom resource, whose server knows what was asked for."""
    if is_collection and method in ("PUT", "PATCH"):
        return BadRequest("name must be provided")
    verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method, method.lower())
    return MethodNotAllowed(
        f'{verb} is not supported on resources of kind "{resource.qualified}"',
        group=resource.group,
        kind=resource.plural,
    )


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


def resource_version_of_another_past(asked: int, current: int) -> Expired:
    """Of a watch that would begin in the future."""
    return Expired(f"too large resource version: {asked}, current: {current}")


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


class RequestTimeout(ApiError):
    """A request that did not come to its end in time."""

    code = 408
    reason = "Timeout"


class ExpectationFailed(ApiError):
    """A header `Expect` that asks for something unknown."""

    code = 417
    reason = "BadRequest"
