"""A client for measuring on live servers: it makes objects, takes them away and watches, over many connections."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp

from tonnage.client.config import connection, kubeconfig

CLAIMS, PODS = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/namespaces/default/pods"


class Client:
    """A server as a kubeconfig names it, over many connections."""

    def __init__(self, file: Path) -> None:
        found = kubeconfig.load(file)
        self._url = found.cluster.server
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=connection.context_of(found.cluster), limit=32),
            headers={"Authorization": f"Bearer {found.user.token}", "Content-Type": "application/json"},
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def close(self) -> None:
        await self._session.close()

    async def post(self, path: str, body: dict[str, Any]) -> None:
        async with self._session.post(self._url + path, data=json.dumps(body)) as answer:
            assert answer.status in (201, 409), await answer.text()

    async def post_all(self, path: str, bodies: list[dict[str, Any]]) -> None:
        await asyncio.gather(*(self.post(path, body) for body in bodies))

    async def delete_all(self, path: str, names: list[str]) -> None:
        """Delete for good: no controller may be there that would take a claim's protection away."""
        plain = json.dumps({"metadata": {"finalizers": None}})
        patch = {"Content-Type": "application/merge-patch+json"}

        async def delete(name: str) -> None:
            async with self._session.patch(f"{self._url}{path}/{name}", data=plain, headers=patch) as answer:
                await answer.read()
            options = json.dumps({"gracePeriodSeconds": 0})
            async with self._session.delete(f"{self._url}{path}/{name}", data=options) as answer:
                await answer.read()

        await asyncio.gather(*(delete(name) for name in names))

    async def delete_collection(self, path: str) -> None:
        """Delete all that is there and nobody holds, in one request."""
        options = json.dumps({"gracePeriodSeconds": 0})
        async with self._session.delete(self._url + path, data=options) as answer:
            assert answer.status == 200, await answer.text()

    async def version(self, path: str) -> str:
        async with self._session.get(f"{self._url}{path}?limit=1") as answer:
            return str((await answer.json())["metadata"]["resourceVersion"])

    def stream(self, path: str) -> Any:
        return self._session.get(self._url + path)
