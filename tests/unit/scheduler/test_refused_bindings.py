"""A binding that the server refuses: is it the pod that is over, or is the attempt to be told as failed?"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tonnage.client.errors import Disconnected
from tonnage.errors import Conflict, NotFound, TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.scheduler.binding_cycle import send_binding
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.attempt import PodIsOver
from tonnage.testing.builders import pod

WEB = pod("web")
ANOTHER = replace(WEB, metadata=replace(WEB.metadata, uid="another"))
REFUSED = Conflict('pod web is already assigned to node "b"')


class Server:
    """Refuses every binding, and shows `found` to whoever asks."""

    def __init__(self, refusal: TonnageError, found: Pod | TonnageError) -> None:
        self._refusal = refusal
        self._found = found

    async def bind(self, key: str, node: str, *, uid: str = "") -> None:
        raise self._refusal

    async def find(self, cls: type[Pod], key: str) -> Pod | None:
        if isinstance(self._found, NotFound):
            return None
        if isinstance(self._found, TonnageError):
            raise self._found
        return self._found


async def bound(refusal: TonnageError, found: Pod | TonnageError) -> None:
    server: Any = Server(refusal, found)
    await send_binding(server, PodInfo(WEB), "a")


@pytest.mark.parametrize(
    ("refusal", "found"),
    [
        (REFUSED, pod("web", on="b")),
        (REFUSED, pod("web", on="a")),
        (REFUSED, ANOTHER),
        (NotFound('pods "web" not found'), NotFound('pods "web" not found')),
    ],
)
async def test_a_pod_that_another_has_bound_or_deleted_is_over(refusal: TonnageError, found: Pod | TonnageError):
    with pytest.raises(PodIsOver, match="pod default/web does not wait for a node any more"):
        await bound(refusal, found)


@pytest.mark.parametrize("found", [WEB, Disconnected("GET", "pods/web", "away", in_doubt=False)])
async def test_a_refusal_for_another_reason_is_told(found: Pod | TonnageError):
    with pytest.raises(Conflict, match="is already assigned"):
        await bound(REFUSED, found)
