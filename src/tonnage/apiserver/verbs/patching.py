"""PATCH: JSON patch, merge patch, strategic merge patch, and server-side apply.

A patch is computed on the current object, and again when another writer came first, so a patch never fails for being
slow. Its result must still be a valid object. The body of a server-side apply may create the object; it is kept as
written, because apply must know which fields were set (`documents/apply/server_side_apply.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from tonnage.apiserver import bodies
from tonnage.apiserver.registry import Registry, Written
from tonnage.apiserver.requests import Call, Response, WriteOptions, write_options
from tonnage.apiserver.verbs.writing import check_name, create_missing, merge_owners, respond_written
from tonnage.documents import admit, api_errors, go_text
from tonnage.documents.apply import server_side_apply
from tonnage.documents.apply.managed_fields import FieldWrite
from tonnage.documents.custom.custom_resource import CustomResource, admit_as
from tonnage.documents.kinds.event import from_stored, to_stored
from tonnage.documents.patches.json_patch import PatchFailed, json_patch, merge_patch
from tonnage.documents.patches.strategic_merge import strategic_merge
from tonnage.documents.schema import Struct, schema_of_resource
from tonnage.errors import BadRequest, Invalid, NotFound, UnsupportedMediaType
from tonnage.objects import field_errors
from tonnage.objects.document import JSON_PATCH, REQUEST, Budget, BudgetExceeded, Doc, NumberOutOfRange, encode, keys_in

APPLY = "application/apply-patch+yaml"


async def applied(registry: Registry, call: Call, options: WriteOptions) -> Written:
    """The object after the call's configuration is applied. Raises Conflict, and the errors of a write."""
    resource, is_large = call.at.resource, bodies.is_large(call.body, APPLY)
    config = await registry.work(is_large, lambda: _configuration(call, options.field_validation))

    def applied_to(live: Doc | None) -> Doc:
        if isinstance(resource, CustomResource) and not server_side_apply.fits(resource.struct, live):
            about = f"{call.at.namespace}/{call.at.name}; {resource.api_version}, Kind={resource.kind}"
            told = "it has values of other types than its schema says now"
            raise api_errors.UnknownReason(f"failed to create typed live object ({about}): {told}")
        write = FieldWrite.of(resource, call.at.subresource, manager=options.manager, now=registry.now())
        doc = server_side_apply.apply(write, live=live, config=config, force=options.force)
        try:
            admit_as(resource, doc)
        except admit.Malformed as exc:
            raise PatchFailed(exc.message) from exc
        meta = doc.setdefault("metadata", {})
        if live is None and meta.get("uid"):
            told = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
            raise api_errors.conflict(resource, call.at.name, told)
        check_name(call, doc)
        merge_owners(call, doc)
        return doc

    def change(old: Doc) -> Doc:
        return to_stored(resource, applied_to(from_stored(resource, old)))

    try:
        return await registry.change(call.at, change, options, is_tracked=False, is_large=is_large)
    except NotFound:
        if call.at.subresource:
            raise
        doc = await registry.work(is_large, lambda: to_stored(resource, applied_to(None)))
        return await create_missing(registry, call, doc, options, is_tracked=False, is_large=is_large)


def _configuration(call: Call, validation: str) -> Doc:
    if call.body.strip() in (b"", b"null"):
        return {}  # refused soon: it names no kind
    try:
        config, twice = bodies.read_document(call.body, APPLY, must_be=call.at.resource.kind)
    except BadRequest as exc:
        raise BadRequest(f"error decoding YAML: {exc.message.rpartition('version/kind; ')[2]}") from exc
    if twice and validation == "Strict":
        told = bodies.unmarshal_errors(twice)
        raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {told}")
    if validation != "Ignore":
        call.warnings.extend(twice)
    return config


JSON, MERGE, STRATEGIC = (f"application/{name}+json" for name in ("json-patch", "merge-patch", "strategic-merge-patch"))
_OPERATION_FIELDS = frozenset({"op", "path", "from", "value"})


def is_apply(content_type: str) -> bool:
    return bodies.media_type(content_type) == APPLY


