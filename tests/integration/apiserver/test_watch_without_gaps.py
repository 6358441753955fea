"""A watch kept across thousands of writes sees each of them once, in order, also when it hangs up and comes back."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any

import aiohttp
import pytest

CONNECTIONS = 32


@pytest.mark.parametrize("writes", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_a_watch_sees_every_write_once_and_in_order(cluster, namespace, writes: int):
    path = f"{cluster.url}/api/v1/namespaces/{namespace}/configmaps"
    tls = ssl.create_default_context(cafile=str(cluster.folder / "pki" / "ca.crt"))
    headers = {"Authorization": f"Bearer {cluster.token}", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls, limit=0), headers=headers, timeout=aiohttp.ClientTimeout(total=240)
    ) as session:
        async with session.get(path) as listed:
            start = (await listed.json())["metadata"]["resourceVersion"]
        steady = asyncio.create_task(follow(session, path, start, writes, reconnect_every=0))
        restless = asyncio.create_task(follow(session, path, start, writes, reconnect_every=97))
        written = await write(session, path, writes // 4)
        for task in (steady, restless):
            seen = await task
            revisions = [revision for revision, _, _ in seen]
            assert revisions == sorted(set(revisions)), "an event came twice or out of order"
            known = [event for event in seen if event[1] != "DELETED"]
            assert known == sorted(written)
            # A deletion's answer tells no revision, so of deletions the names are compared; each came last of its name.
            gone = {name for _, kind, name in seen if kind == "DELETED"}
            assert len(gone) == writes // 4 and {name: kind for _, kind, name in seen} == dict.fromkeys(gone, "DELETED")


async def write(session: aiohttp.ClientSession, path: str, objects: int) -> list[tuple[int, str, str]]:
    """Creates, updates and deletes over many connections: (revision, event type, name) of every one of them."""
    done: list[tuple[int, str, str]] = []
    jobs = iter(range(objects))

    async def worker() -> None:
        for i in jobs:
            name = f"c{i}"
            async with session.post(path, data=json.dumps({"metadata": {"name": name}})) as answer:
                assert answer.status == 201
                done.append((revision_of(await answer.json()), "ADDED", name))
            for value in ("1", "2"):
                patch = json.dumps({"data": {"v": value}})
                merge = {"Content-Type": "application/merge-patch+json"}
                async with session.patch(f"{path}/{name}", data=patch, headers=merge) as answer:
                    assert answer.status == 200
                    done.append((revision_of(await answer.json()), "MODIFIED", name))
            async with session.delete(f"{path}/{name}") as answer:
                assert answer.status == 200

    await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))
    return done


def revision_of(doc: dict[str, Any]) -> int:
    return int(doc["metadata"]["resourceVersion"])


async def follow(
    session: aiohttp.ClientSession, path: str, start: str, expected: int, *, reconnect_every: int
) -> list[tuple[int, str, str]]:
    """Watch until so many events came; `reconnect_every` events hang up and go on from the last revision seen."""
    seen: list[tuple[int, str, str]] = []
    at = start
    while len(seen) < expected:
        async with session.get(f"{path}?watch=true&resourceVersion={at}") as stream:
            in_this_stream = 0
            async for line in stream.content:
                event = json.loads(line)
                assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
                meta = event["object"]["metadata"]
                at = meta["resourceVersion"]
                seen.append((int(at), event["type"], meta["name"]))
                in_this_stream += 1
                if len(seen) == expected or in_this_stream == reconnect_every:
                    break
    return seen
