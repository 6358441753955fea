"""How this program writes: by server-side apply, all of its annotations of an object as one set, so that what is not in
it any more goes."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from tonnage import logs
from tonnage.client.http import Client
from tonnage.errors import TonnageError
from tonnage.objects.document import Doc
from tonnage.objects.meta import Object
from tonnage.pools.metrics import PoolsMetrics
from tonnage.pools.settings import PROGRAM

_log = logs.logger("tonnage.pools")


class AnnotationWriter:
    """Applies annotations, counts it and tells it."""

    def __init__(self, client: Client, metrics: PoolsMetrics) -> None:
        self._client = client
        self._metrics = metrics

    async def apply(
        self,
        found: Object,
        wanted: Mapping[str, str],
        *,
        force: bool,
        only_as_seen: bool = False,
        on_behalf_of: str = "",
    ) -> None:
        """Let these be all annotations that this program has on an object; `only_as_seen`, if it is still as it was
        found. Copies that write to the same object, each on behalf of its node, do not take away what another says.
        Raises TonnageError."""
        kind = type(found).__name__
        patch: Doc = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": kind,
            "metadata": {
                "name": found.name,
                # Of this life of it: an apply to what is gone would make it.
                "uid": found.uid,
                **({"resourceVersion": found.metadata.resource_version} if only_as_seen else {}),
                **({"namespace": found.metadata.namespace} if found.metadata.namespace else {}),
                **({"annotations": dict(wanted)} if wanted else {}),
            },
        }
        try:
            await self._client.patch(
                type(found), found.key, patch, patch_type="apply", field_manager=_manager(on_behalf_of), force=force
            )
        except TonnageError:
            self._metrics.wrote(kind, "failed")
            raise
        self._metrics.wrote(kind, "written" if wanted else "taken-away")
        _log.info("Annotated" if wanted else "Annotations taken away", object=f"{kind} {found.key}", annotations=wanted)


def _manager(node: str) -> str:
    """Node names may be longer than a field manager's."""
    return f"{PROGRAM}-{sha256(node.encode()).hexdigest()[:16]}" if node else PROGRAM
