"""Request bodies: reading, media types, syntax, and the step from bytes to an admitted document.

A body is read within limits of time and size, plain or gzip, before the request takes one of the `app.MAX_MUTATING`
slots, so that a slow sender holds only a connection. All bodies together are bounded until their requests are answered.

JSON, YAML and Kubernetes' protobuf are read; patches are never protobuf. `fieldValidation` is applied here: unknown and
duplicate fields are refused, warned about or ignored. `decode_body` is the only way from bytes to values; its budget
(`objects/document`) is charged while it reads, so a body that expands is refused before it has.
"""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from tonnage.apiserver import event_loop
from tonnage.documents import api_errors, go_text
from tonnage.documents.admit import ROOT, Malformed, Path
from tonnage.documents.custom.custom_resource import CustomResource, admit_as
from tonnage.documents.protobuf import open_envelope, struct_named
from tonnage.documents.schema import schema_of_resource
from tonnage.errors import ApiError, BadRequest, RequestEntityTooLarge, TooManyRequests, UnsupportedMediaType
from tonnage.http_connection import BadBody
from tonnage.objects import document, field_errors
from tonnage.objects.document import REQUEST, Budget, BudgetExceeded, Doc, NumberOutOfRange
from tonnage.objects.resources import BY_KIND, Resource
from tonnage.objects.texts import yaml_text
from tonnage.objects.texts.yaml_text import YamlDocument

MAX_BODY_BYTES = document.MAX_REQUEST_BYTES
MAX_STRICT_PROBLEMS = 100
"""Problems of one body that strict decoding reports: upstream's number (sigs.k8s.io/json, saveStrictError)."""

PROTOBUF = "application/vnd.kubernetes.protobuf"
YAML_TYPES = frozenset({"application/yaml", "application/apply-patch+yaml"})
_ACCEPTED_OF_CUSTOM = ("application/json", "application/yaml")
_ACCEPTED = (*_ACCEPTED_OF_CUSTOM, PROTOBUF)


def media_type(header: str) -> str:
    """`application/json` of `application/json; charset=utf-8`."""
    return header.partition(";")[0].strip().lower()


def is_large(body: bytes, content_type: str) -> bool:
    """True if this body may take longer than the event loop can spare, by its length or by what it expands to."""
    media = media_type(content_type)
    if media == PROTOBUF:
        return len(body) > event_loop.LARGE_PROTOBUF_BYTES
    return event_loop.is_large(body) or any(mark in body for mark in _MULTIPLIERS.get(media, ()))


_MULTIPLIERS = {
    **dict.fromkeys(YAML_TYPES, (b"*",)),  # aliases, also of aliases
    "application/json-patch+json": (b"copy", b"\\u"),  # of copies; or the word in escapes
}


def decode_body(body: bytes, media: str, budget: Budget) -> YamlDocument:
    """The value in a body, and the keys that YAML repeats; of several YAML documents the first.

    Raises BudgetExceeded, NumberOutOfRange, msgspec.DecodeError for bad JSON, InvalidYaml for bad YAML.
    """
    if media not in YAML_TYPES:
        return YamlDocument(document.read_json(body, budget))
    try:
        return next(yaml_text.documents(body.decode(errors="replace"), budget), YamlDocument(None))
    except yaml_text.ExcessiveYaml as exc:
        raise exc.exceeded from exc


def read_object(body: bytes, content_type: str, resource: Resource, validation: str, warnings: list[str]) -> Doc:
    """An admitted object of the resource's kind. Raises BadRequest or UnsupportedMediaType."""
    media = media_type(content_type) or "application/json"
    if isinstance(resource, CustomResource) and media == PROTOBUF:
        raise unsupported(_ACCEPTED_OF_CUSTOM)
    doc, twice = read_document(body, media, must_be=resource.kind, resource=resource)
    sent = len(doc)
    if isinstance(resource, CustomResource):
        check_custom_kind(doc, resource, body)
    else:
        check_kind(doc, resource)
    added = len(doc) - sent  # kind and apiVersion, if they were missing
    try:
        findings = admit_as(resource, doc)
    except Malformed as exc:
        raise BadRequest(_cannot_be_handled(doc, resource.kind, exc.message)) from exc
    if validation != "Ignore":
        problems = strict_problems(body, media, findings.unknown_paths, findings.keys - added)
        if twice and validation == "Strict":
            problems = [unmarshal_errors(twice), *problems]
        else:
            warnings.extend(twice)
        if problems and validation == "Strict":
            raise BadRequest(_cannot_be_handled(doc, resource.kind, f"strict decoding error: {', '.join(problems)}"))
        warnings.extend(problems)
    return doc


