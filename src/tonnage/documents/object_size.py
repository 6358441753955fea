"""How large an object may be when it is stored.

The limit is etcd's for one request, which is what Kubernetes' objects have to fit into. It is judged when defaults have
been filled in, because they multiply: an empty container of two bytes becomes one of two hundred.
"""

from __future__ import annotations

from tonnage.errors import RequestEntityTooLarge
from tonnage.objects.document import Doc, encode
from tonnage.objects.resources import Resource

MAX_OBJECT_BYTES = 3 * 1024 * 1024 // 2
"""etcd's --max-request-bytes, as JSON."""


def refuse_too_large(resource: Resource, doc: Doc, old: Doc | None = None) -> None:
    """Raises RequestEntityTooLarge for an object beyond the limit; one that was as large before may still shrink."""
    size_bytes = len(encode(doc))
    if size_bytes <= MAX_OBJECT_BYTES or (old is not None and size_bytes <= len(encode(old))):
        return
    name = doc.get("metadata", {}).get("name", "")
    raise RequestEntityTooLarge(
        f'Request entity too large: {resource.qualified} "{name}" takes {size_bytes} bytes with its defaults: '
        f"limit is {MAX_OBJECT_BYTES}; split it into several objects",
        group=resource.group,
        kind=resource.plural,
        name=name,
    )
