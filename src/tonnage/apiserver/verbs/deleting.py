"""delete and deletecollection: preconditions, grace, propagation, and what is shown afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tonnage.apiserver import answers, bodies, refusals, status
from tonnage.apiserver.openapi.operations import RETURNS_DELETED
from tonnage.apiserver.options import boolean, integer, list_options, write_options
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.requests import Answer, Call
from tonnage.apiserver.verbs.reading import matcher, scope
from tonnage.errors import BadRequest, Conflict, NotFound
from tonnage.objects import fielderrors
from tonnage.objects.admit import Malformed, admit
from tonnage.objects.document import Doc, decode
from tonnage.objects.resources import Resource
from tonnage.objects.schema import schema_of

_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace_s: int | None = None
    propagation: str = ""
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False

    def check_of(self, resource: Resource) -> Callable[[Doc], None]:
        """Judge the preconditions on an object, in upstream's words (which name the kind here, not the resource)."""

        def check(doc: Doc) -> None:
            meta = doc["metadata"]
            if self.uid is not None and self.uid != meta["uid"]:
                raise _precondition(resource, meta["name"], "UID", self.uid, meta["uid"], "deleted and then recreated")
            if self.resource_version is not None and self.resource_version != meta["resourceVersion"]:
                raise _precondition(
                    resource,
                    meta["name"],
                    "ResourceVersion",
                    self.resource_version,
                    meta["resourceVersion"],
                    "modified",
                )

        return check


def _precondition(resource: Resource, name: str, what: str, asked: str, found: str, happened: str) -> Conflict:
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return Conflict(
        f'Operation cannot be fulfilled on {kind} "{name}": the {what} in the precondition ({asked}) does not match '
        f"the {what} in record ({found}). The object might have been {happened}",
        group=resource.group,
        kind=resource.kind,
        name=name,
    )


async def delete(registry: Registry, call: Call) -> Answer:
    """DELETE one object."""
    options = read_options(call)
    resource = call.resource
    written = await registry.remove(
        resource,
        call.namespace,
        call.name,
        grace_s=options.grace_s,
        propagation=options.propagation,
        check=options.check_of(resource),
        dry_run=options.dry_run,
    )
    if written.removed and (resource.group, resource.plural) not in RETURNS_DELETED:
        return answers.plain(call, status.success(resource, call.name, decode(written.document)["metadata"]["uid"]))
    return answers.one(call, written.document, now=registry.clock.now())


async def delete_collection(registry: Registry, call: Call) -> Answer:
    """DELETE everything the selectors choose; what went away meanwhile is no error."""
    options = read_options(call)
    resource = call.resource
    matches = matcher(registry, call, list_options(call.query, watch=False))
    shown: list[bytes] = []
    for record in [record for record in registry.store.list(scope(call)) if matches(record)]:
        meta = decode(record.document)["metadata"]
        try:
            await registry.remove(
                resource,
                meta.get("namespace", ""),
                meta["name"],
                grace_s=options.grace_s,
                propagation=options.propagation,
                dry_run=options.dry_run,
            )
        except NotFound:
            continue
        shown.append(record.document)
    head = {"resourceVersion": str(registry.store.revision)}
    return answers.many(call, shown, head, now=registry.clock.now())


def read_options(call: Call) -> DeleteOptions:
    """DeleteOptions come in the body, or in the query when there is no body."""
    if call.body.strip():
        return from_document(_document(call), call)
    orphan = boolean(call.query, "orphanDependents")
    policy = call.query.get("propagationPolicy", "") or ("Orphan" if orphan else "")
    return _checked(
        DeleteOptions(
            grace_s=integer(call.query, "gracePeriodSeconds"),
            propagation=policy,
            dry_run=write_options("delete", call.query, "").dry_run,
        )
    )


def _document(call: Call) -> Doc:
    media = bodies.media_type(call.headers.get("Content-Type", "")) or "application/json"
    return bodies.read_document(call.body, media, must_be="DeleteOptions")


def from_document(doc: Doc, call: Call) -> DeleteOptions:
    """A DeleteOptions document, as DELETE and eviction carry it."""
    try:
        admit(schema_of("meta", "v1", "DeleteOptions"), doc)
    except Malformed as exc:
        raise BadRequest(f'DeleteOptions in version "v1" cannot be handled as a DeleteOptions: {exc}') from exc
    preconditions = doc.get("preconditions", {})
    policy = doc.get("propagationPolicy", "") or ("Orphan" if doc.get("orphanDependents") else "")
    dry_run = doc.get("dryRun", [])
    if dry_run not in ([], ["All"]):
        error = fielderrors.not_supported("dryRun", dry_run, ("All",))
        raise refusals.invalid_options("DeleteOptions", [error])
    return _checked(
        DeleteOptions(
            doc.get("gracePeriodSeconds"),
            policy,
            preconditions.get("uid"),
            preconditions.get("resourceVersion"),
            bool(dry_run) or write_options("delete", call.query, "").dry_run,
        )
    )


def _checked(options: DeleteOptions) -> DeleteOptions:
    if options.propagation and options.propagation not in _POLICIES:
        error = fielderrors.FieldError(
            "FieldValueNotSupported",
            "propagationPolicy",
            options.propagation,
            'supported values: "Foreground", "Background", "Orphan", "nil"',
        )
        raise refusals.invalid_options("DeleteOptions", [error])
    return options
