"""create of kinds that are answered and not stored: reviews (may I, what may I, whose token is this, who am I) and
tokens of ServiceAccounts (upstream: pkg/registry/core/serviceaccount/storage/token.go).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from tonnage.apiserver import authorizer, bodies, requests, responses
from tonnage.apiserver.authentication.authenticator import Authenticator, token_in
from tonnage.apiserver.authentication.service_account_tokens import ServiceAccountTokens
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.requests import Call, Location, Response, write_options
from tonnage.apiserver.verbs.writing import read_body
from tonnage.clock import rfc3339
from tonnage.documents.access import attributes, policy, service_account_tokens
from tonnage.documents.access.rules import Rule
from tonnage.documents.access.service_account_tokens import ACCOUNTS, BoundObject, InvalidToken, Kubernetes, claims_of
from tonnage.documents.api_errors import conflict_of_kind
from tonnage.documents.creation import track_managed_fields
from tonnage.errors import BadRequest
from tonnage.objects.document import Doc, decode
from tonnage.objects.field_errors import FieldError, invalid, invalid_object
from tonnage.objects.field_rules import token_lifetime
from tonnage.objects.resources import ACCESS_REVIEWS, BY_PLURAL, LOCAL_ACCESS_REVIEWS, RULES_REVIEWS, TOKEN_REQUESTS
from tonnage.objects.users import User

_EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(("*",), non_resource_urls=("*",)))


async def review(registry: Registry, call: Call) -> Response:
    """POST a review. Raises Invalid for a question about nothing, or about two things."""
    options, resource = write_options(call), call.at.resource

    def answer() -> Response:
        doc = bodies.read_object(call.body, call.content_type, resource, options.field_validation, call.warnings)
        if resource is RULES_REVIEWS:
            return responses.of_document(call, _rules(registry, doc, call.user), 201)
        meta = doc.setdefault("metadata", {})
        if resource.namespaced:
            if meta.setdefault("namespace", call.at.namespace) != call.at.namespace:
                raise requests.wrong_namespace()
        else:
            meta.pop("namespace", None)
        track_managed_fields(resource, old=None, new=doc, manager=options.manager, now=registry.now())
        is_own = resource is ACCESS_REVIEWS
        if errors := attributes.validate_review(
            doc, names_subject=not is_own, is_local=resource is LOCAL_ACCESS_REVIEWS
        ):
            raise invalid_object(resource.group, "", "", errors)  # upstream does not know the kind at that point
        user = call.user if is_own else attributes.subject_of_review(doc["spec"])
        decision = registry.authorizer.authorize(attributes.attributes_of_review(user, doc["spec"]))
        return responses.of_document(call, {**doc, "status": attributes.status_of(decision, doc["spec"])}, 201)

    # A user's rules may be large, however short the request.
    return await registry.work(bodies.is_large(call.body, call.content_type) or resource is RULES_REVIEWS, answer)


def _rules(registry: Registry, doc: Doc, user: User) -> Doc:
    namespace = doc.get("spec", {}).get("namespace", "")
    if not namespace:
        raise BadRequest("no namespace on request")
    if isinstance(registry.authorizer, authorizer.RbacAuthorizer):
        sheet = registry.authorizer.sheet(user, namespace)
        status = attributes.rules_status(sheet.rules, policy.aggregated(sheet.missing))
    else:
        status = attributes.rules_status(_EVERYTHING)
    head = {"kind": RULES_REVIEWS.kind, "apiVersion": RULES_REVIEWS.api_version, "metadata": {}, "spec": {}}
    return head | {"status": status}


async def review_token(authenticator: Authenticator, registry: Registry, call: Call) -> Response:
    """POST tokenreviews. An unknown token is a normal answer. Raises BadRequest without a token."""
    doc = await read_body(registry, call, write_options(call), call.at.resource)
    spec = doc.get("spec", {})
    if not spec.get("token"):
        raise BadRequest("token is required for TokenReview in authentication")
    try:
        token = token_in(f"Bearer {spec['token']}")
        audiences = spec.get("audiences") or authenticator.accounts.audiences
        user, shared = authenticator.authenticate_token(token, audiences)
        answer: Doc = {"authenticated": True, "user": user.info(), "audiences": list(shared)}
    except InvalidToken as exc:
        answer = {"user": {}, "error": str(exc)}
    return responses.of_document(call, {**doc, "status": answer}, 201)


async def review_self(registry: Registry, call: Call) -> Response:
    """POST selfsubjectreviews: what `kubectl auth whoami` shows."""
    doc = await read_body(registry, call, write_options(call), call.at.resource)
    answer = {
        "kind": doc["kind"],
        "apiVersion": doc["apiVersion"],
        "metadata": {"creationTimestamp": registry.now()},
        "status": {"userInfo": call.user.info()},
    }
    return responses.of_document(call, answer, 201)


_BOUND: Final = {"Pod": BY_PLURAL["", "pods"], "Secret": BY_PLURAL["", "secrets"], "Node": BY_PLURAL["", "nodes"]}


async def create_token(tokens: ServiceAccountTokens, registry: Registry, call: Call) -> Response:
    """POST serviceaccounts/{name}/token. Raises NotFound, Invalid, Conflict, BadRequest."""
    doc = await read_body(registry, call, write_options(call), TOKEN_REQUESTS)
    meta = doc.get("metadata", {})
    for field, wanted in (("name", call.at.name), ("namespace", call.at.namespace)):
        if meta.get(field, wanted) not in ("", wanted):
            told = f"must match the service account {field} if specified"
            raise _invalid(call.at.name, invalid(f"metadata.{field}", meta[field], told))
    account = decode(registry.read(Location(ACCOUNTS, call.at.namespace, call.at.name)).document)["metadata"]
    if meta.get("uid") and meta["uid"] != account["uid"]:
        told = "the UID in the token request ({}) does not match the UID of the service account ({})"
        raise conflict_of_kind(
            TOKEN_REQUESTS.group, TOKEN_REQUESTS.kind, call.at.name, told.format(meta["uid"], account["uid"])
        )
    spec = doc.get("spec", {})
    seconds = spec.get("expirationSeconds")
    seconds = service_account_tokens.DEFAULT_SECONDS if seconds is None else seconds
    if errors := token_lifetime(seconds, "spec.expirationSeconds"):
        raise _invalid("", errors[0])
    audiences = spec.get("audiences") or list(tokens.audiences)
    bound = _bound(registry, call, spec["boundObjectRef"]) if spec.get("boundObjectRef") else Kubernetes()
    now = registry.clock.now()
    warn_after_s, lasts_s = 0, seconds
    if (
        bound.pod is not None
        and seconds == service_account_tokens.WARN_ONLY_SECONDS
        and set(audiences) <= set(tokens.audiences)
    ):
        warn_after_s, lasts_s = seconds, service_account_tokens.EXTENDED_SECONDS
    claims = claims_of(
        account,
        bound,
        issuer=tokens.issuer,
        audiences=audiences,
        seconds=lasts_s,
        now=now,
        jti=registry.new_uid(),
        warn_after_s=warn_after_s,
    )
    token = tokens.key.signed(msgspec.json.encode(claims))
    answer = {
        "kind": TOKEN_REQUESTS.kind,
        "apiVersion": TOKEN_REQUESTS.api_version,
        "metadata": {
            **meta,
            "name": call.at.name,
            "namespace": call.at.namespace,
            "uid": account["uid"],
            "creationTimestamp": rfc3339(now),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec.get("boundObjectRef")},
        "status": {"token": token, "expirationTimestamp": rfc3339(now + timedelta(seconds=seconds))},
    }
    return responses.of_document(call, answer, 201)


def _bound(registry: Registry, call: Call, ref: Doc) -> Kubernetes:
    """The object that a token is bound to, as it is now; for a pod its node too."""
    group, _, version = ref.get("apiVersion", "").rpartition("/")
    kind, name = ref.get("kind", ""), ref.get("name", "")
    resource = _BOUND.get(kind) if not group else None
    if resource is None:
        raise BadRequest(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    if not name:
        raise BadRequest("Name parameter required.")
    found = decode(registry.read(Location(resource, call.at.namespace if resource.namespaced else "", name)).document)
    if kind == "Pod" and found.get("spec", {}).get("serviceAccountName", "") != call.at.name:
        told = "to pod running with different serviceaccount name."
        raise BadRequest(f'cannot bind token for serviceaccount "{call.at.name}" {told}')
    uid = found["metadata"]["uid"]
    if ref.get("uid") and ref["uid"] != uid:
        told = f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record."
        raise conflict_of_kind("", kind, name, f"{told} The object might have been deleted and then recreated")
    bound = msgspec.structs.replace(Kubernetes(), **{kind.lower(): BoundObject(name, uid)})
    node = found.get("spec", {}).get("nodeName", "") if kind == "Pod" else ""
    if not node:
        return bound
    record = registry.store.get(_BOUND["Node"].key("", node))
    # The name of a missing node is kept: it still says where the pod is.
    node_uid = decode(record.document)["metadata"]["uid"] if record is not None else ""
    return msgspec.structs.replace(bound, node=BoundObject(node, node_uid))


def _invalid(name: str, error: FieldError) -> Exception:
    return invalid_object(TOKEN_REQUESTS.group, TOKEN_REQUESTS.kind, name, [error])