def unmarshal_errors(told: Sequence[str]) -> str:
    """The errors of the YAML reader as one message."""
    return "\n  ".join(("yaml: unmarshal errors:", *told))


def read_document(body: bytes, media: str, *, must_be: str, resource: Resource | None = None) -> tuple[Doc, list[str]]:
    """An object of its own kind (protobuf: of `resource`'s), and a sentence for every key that YAML repeats.

    An empty body is an object without fields.
    """
    if media == PROTOBUF:
        return _read_protobuf(body, must_be, resource), []
    if media not in _ACCEPTED and media not in YAML_TYPES:
        raise unsupported(_ACCEPTED)
    try:
        read = decode_body(body, media, Budget(REQUEST))
    except BudgetExceeded as exc:
        raise api_errors.too_much(exc) from exc
    except (NumberOutOfRange, msgspec.DecodeError) as exc:
        problem = exc if isinstance(exc, NumberOutOfRange) else go_text.syntax_error(body)
        raise _unrecognized(body, must_be, f"{_NO_KIND}; json parse error: {problem}") from exc
    except yaml_text.InvalidYaml as exc:
        raise _unrecognized(body, must_be, f"{_NO_KIND}; yaml parse error: {exc.message}") from exc
    repeated = read.repeated[:MAX_STRICT_PROBLEMS]
    doc, twice = read.value, [f'line {line}: key "{key}" already set in map' for key, line in repeated]
    if doc is None:
        return {}, twice
    if not isinstance(doc, dict):
        found = f"cannot unmarshal {go_text.json_type(doc)} into Go value of type {_TYPE_META}"
        raise _unrecognized(body, must_be, f"{_NO_KIND}; json parse error: json: {found}")
    for field in ("apiVersion", "kind"):
        if not isinstance(doc.get(field, ""), (str, type(None))):
            found = f"cannot unmarshal {go_text.json_type(doc[field])} into Go struct field .{field} of type string"
            raise _unrecognized(body, must_be, f"{_NO_KIND}; json parse error: json: {found}")
    if (doc.get("apiVersion") or "").count("/") > 1:
        raise _unrecognized(body, must_be, f"unexpected GroupVersion string: {doc['apiVersion']}")
    return doc, twice


def unsupported(accepted: Sequence[str]) -> UnsupportedMediaType:
    """The error for a body in a media type that the endpoint does not accept."""
    told = f"accepted media types include: {', '.join(accepted)}"
    return UnsupportedMediaType(f"the body of the request was in an unknown format - {told}")


_NO_KIND = "couldn't get version/kind"
_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def _unrecognized(body: bytes, must_be: str, why: str) -> BadRequest:
    return BadRequest(f"the object provided is unrecognized (must be of type {must_be}): {why} ({_summary(body)})")


def _read_protobuf(body: bytes, must_be: str, resource: Resource | None) -> Doc:
    budget = Budget(REQUEST)
    try:
        envelope = open_envelope(body, budget)
    except BudgetExceeded as exc:
        raise api_errors.too_much(exc) from exc
    except Malformed as exc:
        raise _unrecognized(body, must_be, exc.message) from exc
    head: Doc = {"kind": envelope.kind, "apiVersion": envelope.api_version}
    if resource is not None:
        check_kind(head, resource)
    try:
        struct = struct_named(envelope.api_version, envelope.kind) if resource is None else schema_of_resource(resource)
        return {**envelope.decode(struct, budget), **head}
    except BudgetExceeded as exc:
        raise api_errors.too_much(exc) from exc
    except Malformed as exc:
        raise BadRequest(_cannot_be_handled(head, must_be, exc.message)) from exc


