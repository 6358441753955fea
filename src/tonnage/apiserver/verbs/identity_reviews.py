"""create of TokenReviews and SelfSubjectReviews: whose token is this, and who am I?"""

from __future__ import annotations

from functools import partial

from tonnage.apiserver import bodies, responses
from tonnage.apiserver.authentication.authenticator import Authenticator, bearer_token
from tonnage.apiserver.options import write_options
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.requests import Call, Response
from tonnage.documents.access.service_account_tokens import InvalidToken
from tonnage.errors import BadRequest
from tonnage.objects.document import Doc
from tonnage.objects.users import User


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
