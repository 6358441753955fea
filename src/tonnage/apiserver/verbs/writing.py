"""create and update (POST and PUT): a whole object from the body, handed to the registry."""

from __future__ import annotations

from tonnage.apiserver import answers, bodies, faces, refusals
from tonnage.apiserver.options import write_options
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.requests import Answer, Call
from tonnage.errors import NotFound
from tonnage.objects.document import Doc


async def create(registry: Registry, call: Call) -> Answer:
    """POST to a collection. Raises Invalid (422), AlreadyExists (409), Forbidden (403)."""
    options = write_options("create", call.query, call.headers.get("User-Agent", ""))
    doc = _read(call, options.field_validation)
    resource = call.resource
    written = await registry.create(resource, call.namespace, faces.inbound(call.resource, doc), options)
    call.warnings.extend(registry.strategy(resource).warnings(doc, None))
    return answers.one(call, written.document, now=registry.clock.now(), code=201)


async def update(registry: Registry, call: Call) -> Answer:
    """PUT one object, or its status. Raises Invalid, Conflict, NotFound."""
    options = write_options("update", call.query, call.headers.get("User-Agent", ""))
    doc = faces.inbound(call.resource, _read(call, options.field_validation))
    resource, strategy = call.resource, registry.strategy(call.resource)
    check_name(call, doc)
    was: list[Doc] = []

    def replace(old: Doc) -> Doc:
        was[:] = [old]
        return doc

    try:
        written = await registry.change(
            resource, call.namespace, call.name, replace, options, subresource=call.subresource, by_put=True
        )
    except NotFound:
        if not strategy.create_on_update or call.subresource:
            raise
        doc["metadata"].pop("resourceVersion", None)
        written = await registry.create(resource, call.namespace, doc, options)
    call.warnings.extend(strategy.warnings(doc, was[0] if was else None))
    return answers.one(call, written.document, now=registry.clock.now(), code=201 if written.created else 200)


def check_name(call: Call, doc: Doc) -> None:
    """Body and URL must speak of the same object."""
    meta = doc.get("metadata", {})
    if meta.get("name", "") != call.name:
        raise refusals.wrong_name(meta.get("name", ""), call.name)
    if meta.get("namespace", call.namespace) != call.namespace:
        raise refusals.wrong_namespace()


def _read(call: Call, validation: str) -> Doc:
    return bodies.read_object(call.body, call.headers.get("Content-Type", ""), call.resource, validation, call.warnings)
