"""How large an object may be when it is stored.

The limit is etcd's for one request, which is what Kubernetes' objects have to fit into. It is judged when defaults have
been filled in, because they multiply: an empty container of two bytes becomes one of two hundred.

An object that was made as large as it may be still has to be worked with: a node says that a pod failed, a controller
takes its finalizer off. So what others than its maker write, `status` and `managedFields`, has room beyond the limit.
"""

from __future__ import annotations

from tonnage.errors import RequestEntityTooLarge
from tonnage.objects.document import Doc, encode
from tonnage.objects.resources import Resource

MAX_OBJECT_BYTES = 3 * 1024 * 1024 // 2
"""etcd's --max-request-bytes, as JSON."""
STATUS_ROOM_BYTES = 64 * 1024


def refuse_too_large(resource: Resource, doc: Doc, old: Doc | None = None) -> None:
    """Raises RequestEntityTooLarge for an object beyond the limit; one that was as large before may still shrink.

    Of an object that is there already, status and managedFields may grow somewhat beyond the limit.
    """
    size_bytes = len(encode(doc))
    if size_bytes <= MAX_OBJECT_BYTES:
        return
    if old is not None:
        is_within_room = size_bytes <= MAX_OBJECT_BYTES + STATUS_ROOM_BYTES
        if size_bytes <= len(encode(old)) or (is_within_room and len(encode(_made(doc))) <= len(encode(_made(old)))):
            return
    name = doc.get("metadata", {}).get("name", "")
    raise RequestEntityTooLarge(
        f'Request entity too large: {resource.qualified} "{name}" takes {size_bytes} bytes with its defaults: '
        f"limit is {MAX_OBJECT_BYTES}; split it into several objects",
        group=resource.group,
        kind=resource.plural,
        name=name,
    )


def _made(doc: Doc) -> Doc:
    """What its maker has written: all but the status and who set which field."""
    metadata = {name: value for name, value in doc.get("metadata", {}).items() if name != "managedFields"}
    return {**{name: value for name, value in doc.items() if name != "status"}, "metadata": metadata}
