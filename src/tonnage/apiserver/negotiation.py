"""Which form of an answer a client wants: the object, a Table for people, or metadata alone.

kubectl asks for `application/json;as=Table;v=v1;g=meta.k8s.io` first and plain JSON second; garbage collectors ask for
PartialObjectMetadata. Kubernetes' own components prefer protobuf and accept JSON, which is what they get.

The question is settled before a verb runs: a client that cannot read any answer must not have changed anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tonnage.errors import NotAcceptable

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
    """The form of a response, whether it is written as YAML, and the version of meta.k8s.io a Table or metadata has."""

    form: Form = "object"
    yaml: bool = False
    api_version: str = META_V1


@lru_cache(maxsize=256)
def negotiate(accept: str, *, as_stream: bool = False, has_table: bool = True) -> Representation:
    """The clause of an Accept header with the best quality that we can serve, the first of equals.

    Watches are streams, which are JSON; what is not stored (`has_table` is off) is never shown as a Table. Raises
    NotAcceptable.
    """
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
    """The clauses of an Accept header, the best quality first: media type and parameters."""
    return sorted(map(_clause, accept.split(",")), key=lambda clause: -quality(clause[1]))


def _clause(text: str) -> tuple[str, dict[str, str]]:
    media, *parameters = (part.strip() for part in text.split(";"))
    return media, {key.strip(): value.strip() for key, _, value in (part.partition("=") for part in parameters)}


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
