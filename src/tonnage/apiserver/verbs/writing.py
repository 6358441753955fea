"""create, update, delete and deletecollection, and the code that all writing verbs share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tonnage.apiserver import bodies, event_loop, requests, responses
from tonnage.apiserver.registry import Registry, Written
from tonnage.apiserver.requests import Call, Location, Response, WriteOptions, write_options
from tonnage.apiserver.verbs.reading import respond, respond_list, select
from tonnage.documents.access.attributes import Attributes, forbidden
from tonnage.documents.admit import Malformed, admit
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.deletion import check_preconditions
from tonnage.documents.kinds.event import to_stored
from tonnage.documents.schema import schema_of
from tonnage.errors import BadRequest, NotFound
from tonnage.objects import field_errors, resources
from tonnage.objects.document import Doc, copy, decode, encode

_REPEATED_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
)


async def create(registry: Registry, call: Call) -> Response:
    """POST to a collection. Raises Invalid (422), AlreadyExists (409), Forbidden (403)."""
    options = write_options(call)
    doc, is_large = await _read_own(registry, call, options)
    written = await registry.create(call.at, doc, options, is_large=is_large)
    return await respond_written(registry, call, written)


async def update(registry: Registry, call: Call) -> Response:
    """PUT one object, or its status. Raises Invalid, Conflict, NotFound."""
    options = write_options(call)
    doc, is_large = await _read_own(registry, call, options)
    check_name(call, doc)

    def replace(old: Doc) -> Doc:
        mine: Doc = copy(doc)  # its result belongs to one try
        return mine

    try:
        written = await registry.change(call.at, replace, options, is_put=True, is_large=is_large)
    except NotFound:
        if not registry.strategy(call.at.resource).create_on_update or call.at.subresource:
            raise
        written = await create_missing(registry, call, doc, options, is_large=is_large)
    return await respond_written(registry, call, written)


async def create_missing(
    registry: Registry, call: Call, doc: Doc, options: WriteOptions, *, is_tracked: bool = True, is_large: bool
) -> Written:
    """Create the object that a PUT or an apply did not find. Raises Forbidden for users who may not create it."""
    at, resource = call.at, call.at.resource
    asked = Attributes(
        call.user, "create", resource.group, resource.version, resource.plural, at.subresource, at.namespace, at.name
    )
    decision = registry.authorizer.authorize(asked)
    if not decision.allowed:
        raise forbidden(asked, decision.reason)
    doc["metadata"].pop("resourceVersion", None)
    return await registry.create(at, doc, options, is_tracked=is_tracked, is_large=is_large)


async def respond_written(registry: Registry, call: Call, written: Written) -> Response:
    call.warnings.extend(written.warnings)
    return await respond(registry, call, written.document, code=201 if written.created else 200)


def check_name(call: Call, doc: Doc) -> None:
    """The name and namespace of body and URL must match; cluster-scoped kinds ignore the namespace."""
    meta = doc.get("metadata", {})
    if (named := meta.get("name", "")) != call.at.name:
        told = f"the name of the object ({named}) does not match the name on the URL ({call.at.name})"
        nameless = f"the name of the object ({call.at.name} based on URL) was undeterminable: name must be provided"
        raise BadRequest(told if named else nameless)
    if call.at.resource.namespaced and meta.get("namespace", call.at.namespace) != call.at.namespace:
        raise requests.wrong_namespace()


def merge_owners(call: Call, doc: Doc) -> None:
    """Drop repeated owner references, with a warning."""
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


async def read_body(registry: Registry, call: Call, options: WriteOptions, kind: resources.Resource) -> Doc:
    """The object in the body, which may be of another kind than the call's resource."""
    read = partial(bodies.read_object, call.body, call.content_type, kind, options.field_validation, call.warnings)
    return await registry.work(bodies.is_large(call.body, call.content_type), read)


async def _read_own(registry: Registry, call: Call, options: WriteOptions) -> tuple[Doc, bool]:
    """The object of the call's resource in the body, and whether it is large."""

    def read() -> Doc:
        doc = bodies.read_object(
            call.body, call.content_type, call.at.resource, options.field_validation, call.warnings
        )
        merge_owners(call, doc)
        return to_stored(call.at.resource, doc)

    is_large = bodies.is_large(call.body, call.content_type)
    is_large = is_large or (isinstance(call.at.resource, CustomResource) and call.at.resource.is_large)
    doc = await registry.work(is_large, read)
    if bodies.media_type(call.content_type) == bodies.PROTOBUF:  # a few bytes may have become many objects
        is_large = is_large or event_loop.is_large(encode(doc))
    return doc, is_large


