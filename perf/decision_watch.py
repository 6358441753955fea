"""Decisions as watches show them, and whether they were written in KEP-5278's order.

A decision about a pod with claims is its nomination *and then* each claim's selected-node: it counts when all were
seen. Resource versions tell which of the two is older, for a server counts the writes to pods and claims together. A
claim whose selected-node is older than its pod's nomination, or whose pod has none, is `early`; there may be none.
A pod without volumes is decided when it has its node.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import msgspec
from live_client import CLAIMS, PODS, Client

SELECTED = "volume.kubernetes.io/selected-node"


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, rename="camel", frozen=True):
    nominated_node_name: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status = _Status()


class _Event(msgspec.Struct):
    object: _Object


_read = msgspec.json.Decoder(_Event).decode
"""The watcher shares two cores with whom it watches: it reads no more than it needs."""


def claims_of(pod: str, number: int) -> list[str]:
    """The names of a pod's claims."""
    return [pod, *(f"{pod}.{place}" for place in range(1, number))][:number]


def pod_of(claim: str) -> str:
    return claim.partition(".")[0]


class DecisionWatch:
    """One scheduler's decisions, from `after` on. `claims`: how many each pod has; their names begin with the pod's."""

    def __init__(self, client: Client, after: str, *, claims: int, is_nominated: bool = True) -> None:
        self._client = client
        self._after = after
        self._claims_each = claims
        self._is_nominated = is_nominated
        self._nominated: dict[str, tuple[int, str]] = {}
        self._selected: dict[str, tuple[int, str]] = {}  # by claim
        self._placed: Counter[str] = Counter()  # claims with a node, by pod
        self._decided: asyncio.Queue[str] = asyncio.Queue()

    @property
    def early(self) -> list[str]:
        """Claims with a node that is older than their pod's nomination to it."""
        if not self._is_nominated:
            return []
        never = (1 << 63, "")
        return [name for name, at in self._selected.items() if self._nominated.get(pod_of(name), never)[0] > at[0]]

    async def names(self) -> AsyncIterator[str]:
        """The names of pods, as they are decided; each once."""
        watches = [self._pods() if self._is_nominated or not self._claims_each else None]
        watches.append(self._claims() if self._claims_each else None)
        tasks = [asyncio.create_task(each) for each in watches if each is not None]
        try:
            while True:
                yield await self._decided.get()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _pods(self) -> None:
        mark = b'"nominatedNodeName":' if self._claims_each else b'"nodeName":'
        bound: set[str] = set()
        async for told in self._events(PODS, mark):
            name = told.metadata.name
            if not self._claims_each and told.spec.node_name and name not in bound:
                bound.add(name)
                self._decided.put_nowait(name)
            elif self._claims_each and told.status.nominated_node_name and name not in self._nominated:
                self._nominated[name] = int(told.metadata.resource_version), told.status.nominated_node_name
                self._tell_whole(name)

    async def _claims(self) -> None:
        async for told in self._events(CLAIMS, SELECTED.encode()):
            name = told.metadata.name
            if SELECTED in told.metadata.annotations and name not in self._selected:
                self._selected[name] = int(told.metadata.resource_version), told.metadata.annotations[SELECTED]
                self._placed[pod_of(name)] += 1
                self._tell_whole(pod_of(name))

    def _tell_whole(self, name: str) -> None:
        if self._placed[name] == self._claims_each and (name in self._nominated or not self._is_nominated):
            self._decided.put_nowait(name)

    async def _events(self, path: str, mark: bytes) -> AsyncIterator[_Object]:
        async with self._client.stream(f"{path}?watch=true&resourceVersion={self._after}") as answer:
            async for line in answer.content:
                if mark in line:
                    yield _read(line).object
