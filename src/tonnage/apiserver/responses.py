"""Stored documents as responses: an object, a Table, or metadata only, as JSON or YAML; and Warning headers.

kubectl prefers `application/json;as=Table;v=v1;g=meta.k8s.io`, garbage collectors PartialObjectMetadata; Kubernetes'
components prefer protobuf and get JSON. The form is chosen before a verb runs: a client that cannot read any answer
must not have changed anything.

Warnings follow upstream's endpoints/filters/warning.go: up to 4,096 characters all are sent whole; beyond that each is
cut at 256 characters, and the rest is dropped. Ours counts characters as sent, escapes included, and sends at most half
of the hundred header lines that Python's HTTP client accepts. Control characters are shown by number; upstream drops
such a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Literal, cast

import msgspec

from tonnage.apiserver import stored_documents
from tonnage.apiserver.requests import Call, Response
from tonnage.apiserver.tables import Include, partial_metadata, table
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.errors import BadRequest, NotAcceptable
from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.resources import Resource, is_stored
from tonnage.objects.texts.yaml_writer import write_yaml

Form = Literal["object", "table", "metadata", "metadata list"]

_FORMS: dict[str, Form] = {
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata list",
}
META_V1 = "meta.k8s.io/v1"
_META_VERSIONS = ("v1", "v1beta1")
_JSON, _YAML = "application/json", "application/yaml"
_STREAM = f"{_JSON};stream=watch"


@dataclass(frozen=True, slots=True)
class Representation:
    """The form of a response, whether it is YAML, and the meta.k8s.io version of a Table or metadata."""

    form: Form = "object"
    yaml: bool = False
    api_version: str = META_V1


@lru_cache(maxsize=256)
def negotiate(accept: str, *, as_stream: bool = False, has_table: bool = True) -> Representation:
    """The best clause of an Accept header that we can serve, the first of equals. Raises NotAcceptable."""
    if not accept.strip():
        return Representation()
    is_known = False
    for media, options in accepted(accept):
        if media not in ("*/*", _JSON, _YAML):
            continue
        is_known = True
        form = _form(options)
        if form is None or (as_stream and media == _YAML) or (form == "table" and not has_table):
            continue
        return Representation(form, media == _YAML, f"meta.k8s.io/{options['v']}" if form != "object" else META_V1)
    if not is_known:
        raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {_JSON}, {_YAML}, {_STREAM}")
    served = _STREAM if as_stream else f"{_JSON}, {_YAML}"
    raise NotAcceptable(f"only the following media types are accepted: {served}")


def accepted(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The clauses of an Accept header, best quality first: media type and parameters."""
    clauses = []
    for text in accept.split(","):
        media, *parameters = (part.strip() for part in text.split(";"))
        pairs = (part.partition("=") for part in parameters)
        clauses.append((media, {key.strip(): value.strip() for key, _, value in pairs}))
    return sorted(clauses, key=lambda clause: -quality(clause[1]))


def quality(options: dict[str, str]) -> float:
    try:
        return float(options.get("q", "1"))
    except ValueError:
        return 0.0


def _form(options: dict[str, str]) -> Form | None:
    if not options.keys() & {"as", "g", "v"}:
        return "object"
    is_ours = options.get("g") == "meta.k8s.io" and options.get("v") in _META_VERSIONS
    return _FORMS.get(options.get("as", "")) if is_ours else None


_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
"""Programs that people read: they get JSON with line breaks, as upstream."""

_WITHOUT_TABLE = ("binding", "eviction", "finalize", "token")
"""Endpoints whose answer has no Table; upstream's handlers have none either."""


def negotiated(call: Call) -> Representation:
    """The form of the response. Raises NotAcceptable."""
    return negotiate(
        call.headers.get("Accept", ""),
        as_stream=call.verb == "watch",
        has_table=call.at.subresource not in _WITHOUT_TABLE and is_stored(call.at.resource),
    )


