"""Which form of an answer a client wants: the object, a Table for people, or metadata alone.

kubectl asks for `application/json;as=Table;v=v1;g=meta.k8s.io` first and plain JSON second; garbage collectors ask for
PartialObjectMetadata. Kubernetes' own components prefer protobuf and accept JSON, which is what they get.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tonnage.errors import NotAcceptable

Form = Literal["object", "table", "metadata"]

_FORMS: dict[str, Form] = {"": "object", "Table": "table", "PartialObjectMetadata": "metadata"}
_FORMS["PartialObjectMetadataList"] = "metadata"
_WILDCARDS = frozenset({"*/*", "application/*"})


@dataclass(frozen=True, slots=True)
class Wanted:
    form: Form = "object"
    yaml: bool = False


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Wanted:
    """The first clause of an Accept header that we can serve. Raises NotAcceptable."""
    if not accept.strip():
        return Wanted()
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media in _WILDCARDS or media in ("application/json", "application/yaml"):
            form = _FORMS.get(options.get("as", ""))
            if form is not None and (form == "object" or options.get("g", "meta.k8s.io") == "meta.k8s.io"):
                return Wanted(form, media == "application/yaml")
    raise NotAcceptable(
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
        "application/json;stream=watch"
    )
