"""Words that all answers use."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Bytes = Annotated[int, Meta(description="whole bytes")]
Quantity = Annotated[str, Meta(description='a quantity such as "100Gi"')]
PodName = Annotated[str, Meta(description="namespace/name")]
ClaimName = Annotated[str, Meta(description="namespace/name")]
Instant = Annotated[str, Meta(description="RFC 3339")]


class Answer(Struct, rename="camel"):
    """Names are Kubernetes' kind of names: camelCase."""
