"""Request bodies: media types, syntax, and the step from bytes to an admitted document.

JSON, YAML and Kubernetes' protobuf are read; answers and patches are never protobuf. `fieldValidation` is settled here:
unknown and duplicate fields are refused, warned about or passed over. Protobuf has no unknown ones, only numbers that a
newer client may have sent, and those pass.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import yaml

from tonnage.errors import BadRequest, UnsupportedMediaType
from tonnage.objects.admit import Malformed, admit
from tonnage.objects.document import Doc, decode
from tonnage.objects.protobuf import open_envelope, struct_named
from tonnage.objects.resources import BY_KIND, Resource

MAX_BODY_BYTES = 3 * 1024 * 1024
"""Upstream's limit for a request body."""

PROTOBUF = "application/vnd.kubernetes.protobuf"
YAML_TYPES = frozenset({"application/yaml", "application/apply-patch+yaml"})
_ACCEPTED = ("application/json", "application/yaml", PROTOBUF)


def media_type(header: str) -> str:
    """`application/json` of `application/json; charset=utf-8`."""
    return header.partition(";")[0].strip().lower()


def read_object(body: bytes, content_type: str, resource: Resource, validation: str, warnings: list[str]) -> Doc:
    """One whole object of the resource's kind, admitted. Raises BadRequest or UnsupportedMediaType."""
    media = media_type(content_type) or "application/json"
    if media not in _ACCEPTED:
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: {', '.join(_ACCEPTED)}"
        )
    if media == PROTOBUF:
        doc = _read_protobuf(body, resource.kind, resource)
    else:
        doc = read_document(body, media, must_be=resource.kind)
        check_kind(doc, resource)
    try:
        findings = admit(resource.schema, doc)
    except Malformed as exc:
        raise BadRequest(_cannot_be_handled(doc, resource.kind, exc.message)) from exc
    if validation != "Ignore":
        problems = strict_problems(body, media, findings.unknown, findings.keys)
        if problems and validation == "Strict":
            raise BadRequest(_cannot_be_handled(doc, resource.kind, f"strict decoding error: {', '.join(problems)}"))
        warnings.extend(problems)
    return doc


def read_document(body: bytes, media: str, *, must_be: str) -> Doc:
    """Any object, of the kind it says it is; `must_be` is for the error."""
    if media == PROTOBUF:
        return _read_protobuf(body, must_be)
    unreadable = f"the object provided is unrecognized (must be of type {must_be}): couldn't get version/kind; "
    try:
        doc: Any = yaml.safe_load(body) if media in YAML_TYPES else decode(body)
    except msgspec.DecodeError as exc:
        raise BadRequest(f"{unreadable}json parse error: {_go_syntax_error(exc)} ({_summary(body)})") from exc
    except yaml.YAMLError as exc:
        raise BadRequest(f"{unreadable}yaml parse error: {' '.join(str(exc).split())} ({_summary(body)})") from exc
    if not isinstance(doc, dict):
        raise BadRequest(f"{unreadable}json parse error: the body is not an object ({_summary(body)})")
    return _plain(doc) if media in YAML_TYPES else doc


def _read_protobuf(body: bytes, must_be: str, resource: Resource | None = None) -> Doc:
    """The object in an envelope: of the resource's kind when there is one, else of the kind the envelope names."""
    try:
        envelope = open_envelope(body)
    except Malformed as exc:
        found = f"{exc.message} ({_summary(body)})"
        raise BadRequest(f"the object provided is unrecognized (must be of type {must_be}): {found}") from exc
    head: Doc = {"kind": envelope.kind, "apiVersion": envelope.api_version}
    if resource is not None:
        check_kind(head, resource)
    try:
        struct = resource.schema if resource is not None else struct_named(envelope.api_version, envelope.kind)
        return {**envelope.decode(struct), **head}
    except Malformed as exc:
        raise BadRequest(_cannot_be_handled(head, must_be, exc.message)) from exc


def check_kind(doc: Doc, resource: Resource) -> None:
    """Fill in kind and apiVersion where they are left out; refuse another kind than this endpoint's."""
    kind, version = doc.get("kind") or resource.kind, doc.get("apiVersion") or resource.api_version
    doc["kind"], doc["apiVersion"] = kind, version
    if (kind, version) == (resource.kind, resource.api_version):
        return
    if (version, kind) in BY_KIND:
        found = f"converting (v1.{kind}) to ({resource.group or 'core'}.{resource.kind}): unknown conversion"
    else:
        found = f'no kind "{kind}" is registered for version "{version}" in scheme "tonnage"'
    raise BadRequest(_cannot_be_handled(doc, resource.kind, found))


def strict_problems(body: bytes, media: str, unknown: list[str], keys_seen: int) -> list[str]:
    """What strict decoding objects to, as upstream words it."""
    problems = [f'unknown field "{path}"' for path in unknown]
    # Every key of a JSON object is followed by a colon. When the text has no more of them than the decoded document has
    # keys, nothing can be a duplicate, and the slow reading that looks for them is saved.
    if media == "application/json" and (unknown or body.count(b'":') != keys_seen):
        problems += [f'duplicate field "{path}"' for path in _duplicates(body)]
    return problems


def _duplicates(body: bytes) -> list[str]:
    class Pairs(list[tuple[str, Any]]):
        """An object as its pairs, told apart from a JSON list."""

    found: list[str] = []

    def walk(value: Any, path: str) -> None:
        if isinstance(value, Pairs):
            seen: set[str] = set()
            for key, item in value:
                where = f"{path}.{key}" if path else key
                if key in seen:
                    found.append(where)
                seen.add(key)
                walk(item, where)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                walk(item, f"{path}[{index}]")

    walk(json.loads(body, object_pairs_hook=Pairs), "")
    return list(dict.fromkeys(found))


def _plain(value: Any) -> Any:
    """YAML reads dates and non-text keys into Python's own types; JSON has neither."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return text.replace("+00:00", "Z")


def _cannot_be_handled(doc: Doc, must_be: str, why: str) -> str:
    return f'{doc["kind"]} in version "{_version(doc)}" cannot be handled as a {must_be}: {why}'


def _version(doc: Doc) -> str:
    return str(doc["apiVersion"]).rpartition("/")[2]


def _go_syntax_error(exc: msgspec.DecodeError) -> str:
    return "unexpected end of JSON input" if "truncated" in str(exc) else str(exc)


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    if body[:1] == b"{":
        return body[:256].decode(errors="replace") + (" ..." if len(body) > 256 else "")
    return body[:128].hex() + (" ..." if len(body) > 128 else "")
