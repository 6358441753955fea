"""Server-side apply: a PATCH whose body is what its sender wants, which may also create the object.

The body is taken as it was written, before any decoding, because apply has to know what was said and what was not;
`documents/apply/server_side_apply.py` does the work. Its result is then admitted like any other body.
"""

from __future__ import annotations

from tonnage.apiserver import bodies
from tonnage.apiserver.options import WriteOptions
from tonnage.apiserver.registry import Registry, Written
from tonnage.apiserver.requests import Call
from tonnage.apiserver.verbs.writing import authorize_create, check_name, merge_owners
from tonnage.documents import api_errors
from tonnage.documents.admit import Malformed
from tonnage.documents.apply.managed_fields import reset_fields_of
from tonnage.documents.apply.server_side_apply import apply
from tonnage.documents.custom.custom_resource import CustomResource, admit_as
from tonnage.documents.custom.merging import is_typed
from tonnage.documents.kinds.event import from_stored, to_stored
from tonnage.documents.object_metadata import api_versions_of
from tonnage.documents.patches.json_patch import PatchFailed
from tonnage.documents.schema import schema_of_resource
from tonnage.errors import BadRequest, NotFound
from tonnage.objects.document import Doc
from tonnage.objects.texts.yaml_duplicates import duplicate_keys

APPLY = "application/apply-patch+yaml"


async def applied(registry: Registry, call: Call, options: WriteOptions) -> Written:
    """The object after the call's configuration. Raises Conflict, and the rest."""
    resource, is_large = call.resource, bodies.is_large(call.body, APPLY)
    config = await registry.work(is_large, lambda: _configuration(call, options.field_validation))

    def applied_to(live: Doc | None) -> Doc:
        if isinstance(resource, CustomResource) and not is_typed(resource.struct, live):
            about = f"{call.namespace}/{call.name}; {resource.api_version}, Kind={resource.kind}"
            told = "it has values of other types than its schema says now"
            raise api_errors.UnknownReason(f"failed to create typed live object ({about}): {told}")
        doc = apply(
            schema_of_resource(resource),
            live=live,
            config=config,
            manager=options.manager,
            force=options.force,
            api_version=resource.api_version,
            subresource=call.subresource,
            now=registry.now(),
            reset_fields=reset_fields_of(resource, call.subresource),
            api_versions=api_versions_of(resource),
        )
        try:
            admit_as(resource, doc)
        except Malformed as exc:
            raise PatchFailed(exc.message) from exc
        meta = doc.setdefault("metadata", {})
        if live is None and meta.get("uid"):
            told = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
            raise api_errors.conflict(resource, call.name, told)
        check_name(call, doc)
        merge_owners(call, doc)
        return doc

    def change(old: Doc) -> Doc:
        return to_stored(resource, applied_to(from_stored(resource, old)))

    try:
        return await registry.change(
            resource,
            call.namespace,
            call.name,
            change,
            options,
            subresource=call.subresource,
            is_tracked=False,
            is_large=is_large,
            requester=call.user,
        )
    except NotFound:
        if call.subresource:
            raise
        doc = await registry.work(is_large, lambda: to_stored(resource, applied_to(None)))
        authorize_create(registry, call)
        doc["metadata"].pop("resourceVersion", None)
        return await registry.create(
            resource,
            call.namespace,
            doc,
            options,
            is_tracked=False,
            is_large=is_large,
            requester=call.user,
            requested_name=call.name,
        )


def _configuration(call: Call, validation: str) -> Doc:
    if call.body.strip() in (b"", b"null"):
        return {}  # refused soon, for it names no kind
    try:
        config = bodies.read_document(call.body, APPLY, must_be=call.resource.kind)
    except BadRequest as exc:
        raise BadRequest(f"error decoding YAML: {exc.message.rpartition('version/kind; ')[2]}") from exc
    if validation != "Ignore" and (twice := duplicate_keys(call.body.decode(errors="replace"), config)):
        if validation == "Strict":
            told = bodies.unmarshal_errors(twice)
            raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {told}")
        call.warnings.extend(twice)
    return config