async def patch(registry: Registry, call: Call) -> Response:
    """PATCH one object, or its status. Raises Invalid, Conflict, NotFound, UnsupportedMediaType."""
    applies = is_apply(call.content_type)
    options = write_options(call, is_apply=applies)
    if applies:
        return await respond_written(registry, call, await applied(registry, call, options))
    is_large = bodies.is_large(call.body, call.content_type)
    said = await registry.work(is_large, lambda: read_patch(call))

    def change(old: Doc) -> Doc:
        doc = said.patched(schema_of_resource(call.at.resource), from_stored(call.at.resource, old))
        _admit_patched(call, said, doc, options.field_validation)
        check_name(call, doc)
        merge_owners(call, doc)
        return to_stored(call.at.resource, doc)

    written = await registry.change(call.at, change, options, is_large=is_large)
    return await respond_written(registry, call, written)


@dataclass(frozen=True, slots=True)
class Patch:
    """A parsed patch, and the problems of strict decoding."""

    media: str
    said: Any
    problems: tuple[str, ...]

    def patched(self, schema: Struct, old: Doc) -> Doc:
        if self.media == JSON:
            return json_patch(old, [] if self.said is None else self.said)
        return merge_patch(old, self.said) if self.media == MERGE else strategic_merge(schema, old, self.said)

    def refused(self, patched: bytes, why: str) -> Invalid:
        """The 422 for a patch whose result is no valid object: it shows the result, or the patch itself."""
        shown = go_text.plain(self.said) if self.media == STRATEGIC else patched.decode()
        return field_errors.invalid_object("", "", "", [field_errors.invalid("patch", shown, why)])


def read_patch(call: Call) -> Patch:
    """The patch in a call's body. Raises UnsupportedMediaType, or BadRequest for bad JSON."""
    media = bodies.media_type(call.content_type)
    if isinstance(call.at.resource, CustomResource) and media not in (JSON, MERGE):
        raise bodies.unsupported((JSON, MERGE, APPLY))  # no Go type defines how its lists merge
    if media not in (JSON, MERGE, STRATEGIC):
        raise UnsupportedMediaType("415: Unsupported Media Type")
    try:
        said = bodies.decode_body(call.body, media, Budget(JSON_PATCH if media == JSON else REQUEST)).value
    except BudgetExceeded as exc:
        raise api_errors.too_much(exc) from exc
    except (NumberOutOfRange, msgspec.DecodeError) as exc:
        problem = str(exc) if isinstance(exc, NumberOutOfRange) else go_text.syntax_error(call.body)
        raise BadRequest(problem if media == STRATEGIC else f"error decoding patch: {problem}") from exc
    problems = bodies.strict_problems(call.body, "application/json", [], keys_in(said))
    if media == JSON:
        problems = [f"json patch {problem}" for problem in problems + _unknown_in_operations(said)]
    return Patch(media, said, tuple(problems))


def _unknown_in_operations(operations: Any) -> list[str]:
    return [
        f'unknown field "[{idx}].{field}"'
        for idx, operation in enumerate(operations if isinstance(operations, list) else ())
        if isinstance(operation, dict)
        for field in operation
        if field not in _OPERATION_FIELDS
    ]


def _admit_patched(call: Call, said: Patch, doc: Doc, validation: str) -> None:
    """Admit the result of a patch; upstream answers 422 here, with the whole text."""
    before = encode(doc)
    if isinstance(call.at.resource, CustomResource):
        bodies.check_custom_kind(doc, call.at.resource, before, is_patched=True)
    elif said.media != STRATEGIC:
        try:
            bodies.check_kind(doc, call.at.resource)
        except BadRequest as exc:
            why = exc.message.partition(f"cannot be handled as a {call.at.resource.kind}: ")[2]
            raise said.refused(before, why) from exc
    try:
        findings = admit_as(call.at.resource, doc)
    except admit.Malformed as exc:
        raise said.refused(before, exc.message) from exc
    problems = [*said.problems, *(f'unknown field "{path}"' for path in sorted(findings.unknown))]
    if problems and validation == "Strict":
        raise said.refused(before, f"strict decoding error: {', '.join(problems)}")
    if validation == "Warn":
        call.warnings[:] = dict.fromkeys([*call.warnings, *problems])
