"""patch: four ways to say a change. JSON patch, merge patch, strategic merge patch, server-side apply.

The patch is worked out on the object as it is when the write is tried, and worked out again when another writer came
first, so a patch never fails for having been slow. Apply may also create the object.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tonnage.apiserver import answers, bodies, faces
from tonnage.apiserver.options import WriteOptions, write_options
from tonnage.apiserver.registry import Change, Registry, Written
from tonnage.apiserver.requests import Answer, Call
from tonnage.apiserver.verbs.writing import check_name
from tonnage.errors import BadRequest, Invalid, NotFound, UnsupportedMediaType
from tonnage.objects import fielderrors
from tonnage.objects.admit import Malformed, admit
from tonnage.objects.apply import apply
from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.managed import reset_fields_of
from tonnage.objects.patch import json_patch, merge_patch
from tonnage.objects.resources import Resource
from tonnage.objects.schema import Struct
from tonnage.objects.strategic import strategic_merge

APPLY_TYPES = frozenset({"application/apply-patch+yaml", "application/apply-patch+json"})


def is_apply(content_type: str) -> bool:
    return bodies.media_type(content_type) in APPLY_TYPES


async def patch(registry: Registry, call: Call) -> Answer:
    """PATCH one object, or its status. Raises Invalid, Conflict, NotFound, UnsupportedMediaType."""
    content_type = call.headers.get("Content-Type", "")
    applies = is_apply(content_type)
    options = write_options("patch", call.query, call.headers.get("User-Agent", ""), is_apply=applies)
    resource = call.resource
    was: list[Doc] = []
    if applies:
        written = await _apply(registry, call, resource, options)
    else:
        patched = patcher(content_type, call.body, call.resource.schema)

        def change(old: Doc) -> Doc:
            was[:] = [old]
            doc = patched(faces.outbound(call.resource, old))
            _admit_patched(call, doc, options)
            check_name(call, doc)
            return faces.inbound(call.resource, doc)

        written = await registry.change(
            resource, call.namespace, call.name, change, options, subresource=call.subresource
        )
    call.warnings.extend(registry.strategy(resource).warnings(decode(written.document), was[0] if was else None))
    return answers.one(call, written.document, now=registry.clock.now(), code=201 if written.created else 200)


def patcher(content_type: str, body: bytes, schema: Struct) -> Change:
    """The function a non-apply patch describes. Raises UnsupportedMediaType, or BadRequest when it cannot be read."""
    media = bodies.media_type(content_type)
    if media not in ("application/json-patch+json", "application/merge-patch+json", *_STRATEGIC):
        raise UnsupportedMediaType("415: Unsupported Media Type")
    try:
        said = decode(body)
    except msgspec.DecodeError as exc:
        told = "unexpected end of JSON input" if "truncated" in str(exc) else str(exc)
        raise BadRequest(f"error decoding patch: {told}") from exc
    if media == "application/json-patch+json":
        return lambda old: json_patch(old, said)
    if media == "application/merge-patch+json":
        return lambda old: merge_patch(old, said)
    return lambda old: strategic_merge(schema, old, said)


_STRATEGIC = ("application/strategic-merge-patch+json",)


async def _apply(registry: Registry, call: Call, resource: Resource, options: WriteOptions) -> Written:
    config = bodies.read_document(call.body, "application/apply-patch+yaml", must_be=call.resource.kind)
    bodies.check_kind(config, call.resource)
    try:
        findings = admit(call.resource.schema, config)
    except Malformed as exc:
        raise BadRequest(f"failed to create typed patch object ({_about(call, resource)}): {exc.message}") from exc
    if findings.unknown and options.field_validation == "Strict":
        unknown = ", ".join(f'unknown field "{path}"' for path in findings.unknown)
        raise BadRequest(f"failed to create typed patch object ({_about(call, resource)}): {unknown}")
    if options.field_validation == "Warn":
        call.warnings.extend(f'unknown field "{path}"' for path in findings.unknown)
    meta = config.setdefault("metadata", {})
    meta.setdefault("name", call.name)
    if resource.namespaced:
        meta.setdefault("namespace", call.namespace)
    check_name(call, config)
    config = faces.inbound(call.resource, config)
    applied = _applier(registry, call, resource, config, options)
    try:
        return await registry.change(
            resource, call.namespace, call.name, applied, options, subresource=call.subresource, track=False
        )
    except NotFound:
        if call.subresource:
            raise
        return await registry.create(resource, call.namespace, applied(None), options, track=False)


def _applier(
    registry: Registry, call: Call, resource: Resource, config: Doc, options: WriteOptions
) -> Callable[[Doc | None], Doc]:
    def applied(live: Doc | None) -> Doc:
        return apply(
            resource.stored.schema,
            live=live,
            config=config,
            manager=options.manager,
            force=options.force,
            api_version=resource.stored.api_version,
            subresource=call.subresource,
            now=registry.now(),
            reset_fields=reset_fields_of(resource, call.subresource),
        )

    return applied


def _about(call: Call, resource: Resource) -> str:
    return f"{call.namespace}/{call.name}; {resource.api_version}, Kind={resource.kind}"


def _admit_patched(call: Call, doc: Doc, options: WriteOptions) -> None:
    """What a patch made of an object must still be one; upstream answers 422 here, with the whole text."""
    before = encode(doc)
    try:
        findings = admit(call.resource.schema, doc)
    except Malformed as exc:
        raise _not_an_object(before, exc.message) from exc
    unknown = [f'unknown field "{path}"' for path in findings.unknown]
    if unknown and options.field_validation == "Strict":
        raise _not_an_object(before, f"strict decoding error: {', '.join(unknown)}")
    if options.field_validation == "Warn":
        call.warnings.extend(text for text in unknown if text not in call.warnings)


def _not_an_object(document: bytes, why: str) -> Invalid:
    error = fielderrors.invalid("patch", document.decode(), why)
    return fielderrors.invalid_object("", "", "", [error])
