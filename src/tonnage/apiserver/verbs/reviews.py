"""create of reviews: may I, may somebody else, what may I; whose token is this, and who am I? They are answered, and
nothing is stored.
"""

from __future__ import annotations

from functools import partial

from tonnage.apiserver import bodies, responses, status
from tonnage.apiserver.authentication.authenticator import Authenticator, bearer_token
from tonnage.apiserver.authorization.rbac import RbacAuthorizer
from tonnage.apiserver.event_loop import on_loop
from tonnage.apiserver.options import write_options
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.requests import Call, Response
from tonnage.documents.access.policy import aggregated
from tonnage.documents.access.reviews import (
    attributes_of_review,
    rules_status,
    status_of,
    subject_of_review,
    validate_local_review,
    validate_self_review,
    validate_subject_review,
)
from tonnage.documents.access.rules import Rule
from tonnage.documents.access.service_account_tokens import InvalidToken
from tonnage.documents.object_metadata import track_managed_fields
from tonnage.errors import BadRequest
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import invalid_object
from tonnage.objects.resources import ACCESS_REVIEWS, LOCAL_ACCESS_REVIEWS, RULES_REVIEWS, SUBJECT_ACCESS_REVIEWS
from tonnage.objects.users import User

_VALIDATE = {
    ACCESS_REVIEWS: validate_self_review,
    LOCAL_ACCESS_REVIEWS: validate_local_review,
    SUBJECT_ACCESS_REVIEWS: validate_subject_review,
}
_EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(("*",), non_resource_urls=("*",)))


async def review(registry: Registry, call: Call) -> Response:
    """POST a review. Raises Invalid for a question about nothing, or about two things."""
    options = write_options("create", call.query, call.headers.get("User-Agent", ""))
    content_type, resource = call.headers.get("Content-Type", ""), call.resource
    read = partial(bodies.read_object, call.body, content_type, resource, options.field_validation, call.warnings)
    is_large = bodies.is_large(call.body, content_type)

    def answer() -> Response:
        doc: Doc = read()
        if resource is RULES_REVIEWS:
            return responses.of_document(call, _rules(registry, doc, call.user), 201)
        meta = doc.setdefault("metadata", {})
        if resource.namespaced:
            if meta.setdefault("namespace", call.namespace) != call.namespace:
                raise status.wrong_namespace()
        else:
            meta.pop("namespace", None)
        track_managed_fields(resource, old=None, new=doc, manager=options.manager, now=registry.now())
        if errors := _VALIDATE[resource](doc):
            raise invalid_object(resource.group, "", "", errors)  # upstream does not know the kind at that point
        user = call.user if resource is ACCESS_REVIEWS else subject_of_review(doc["spec"])
        decision = on_loop(partial(registry.authorizer.authorize, attributes_of_review(user, doc["spec"])))
        return responses.of_document(call, {**doc, "status": status_of(decision, doc["spec"])}, 201)

    # What one may may be a great deal, whatever was sent.
    return await registry.work(is_large or resource is RULES_REVIEWS, answer)


def _rules(registry: Registry, doc: Doc, user: User) -> Doc:
    namespace = doc.get("spec", {}).get("namespace", "")
    if not namespace:
        raise BadRequest("no namespace on request")
    if isinstance(registry.authorizer, RbacAuthorizer):
        sheet = on_loop(partial(registry.authorizer.policy.sheet, user, namespace))
        status = rules_status(sheet.rules, aggregated(sheet.missing))
    else:
        status = rules_status(_EVERYTHING)
    head = {"kind": RULES_REVIEWS.kind, "apiVersion": RULES_REVIEWS.api_version, "metadata": {}, "spec": {}}
    return {**head, "status": status}


async def review_token(authenticator: Authenticator, registry: Registry, call: Call) -> Response:
    """POST tokenreviews. A token that is nobody's is an answer, too. Raises BadRequest without one."""
    doc = await _read(registry, call)
    spec = doc.get("spec", {})
    if not spec.get("token"):
        raise BadRequest("token is required for TokenReview in authentication")
    answer: Doc = {}
    try:
        token = bearer_token(f"Bearer {spec['token']}")
        audiences = spec.get("audiences") or authenticator.accounts.audiences
        user, shared = authenticator.authenticate_token(token, audiences)
        answer = {"authenticated": True, "user": user_info(user), "audiences": list(shared)}
    except InvalidToken as exc:
        answer = {"user": {}, "error": str(exc)}
    return responses.of_document(call, {**doc, "status": answer}, 201)


async def review_self(registry: Registry, call: Call) -> Response:
    """POST selfsubjectreviews: what `kubectl auth whoami` shows."""
    doc = await _read(registry, call)
    answer = {
        "kind": doc["kind"],
        "apiVersion": doc["apiVersion"],
        "metadata": {"creationTimestamp": registry.now()},
        "status": {"userInfo": user_info(call.user)},
    }
    return responses.of_document(call, answer, 201)


def user_info(user: User) -> Doc:
    """A user as UserInfo, what is empty left out."""
    extra = {key: list(values) for key, values in sorted(user.extra.items())}
    info = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {name: value for name, value in info.items() if value}


async def _read(registry: Registry, call: Call) -> Doc:
    options = write_options("create", call.query, call.headers.get("User-Agent", ""))
    content_type = call.headers.get("Content-Type", "")
    read = partial(bodies.read_object, call.body, content_type, call.resource, options.field_validation, call.warnings)
    return await registry.work(bodies.is_large(call.body, content_type), read)
