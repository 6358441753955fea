"""A dashboard of objects that a test puts in, and requests to it, without a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from support.filled_cluster import FilledCluster
from tonnage.clock import SystemClock
from tonnage.dashboard.server.program import DashboardSettings, shown
from tonnage.gates import Gates
from tonnage.whatif.creation import Creation
from tonnage.whatif.sources import from_files

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKEN = "a-token-for-the-tests-alone"


def cluster_of_files(*files: Path) -> FilledCluster:
    """A cluster of the objects of manifests, told by the same words as a command tells of them."""
    state = from_files([str(each) for each in files], Creation(Gates()), with_workloads=True)
    cluster = FilledCluster(clock=state.clock, source=state.source)
    cluster.put(*state.objects, *state.workloads)
    return cluster


class Dashboard:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The code and the JSON of an answer."""
        async with self.session.request(method, path, json=body) as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def dashboard_of(cluster: FilledCluster | None = None, **settings: Any) -> AsyncIterator[Dashboard]:
    """A dashboard that is served while the block runs, and a client that has its token."""
    cluster = cluster or FilledCluster(clock=SystemClock())
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Tonnage-Dashboard": "1"}
    async with shown(cluster, DashboardSettings(port=0, token=TOKEN, **settings)) as address:
        base = address.partition("#")[0]
        async with aiohttp.ClientSession(base, headers=headers) as session:
            yield Dashboard(session)
