"""Errors as answers: the one Status shape of the wire.

Every refusal the server gives passes through here, so a handler only raises. What is not an `ApiError` is either a
store that cannot write (500, in its own words) or a fault of ours (500, logged with its traceback).
"""

from __future__ import annotations

from tonnage.errors import ApiError, Expired, Forbidden, InternalError, MethodNotAllowed, NotFound
from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource
from tonnage.store import KeyDamaged, StoreError, StoreFull, StoreRemoved

_ALWAYS_DETAILED = (Forbidden, MethodNotAllowed, NotFound)
"""Of a path that is no resource there are no details, and upstream says so here."""


def failure(error: ApiError) -> Doc:
    """The Status document of an error, fields in upstream's order and left out where upstream leaves them out."""
    status: Doc = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"continue": error.continue_token} if isinstance(error, Expired) and error.continue_token else {},
        "status": "Failure",
        "message": error.message,
    }
    if error.reason:
        status["reason"] = error.reason
    details = _details(error)
    if details or isinstance(error, _ALWAYS_DETAILED):
        status["details"] = details
    status["code"] = error.code
    return status


def _details(error: ApiError) -> Doc:
    details: Doc = {}
    if error.name:
        details["name"] = error.name
    if error.group:
        details["group"] = error.group
    if error.kind:
        details["kind"] = error.kind
    if error.uid:
        details["uid"] = error.uid
    if error.causes:
        details["causes"] = [
            {name: said for name in ("reason", "message", "field") if (said := getattr(c, name)) or name == "message"}
            for c in error.causes
        ]
    if error.retry_after_s:
        details["retryAfterSeconds"] = error.retry_after_s
    return details


def success(resource: Resource, name: str, uid: str) -> Doc:
    """The answer to a deletion that left nothing to show."""
    details: Doc = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details |= {"kind": resource.plural, "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def created_nothing(code: int = 201) -> Doc:
    """The answer of a subresource that did its work elsewhere (binding, eviction)."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}


def from_store(error: StoreError) -> ApiError:
    """A store that cannot do what was asked. What the operator can mend says how."""
    if isinstance(error, (StoreFull, StoreRemoved, KeyDamaged)):
        return InternalError(f"Internal error occurred: {error.message}; {error.hint}")
    return InternalError(f"Internal error occurred: {error.message}")


def unexpected(error: BaseException) -> ApiError:
    """A fault of ours; the message names it, the log has the rest."""
    return InternalError(f"Internal error occurred: {type(error).__name__}: {error}")
