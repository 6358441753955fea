"""delete and deletecollection: preconditions, grace, propagation, and what is shown afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.apiserver import bodies, responses, status
from tonnage.apiserver.options import boolean, dry_run_errors, integer, list_options, values
from tonnage.apiserver.registry import Registry, Written
from tonnage.apiserver.requests import Call, Response
from tonnage.apiserver.verbs.reading import respond_list, select
from tonnage.apiserver.verbs.writing import respond
from tonnage.documents.admit import Malformed, admit
from tonnage.documents.deletion import check_preconditions
from tonnage.documents.schema import schema_of
from tonnage.errors import BadRequest, NotFound
from tonnage.objects import field_errors
from tonnage.objects.document import Doc, decode
from tonnage.objects.field_rules import unsupported
from tonnage.objects.resources import Resource, returns_deleted

_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How a deletion is meant; empty `propagation` leaves it to the object."""

    grace_s: int | None = None
    propagation: str = ""
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False

    async def remove(self, registry: Registry, resource: Resource, namespace: str, name: str) -> Written:
        """Delete one object so. Raises NotFound, Conflict."""

        def check(doc: Doc) -> None:
            check_preconditions(resource, doc["metadata"], uid=self.uid, resource_version=self.resource_version)

        return await registry.remove(
            resource,
            namespace,
            name,
            grace_s=self.grace_s,
            propagation=self.propagation,
            check=check,
            dry_run=self.dry_run,
        )


async def delete(registry: Registry, call: Call) -> Response:
    """DELETE one object."""
    options, resource = await _options(registry, call), call.resource
    written = await options.remove(registry, resource, call.namespace, call.name)
    if written.removed and not returns_deleted(resource):
        uid = decode(written.document)["metadata"]["uid"]
        return responses.of_document(call, status.success(resource, call.name, uid))
    return await respond(registry, call, written.document)


async def delete_collection(registry: Registry, call: Call) -> Response:
    """DELETE everything the selectors choose; what went away meanwhile is no error. Ends at the first refusal."""
    options = await _options(registry, call)
    records, at, _ = await select(registry, call, list_options(call.query, watch=False))
    shown: list[bytes] = []
    for record in records:
        meta = decode(record.document)["metadata"]
        try:
            await options.remove(registry, call.resource, meta.get("namespace", ""), meta["name"])
        except NotFound:
            continue
        shown.append(record.document)
    return await respond_list(registry, call, shown, {"resourceVersion": str(at)})


async def _options(registry: Registry, call: Call) -> DeleteOptions:
    is_large = bodies.is_large(call.body, call.content_type)
    return await registry.work(is_large, lambda: read_options(call))


def read_options(call: Call) -> DeleteOptions:
    """DeleteOptions come in the body, or in the query when there is no body. Raises BadRequest, Invalid."""
    if call.body.strip():
        return from_document(_document(call), values(call.query, "dryRun"))
    query = call.query
    return _checked(
        grace_s=integer(query, "gracePeriodSeconds"),
        policy=query.get("propagationPolicy"),
        orphans=boolean(query, "orphanDependents"),
        dry_run=values(query, "dryRun"),
    )


def from_document(doc: Doc, dry_run: list[str]) -> DeleteOptions:
    """A DeleteOptions document, as DELETE and eviction carry it. Raises BadRequest, Invalid."""
    try:
        admit(schema_of("meta", "v1", "DeleteOptions"), doc)
    except Malformed as exc:
        raise BadRequest(exc.message) from exc
    preconditions = doc.get("preconditions", {})
    return _checked(
        grace_s=doc.get("gracePeriodSeconds"),
        policy=doc.get("propagationPolicy"),
        orphans=doc.get("orphanDependents"),
        dry_run=doc.get("dryRun", []) or dry_run,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
    )


def _document(call: Call) -> Doc:
    if call.body.strip() == b"null":
        return {}
    media = bodies.media_type(call.content_type) or "application/json"
    doc = bodies.read_document(call.body, media, must_be="DeleteOptions")
    kind = doc.get("kind") or "DeleteOptions"
    if kind != "DeleteOptions":
        raise BadRequest(f'no kind "{kind}" is registered for version "{doc.get("apiVersion")}" in scheme "tonnage"')
    return doc


def _checked(
    *,
    grace_s: int | None,
    policy: str | None,
    orphans: bool | None,
    dry_run: list[str],
    uid: str | None = None,
    resource_version: str | None = None,
) -> DeleteOptions:
    errors = []
    if policy is not None and orphans is not None:
        told = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(field_errors.invalid("propagationPolicy", policy, told))
    elif policy is not None and policy not in _POLICIES:
        errors.append(unsupported("propagationPolicy", policy, (*_POLICIES, "nil")))
    errors += dry_run_errors(dry_run)
    if errors:
        raise status.invalid_options("DeleteOptions", errors)
    if orphans is not None:
        policy = "Orphan" if orphans else "Background"
    return DeleteOptions(grace_s, policy or "", uid, resource_version, bool(dry_run))
