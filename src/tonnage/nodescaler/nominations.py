"""Nominations that we write, and how we know them again: KEP-5278's rule, kept by the API server.

A proposal is a server-side apply of `status.nominatedNodeName` and of nothing else, under a manager's name of our own,
and never forced. The server then keeps the rule for us: where nobody has set the field it is ours; where somebody else
has, the request is refused (Conflict), also when that happened a moment ago; where it is ours we may change it; and to
apply nothing takes back what is ours and leaves what is not. Who set it stands in `metadata.managedFields`, so that
nothing is lost when we are restarted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from tonnage import logs
from tonnage.client.http import Client
from tonnage.errors import Conflict, Invalid, NotFound
from tonnage.objects.core_v1 import Pod
from tonnage.objects.document import Doc, dig

_AT_ONCE = 8
"""Requests under way at a time."""

_log = logs.logger("tonnage.node-scaler")


def is_set_by(manager: str, doc: Doc) -> bool:
    """Whether this manager set the pod's nomination, alone or with others who said the same."""
    entries: list[Any] = dig(doc, "metadata", "managedFields") or []
    return any(
        entry.get("manager") == manager and dig(entry, "fieldsV1", "f:status", "f:nominatedNodeName") is not None
        for entry in entries
    )


class ProposedNominations:
    """What one manager proposed."""

    def __init__(self, client: Client, manager: str) -> None:
        self._client = client
        self.manager = manager
        self._known: dict[str, tuple[str, bool]] = {}  # uid -> (resourceVersion, is ours)

    async def ours(self, nominated: Iterable[Pod]) -> frozenset[str]:
        """The uids of those pods whose nomination is ours. Typed objects do not say; the server is asked, once a
        version."""
        pods = list(nominated)
        known = self._known
        self._known = {pod.uid: known[pod.uid] for pod in pods if pod.uid in known}
        limit = asyncio.Semaphore(_AT_ONCE)

        async def ask(pod: Pod) -> None:
            async with limit:
                try:
                    self._note(await self._client.get_doc(Pod, pod.key), pod.uid)
                except NotFound:
                    self._known.pop(pod.uid, None)

        await asyncio.gather(*(ask(pod) for pod in pods if self._is_news(pod)))
        return frozenset(uid for uid, (_, is_ours) in self._known.items() if is_ours)

    def _is_news(self, pod: Pod) -> bool:
        return self._known.get(pod.uid, ("", False))[0] != pod.metadata.resource_version

    def _note(self, doc: Doc, uid: str) -> None:
        metadata = doc["metadata"]
        if metadata["uid"] == uid:
            self._known[uid] = metadata["resourceVersion"], is_set_by(self.manager, doc)

    async def propose(self, pod: Pod, node_name: str) -> bool:
        """Nominate a pod, if it is still without a nomination or has one of ours; whether it was done."""
        return await self._apply(pod, {"nominatedNodeName": node_name})

    async def withdraw(self, pod: Pod) -> bool:
        """Clear a pod's nomination if it is still ours; False when the pod is gone."""
        return await self._apply(pod, {})

    async def _apply(self, pod: Pod, status: Doc) -> bool:
        # The uid makes it this life of the pod: another one of its name has not been looked at.
        metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        doc: Doc = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}
        try:
            done = await self._client.patch_doc(
                Pod, pod.key, doc, patch_type="apply", subresource="status", field_manager=self.manager
            )
        except (Conflict, Invalid, NotFound) as exc:
            # Nominated by somebody else, bound, or gone since we looked: the next look finds it so.
            _log.info("A nomination was not ours to write", pod=pod.key, error=exc.message)
            return False
        self._note(done, pod.uid)
        return True
