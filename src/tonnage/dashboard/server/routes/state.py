"""The state and its changes, and what this dashboard is of.

GET /api/v1/about      {"version": "v1", "server": "https://…", "embedded": true}
GET /api/v1/state      the whole state, one message
GET /api/v1/changes    server-sent events: the state, then what changes; ?since=AT: what changed since that message
"""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

from tonnage import __version__
from tonnage.dashboard.follow.shown_cluster import ShownCluster
from tonnage.dashboard.server.change_stream import PackedState, change_stream, takes_gzip
from tonnage.dashboard.server.router import RoutedRequest, Router, json_answer
from tonnage.dashboard.wire.rows import VERSION


def add(router: Router, cluster: ShownCluster, data_dir: Path | None) -> None:
    whole = PackedState(cluster.collections)

    async def about(asked: RoutedRequest) -> web.StreamResponse:
        return json_answer(
            {
                "version": VERSION,
                "tonnage": __version__,
                "server": cluster.source,
                "embedded": data_dir is not None,
                "asksScheduler": cluster.asks_scheduler,
            }
        )

    async def state(asked: RoutedRequest) -> web.StreamResponse:
        if not takes_gzip(asked.request):
            return json_answer(cluster.collections.state())
        answer = json_answer(await whole.packed())
        answer.headers["Content-Encoding"] = "gzip"
        return answer

    router.get("/api/v1/about", about)
    router.get("/api/v1/state", state)
    router.get("/api/v1/changes", change_stream(cluster.collections))
