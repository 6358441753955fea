"""Everything that is compiled from schemas, compiled at once.

`admit`, server-side apply and protobuf compile a type when they first meet it, and enter it before it is complete,
because types lead back to themselves. Programs with several threads do it all beforehand: it takes milliseconds, and no
thread then meets what another is half through with.
"""

from __future__ import annotations

from functools import cache

from tonnage.documents.admit import compile_check
from tonnage.documents.apply.field_walk import shape_of
from tonnage.documents.protobuf.messages import table_of
from tonnage.documents.schema import structs


@cache
def compile_schemas() -> None:
    """Compile every named type for all who walk documents. Again it costs nothing."""
    for struct in structs():
        compile_check(struct)
        shape_of(struct)
        table_of(struct)