_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a deletion; an empty `propagation` leaves it to the object."""

    grace_s: int | None = None
    propagation: str = ""
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False

    async def remove(self, registry: Registry, at: Location) -> Written:
        """Delete one object with these options. Raises NotFound, Conflict."""

        def check(doc: Doc) -> None:
            check_preconditions(at.resource, doc["metadata"], uid=self.uid, resource_version=self.resource_version)

        return await registry.remove(
            at, grace_s=self.grace_s, propagation=self.propagation, check=check, dry_run=self.dry_run
        )


async def delete(registry: Registry, call: Call) -> Response:
    options, resource = await _options(registry, call), call.at.resource
    written = await options.remove(registry, call.at)
    if written.removed and not resources.returns_deleted(resource):
        group = {"group": resource.group} if resource.group else {}
        uid = decode(written.document)["metadata"]["uid"]
        details = {"name": call.at.name, **group, "kind": resource.plural, "uid": uid}
        head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return responses.of_document(call, {**head, "details": details})
    return await respond(registry, call, written.document)


async def delete_collection(registry: Registry, call: Call) -> Response:
    """DELETE all selected objects; one that is already gone is no error. Ends at the first refusal."""
    options = await _options(registry, call)
    records, at, _ = await select(registry, call, requests.list_options(call.query, watch=False))
    shown: list[bytes] = []
    for record in records:
        meta = decode(record.document)["metadata"]
        try:
            await options.remove(registry, Location(call.at.resource, meta.get("namespace", ""), meta["name"]))
        except NotFound:
            continue
        shown.append(record.document)
    return await respond_list(registry, call, shown, {"resourceVersion": str(at)})


async def _options(registry: Registry, call: Call) -> DeleteOptions:
    is_large = bodies.is_large(call.body, call.content_type)
    return await registry.work(is_large, lambda: read_options(call))


def read_options(call: Call) -> DeleteOptions:
    """DeleteOptions from the body, or from the query without a body. Raises BadRequest, Invalid."""
    if call.body.strip():
        return from_document(_document(call), requests.values(call.query, "dryRun"))
    query = call.query
    said = {
        "gracePeriodSeconds": requests.integer(query, "gracePeriodSeconds"),
        "propagationPolicy": query.get("propagationPolicy"),
        "orphanDependents": requests.boolean(query, "orphanDependents"),
    }
    return _checked(said, requests.values(query, "dryRun"))


def from_document(doc: Doc, dry_run: list[str]) -> DeleteOptions:
    """A DeleteOptions document, as DELETE and eviction carry it. Raises BadRequest, Invalid."""
    try:
        admit(schema_of("meta", "v1", "DeleteOptions"), doc)
    except Malformed as exc:
        raise BadRequest(exc.message) from exc
    return _checked(doc, doc.get("dryRun", []) or dry_run)


def _document(call: Call) -> Doc:
    if call.body.strip() == b"null":
        return {}
    media = bodies.media_type(call.content_type) or "application/json"
    doc, _ = bodies.read_document(call.body, media, must_be="DeleteOptions")
    kind = doc.get("kind") or "DeleteOptions"
    if kind != "DeleteOptions":
        raise BadRequest(f'no kind "{kind}" is registered for version "{doc.get("apiVersion")}" in scheme "tonnage"')
    return doc


def _checked(said: Doc, dry_run: list[str]) -> DeleteOptions:
    policy, orphans = said.get("propagationPolicy"), said.get("orphanDependents")
    errors = []
    if policy is not None and orphans is not None:
        told = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(field_errors.invalid("propagationPolicy", policy, told))
    elif policy is not None and policy not in _POLICIES:
        errors.append(field_errors.unsupported("propagationPolicy", policy, (*_POLICIES, "nil")))
    errors += requests.dry_run_errors(dry_run)
    if errors:
        raise requests.invalid_options("DeleteOptions", errors)
    if orphans is not None:
        policy = "Orphan" if orphans else "Background"
    wanted = said.get("preconditions", {})
    return DeleteOptions(
        said.get("gracePeriodSeconds"), policy or "", wanted.get("uid"), wanted.get("resourceVersion"), bool(dry_run)
    )
