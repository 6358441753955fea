"""Is a stored document what its key says it is? For files from before there were checksums, and for `--check`."""

from __future__ import annotations

from tonnage.apiserver.stored_documents import opening_of
from tonnage.documents.custom.custom_resource import STORE_PREFIX
from tonnage.objects.document import decode
from tonnage.objects.resources import RESOURCES
from tonnage.objects.texts.decode_budget import MAX_DEPTH
from tonnage.objects.texts.deep_json import shallow
from tonnage.objects.texts.json_text import is_deeper

_BY_PREFIX = {row.store_prefix.rstrip("/"): row for row in RESOURCES if row.stored_as is None}


def stored_problem(key: str, revision: int, document: bytes) -> str | None:
    """What is wrong with a document under this key and revision, None when nothing is."""
    prefix = key.partition("/")[0]
    resource = _BY_PREFIX.get(prefix)
    if resource is None and not prefix.startswith(STORE_PREFIX):
        return "its key names no resource that is known"
    if not isinstance(document, bytes):
        return "it is no document"
    if resource is not None and not document.startswith(opening_of(resource)):
        return f"it is no {resource.kind}"
    try:
        if is_deeper(document, MAX_DEPTH):  # no damage: earlier versions let it nest, and bootstrap mends it
            document = shallow(document, MAX_DEPTH)
        metadata = decode(document)["metadata"]
        if resource is not None:
            named = resource.key(metadata.get("namespace", ""), metadata["name"])
        else:
            named = "/".join([prefix, *filter(None, (metadata.get("namespace"), metadata["name"]))])
        version = metadata["resourceVersion"]
    except Exception as exc:  # whatever a damaged document makes of a decoder
        return f"it cannot be read: {type(exc).__name__}"
    if named != key:
        return f'it says it is "{named}"'
    if version != str(revision):
        return f"it says its resourceVersion is {version!r}"
    return None