def include_of(call: Call) -> Include:
    """How much of each object a Table row carries."""
    asked = call.query.get("includeObject", "") or "Metadata"
    if asked not in ("None", "Metadata", "Object"):
        raise BadRequest(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{asked}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return cast(Include, asked)


def of_object(call: Call, document: bytes, *, now: datetime, code: int = 200) -> Response:
    """One object of the call's resource."""
    chosen = negotiated(call)
    if chosen.form == "object":
        return _response(call, chosen, stored_documents.served_bytes(call.at.resource, document), code)
    if chosen.form == "metadata list":
        found = _go_type(call.at.resource)
        raise NotAcceptable(
            f"you requested PartialObjectMetadataList, but the requested object is not a list ({found})"
        )
    doc = decode(document)
    if chosen.form == "metadata":
        return _response(call, chosen, encode(partial_metadata(doc, chosen.api_version)), code)
    head = {"resourceVersion": doc["metadata"].get("resourceVersion", "")}
    shown = table(
        call.at.resource,
        [stored_documents.served(call.at.resource, doc)],
        now=now,
        list_metadata=head,
        include=include_of(call),
        api_version=chosen.api_version,
    )
    return _response(call, chosen, encode(shown), code)


def of_list(call: Call, documents: Sequence[bytes], head: Doc, *, now: datetime) -> Response:
    """A list of the call's resource. Stored bytes are joined without decoding if the client wants plain objects."""
    chosen, resource = negotiated(call), call.at.resource
    if chosen.form == "object":
        if not stored_documents.is_served_as_stored(resource):
            documents = [stored_documents.served_bytes(resource, document) for document in documents]
        opening = encode({"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": head})
        head_of_items = b"" if isinstance(resource, CustomResource) else stored_documents.opening_of(resource)
        start = len(head_of_items)
        items = b",".join(
            b"{" + document[start:] if start and document.startswith(head_of_items) else document
            for document in documents
        )
        return _response(call, chosen, b"".join((opening[:-1], b',"items":[', items, b"]}")))
    if chosen.form == "metadata":
        raise NotAcceptable(
            f"you requested PartialObjectMetadata, but the requested object is a list ({_go_type(resource)}List)"
        )
    docs = [stored_documents.served(resource, decode(document)) for document in documents]
    version = chosen.api_version
    if chosen.form == "metadata list":
        found = [partial_metadata(doc, version) for doc in docs]
        shown: Doc = {"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": head, "items": found}
    else:
        shown = table(resource, docs, now=now, list_metadata=head, include=include_of(call), api_version=version)
    return _response(call, chosen, encode(shown))


def of_document(call: Call, doc: Doc, code: int = 200) -> Response:
    """A document that is no object of the resource: a Status, a Scale."""
    return _response(call, Representation(yaml=negotiated(call).yaml), encode(doc), code)


def _response(call: Call, chosen: Representation, body: bytes, code: int = 200) -> Response:
    if chosen.yaml:
        return Response(write_yaml(decode(body)).encode(), code, "application/yaml")
    pretty = call.query.get("pretty", "")
    if pretty in ("true", "1") or (not pretty and call.headers.get("User-Agent", "").startswith(_PEOPLE)):
        body = msgspec.json.format(body, indent=2)
    return Response(body, code)


def _go_type(resource: Resource) -> str:
    """`*core.Pod`, `*storage.CSINode`: upstream's Go type in messages."""
    return f"*{resource.stored.group.partition('.')[0] or 'core'}.{resource.kind}"


MAX_COUNT = 50
MAX_TOTAL = 4 * 1024
MAX_CUT = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_QUOTED = re.compile(r'["\\]')


def warning_headers(warnings: Iterable[str]) -> list[str]:
    """The Warning headers of one answer, in order, without duplicates."""
    texts = [text for text in dict.fromkeys(warnings) if text][:MAX_COUNT]
    if sum(map(len, texts)) <= MAX_TOTAL:
        whole = [_escaped(text) for text in texts]
        if sum(map(len, whole)) <= MAX_TOTAL:
            return [f'299 - "{text}"' for text in whole]
    headers: list[str] = []
    room = MAX_TOTAL
    for text in texts:
        cut = _cut(text)
        room -= len(cut)
        if room < 0:
            break
        headers.append(f'299 - "{cut}"')
    return headers


def _cut(text: str) -> str:
    """The beginning of a text, at most 256 characters as sent. Cut before escaping, so that no escape is halved."""
    kept = text[:MAX_CUT]
    while len(escaped := _escaped(kept)) > MAX_CUT:
        kept = kept[: len(kept) - max((len(escaped) - MAX_CUT) // 5, 1)]
    return escaped


def _escaped(text: str) -> str:
    shown = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    return _QUOTED.sub(lambda found: f"\\{found[0]}", shown)