def check_kind(doc: Doc, resource: Resource) -> None:
    """Fill in a missing kind and apiVersion; refuse another kind than this endpoint's."""
    for field in ("apiVersion", "kind"):  # a patch may have put anything there
        if not isinstance(doc.get(field) or "", str):
            found = (
                f"json: cannot unmarshal {go_text.json_type(doc[field])} into Go struct field .{field} of type string"
            )
            raise BadRequest(_cannot_be_handled({"kind": "", "apiVersion": "", **doc, field: ""}, resource.kind, found))
    kind, version = doc.get("kind") or resource.kind, doc.get("apiVersion") or resource.api_version
    doc["kind"], doc["apiVersion"] = kind, version
    if (kind, version) == (resource.kind, resource.api_version):
        return
    if (version, kind) in BY_KIND:
        found = f"converting (v1.{kind}) to ({resource.group or 'core'}.{resource.kind}): unknown conversion"
    else:
        found = f'no kind "{kind}" is registered for version "{version}" in scheme "tonnage"'
    raise BadRequest(_cannot_be_handled(doc, resource.kind, found))


def check_custom_kind(doc: Doc, resource: CustomResource, body: bytes, *, is_patched: bool = False) -> None:
    """Refuse a document without a kind or of another kind than this endpoint's. The result of a patch gets a 422."""
    kind, version = doc.get("kind") or "", doc.get("apiVersion") or ""
    if not kind:
        told = f"Object 'Kind' is missing in '{body.decode(errors='replace')}'"
        if is_patched:
            raise field_errors.invalid_object("", "", "", [field_errors.invalid("patch", body.decode(), told)])
        raise _unrecognized(body, resource.kind, told)
    if version != resource.api_version and not is_patched:
        raise BadRequest(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    judged = (("kind", kind, resource.kind), ("apiVersion", version, resource.api_version))
    errors = [field_errors.invalid(field, said, f"must be {right}") for field, said, right in judged if said != right]
    if errors:
        name = document.dig(doc, "metadata", "name")
        group = version.rpartition("/")[0]
        raise field_errors.invalid_object(group, kind, name if isinstance(name, str) else "", errors)


def strict_problems(body: bytes, media: str, unknown: Sequence[Path], keys_seen: int) -> list[str]:
    """The problems of strict decoding, in upstream's words and in the order of the text."""
    # Every key is followed by a colon. A text with no more colons than the decoded document has keys has no duplicates.
    if media == "application/json" and (
        unknown or body.count(b'":') != keys_seen or _SPACE_BEFORE_COLON.search(body) is not None
    ):
        return _walk_strictly(body, unknown)
    return [f'unknown field "{path.text()}"' for path in unknown[:MAX_STRICT_PROBLEMS]]


_SPACE_BEFORE_COLON: Final = re.compile(rb'"[ \t\r\n]++:')
"""A key that the count misses; it would hide a duplicate."""


class _Pairs(list[tuple[str, Any]]):
    """An object as its pairs; a class of its own, to tell it from a JSON list."""


def _walk_strictly(body: bytes, unknown: Sequence[Path]) -> list[str]:
    found: dict[str, None] = {}
    unknown_paths = frozenset(unknown)

    def walk(value: Any, path: Path) -> None:
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for key, item in value:
                where = Path((path, key))
                if where in unknown_paths:  # its inside, and duplicates of it, do not matter
                    found[f'unknown field "{where.text()}"'] = None
                    continue
                if key in seen:
                    found[f'duplicate field "{where.text()}"'] = None
                seen.add(key)
                walk(item, where)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                walk(item, Path((path, index)))

    walk(json.loads(body.decode(errors="replace"), object_pairs_hook=_Pairs), ROOT)
    return list(found)[:MAX_STRICT_PROBLEMS]


def _cannot_be_handled(doc: Doc, must_be: str, why: str) -> str:
    version = str(doc["apiVersion"]).rpartition("/")[2]
    return f'{doc["kind"]} in version "{version}" cannot be handled as a {must_be}: {why}'


_SHOWN_BYTES = 30


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SHOWN_BYTES else ""
    shown = body[:_SHOWN_BYTES]
    return (shown.decode(errors="replace") if body[:1] == b"{" else shown.hex()) + more


MAX_BODIES_BYTES: Final = 128 * 1024 * 1024
"""All bodies together: those being read, and those whose requests are running."""
BODY_S: Final = 60.0
"""From the first to the last byte of a body: upstream's time for a whole request."""
PAUSE_S: Final = 10.0
"""The longest pause within a body."""
_MAX_GZIP_MEMBERS: Final = 64
"""A gzip file may have several members. Nobody sends many; each costs time, even an empty one."""
_INFLATE_BYTES: Final = 256 * 1024


class RequestTimeout(ApiError, code=408, reason="Timeout"): ...


class ExpectationFailed(ApiError, code=417, reason="BadRequest"): ...


class Bodies:
    def __init__(self) -> None:
        self.held_bytes = 0

    async def read(self, request: web.BaseRequest) -> bytes:
        """The body, decompressed. The caller returns it with `release`. Raises the client's error."""
        encoding = encoding_of(request.headers.get("Content-Encoding", ""))
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise too_large()
        await _continue(request)
        body = await self._read(request)
        if encoding == "gzip":
            held = len(body)
            try:
                body = await asyncio.to_thread(inflate, body)
                self.held_bytes += len(body)
            finally:
                self.held_bytes -= held
        return body

    def release(self, body: bytes) -> None:
        self.held_bytes -= len(body)

    async def _read(self, request: web.BaseRequest) -> bytes:
        content, size = request.content, 0
        chunks: list[bytes] = []
        loop = asyncio.get_running_loop()
        done_by = loop.time() + BODY_S
        try:
            while True:
                if content.is_eof():
                    chunk = content.read_nowait()  # most bodies arrive with their head, and need no timer
                else:
                    async with asyncio.timeout_at(min(loop.time() + PAUSE_S, done_by)):
                        chunk = await content.readany()
                if not chunk and content.is_eof():
                    break
                size += len(chunk)
                self.held_bytes += len(chunk)
                if size > MAX_BODY_BYTES:
                    raise too_large()
                if self.held_bytes > MAX_BODIES_BYTES:
                    raise TooManyRequests("Too many requests, please try again later.", retry_after_s=1)
                chunks.append(chunk)
            return b"".join(chunks)
        except BaseException as exc:
            self.held_bytes -= size
            if isinstance(exc, TimeoutError):
                told = f"of its body {size} bytes came, and then nothing for {PAUSE_S:.0f} s"
                if loop.time() >= done_by:
                    told = f"its body was not complete after {BODY_S:.0f} s: {size} bytes had come"
                raise RequestTimeout(f"the request was given up: {told}") from exc
            if isinstance(exc, (BadBody, web.RequestPayloadError)):
                raise BadRequest(f"the body of the request cannot be read: {str(exc)[:200]}") from exc
            raise


def encoding_of(header: str) -> str:
    """`gzip` or `identity`, the only supported encodings. Raises UnsupportedMediaType."""
    encoding = header.strip().lower() or "identity"
    if encoding == "x-gzip":
        encoding = "gzip"
    if encoding not in ("gzip", "identity"):
        raise UnsupportedMediaType(
            f"the body of the request has the Content-Encoding {header[:100]!r}: send it plain, or as gzip"
        )
    return encoding


def inflate(body: bytes, limit: int = MAX_BODY_BYTES) -> bytes:
    """Decompress up to `limit` bytes. Raises BadRequest for bad gzip, RequestEntityTooLarge for more."""
    pieces: list[bytes] = []
    size = members = 0
    rest = body
    while rest:
        members += 1
        if members > _MAX_GZIP_MEMBERS:
            raise BadRequest(f"the body of the request is more than {_MAX_GZIP_MEMBERS} gzip members: send one")
        inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        while not inflater.eof:
            try:
                piece = inflater.decompress(rest, _INFLATE_BYTES)
            except zlib.error as exc:
                raise BadRequest(f"the body of the request is not gzip, as its Content-Encoding says: {exc}") from exc
            rest = inflater.unconsumed_tail
            size += len(piece)
            if size > limit:
                raise too_large(limit)
            pieces.append(piece)
            if not piece and not rest and not inflater.eof:
                raise BadRequest("the body of the request is gzip that breaks off before its end")
        rest = inflater.unused_data.lstrip(b"\0")  # padding is allowed after a member
    return b"".join(pieces)


def too_large(limit: int = MAX_BODY_BYTES) -> RequestEntityTooLarge:
    return RequestEntityTooLarge(f"Request entity too large: limit is {limit}")


async def _continue(request: web.BaseRequest) -> None:
    """Send `100 Continue` to a client that waits for it."""
    expected = request.headers.get("Expect", "")
    if not expected or request.version < (1, 1):
        return
    if expected.lower() != "100-continue":
        raise ExpectationFailed(f"nothing is known of the expectation {expected[:100]!r}")
    if not request.content.is_eof():
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer itself has not begun
