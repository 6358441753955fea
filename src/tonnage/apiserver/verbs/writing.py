"""create and update (POST and PUT): a whole object from the body, handed to the registry."""

from __future__ import annotations

from functools import partial

from tonnage.apiserver import bodies, event_loop, responses, status
from tonnage.apiserver.options import write_options
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.requests import Call, Response
from tonnage.documents.access.attributes import Attributes, forbidden
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.kinds.event import to_stored
from tonnage.errors import NotFound
from tonnage.objects.document import Doc, copy, encode

_REPEATED_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
)


async def create(registry: Registry, call: Call) -> Response:
    """POST to a collection. Raises Invalid (422), AlreadyExists (409), Forbidden (403)."""
    options = write_options("create", call.query, call.headers.get("User-Agent", ""))
    doc, is_large = await _read(registry, call, options.field_validation)
    written = await registry.create(call.resource, call.namespace, doc, options, is_large=is_large, requester=call.user)
    call.warnings.extend(written.warnings)
    return await respond(registry, call, written.document, code=201)


async def update(registry: Registry, call: Call) -> Response:
    """PUT one object, or its status. Raises Invalid, Conflict, NotFound."""
    options = write_options("update", call.query, call.headers.get("User-Agent", ""))
    doc, is_large = await _read(registry, call, options.field_validation)
    strategy = registry.strategy(call.resource)
    check_name(call, doc)

    def replace(old: Doc) -> Doc:
        mine: Doc = copy(doc)  # what is made of it belongs to one try
        return mine

    try:
        written = await registry.change(
            call.resource,
            call.namespace,
            call.name,
            replace,
            options,
            subresource=call.subresource,
            is_put=True,
            is_large=is_large,
            requester=call.user,
        )
    except NotFound:
        if not strategy.create_on_update or call.subresource:
            raise
        authorize_create(registry, call)
        doc["metadata"].pop("resourceVersion", None)
        written = await registry.create(
            call.resource,
            call.namespace,
            doc,
            options,
            is_large=is_large,
            requester=call.user,
            requested_name=call.name,
        )
    call.warnings.extend(written.warnings)
    return await respond(registry, call, written.document, code=201 if written.created else 200)


def authorize_create(registry: Registry, call: Call) -> None:
    """A write that turns out to create needs the right to create, too. Raises Forbidden."""
    at = call.at
    asked = Attributes(
        call.user,
        "create",
        at.resource.group,
        at.resource.version,
        at.resource.plural,
        at.subresource,
        at.namespace,
        at.name,
    )
    decision = registry.authorizer.authorize(asked)
    if not decision.allowed:
        raise forbidden(asked, decision.reason)


async def respond(registry: Registry, call: Call, document: bytes, *, code: int = 200) -> Response:
    """One object in the form that was asked for."""
    shape = partial(responses.of_object, call, document, now=registry.clock.now(), code=code)
    return await registry.work(event_loop.is_large(document), shape)


def check_name(call: Call, doc: Doc) -> None:
    """Body and URL must speak of the same object; a namespace means nothing to a kind that has none."""
    meta = doc.get("metadata", {})
    if meta.get("name", "") != call.name:
        raise status.wrong_name(meta.get("name", ""), call.name)
    if call.resource.namespaced and meta.get("namespace", call.namespace) != call.namespace:
        raise status.wrong_namespace()


def merge_owners(call: Call, doc: Doc) -> None:
    """An owner that is named twice owns once; the client is told."""
    kept: dict[frozenset[tuple[str, object]], Doc] = {}
    repeated: list[str] = []
    for owner in doc.get("metadata", {}).get("ownerReferences", ()):
        named = frozenset(owner.items())
        if named in kept:
            repeated.append(owner.get("uid", ""))
        else:
            kept[named] = owner
    if repeated:
        doc["metadata"]["ownerReferences"] = list(kept.values())
        when = " after mutating admission happens" if call.verb == "patch" else ""
        call.warnings.append(_REPEATED_OWNERS.format(when=when, uids=", ".join(repeated)))


async def _read(registry: Registry, call: Call, validation: str) -> tuple[Doc, bool]:
    """The object in the body, and whether it is large."""
    content_type = call.headers.get("Content-Type", "")

    def read() -> Doc:
        doc = bodies.read_object(call.body, content_type, call.resource, validation, call.warnings)
        merge_owners(call, doc)
        return to_stored(call.resource, doc)

    is_large = bodies.is_large(call.body, content_type)
    is_large = is_large or (isinstance(call.resource, CustomResource) and call.resource.custom.is_large)
    doc = await registry.work(is_large, read)
    if bodies.media_type(content_type) == bodies.PROTOBUF:  # of which a few bytes may have been many objects
        is_large = is_large or event_loop.is_large(encode(doc))
    return doc, is_large
