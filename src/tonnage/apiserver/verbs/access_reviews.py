"""create of SelfSubjectAccessReviews: may I? Whoever has got this far holds a token, and a token may do everything."""

from __future__ import annotations

from functools import partial

from tonnage.apiserver import bodies, responses
from tonnage.apiserver.options import write_options
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.requests import Call, Response
from tonnage.documents import api_errors
from tonnage.objects.api_verbs import ACCESS_REVIEWS
from tonnage.objects.field_errors import invalid

_REASON = "a token of this server may do everything"


async def review(registry: Registry, call: Call) -> Response:
    """POST selfsubjectaccessreviews. Raises Invalid for a question about nothing, or about two things."""
    options = write_options("create", call.query, call.headers.get("User-Agent", ""))
    content_type = call.headers.get("Content-Type", "")
    read = partial(bodies.read_object, call.body, content_type, ACCESS_REVIEWS, options.field_validation, call.warnings)
    doc = await registry.work(bodies.is_large(call.body, content_type), read)
    spec = doc.get("spec", {})
    asked = [field for field in ("resourceAttributes", "nonResourceAttributes") if field in spec]
    if len(asked) == 2:
        told = "cannot be specified in combination with resourceAttributes"
        error = invalid("spec.nonResourceAttributes", spec["nonResourceAttributes"], told)
        raise api_errors.invalid(ACCESS_REVIEWS, "", [error])
    if not asked:
        told = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise api_errors.invalid(ACCESS_REVIEWS, "", [invalid("spec.resourceAttributes", None, told)])
    return responses.of_document(call, {**doc, "status": {"allowed": True, "reason": _REASON}}, 201)
