"""Faults of an embedded cluster: what there is, set and cleared. The one topic that writes; off for real clusters.

GET    /api/v1/faults                  {"kinds": {"slow": {"meaning", "playedBy", "value"}}, "faults": [{"kind", …}]}
POST   /api/v1/faults                  {"kind": "slow", "nodes": ["node-1"], "value": 2}; without nodes it is for all
DELETE /api/v1/faults?kind=K&node=N    one fault; `node=` is the one for all nodes. Without kind and node: all of them
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tonnage.dashboard.follow.shown_cluster import FollowedFaults, ShownCluster
from tonnage.dashboard.server.access import RequestRefused
from tonnage.dashboard.server.router import RoutedRequest, Router, json_answer
from tonnage.faults import FAULT_FILE_NAME, KINDS, Fault, FaultFile, kind_of
from tonnage.plane.settings import require_node
from tonnage.private_files import NotOurs, require_own_folder

MOST_NODES: Final = 500
NOT_EMBEDDED: Final = "faults are for clusters of `tonnage up` alone, and this dashboard shows another"


def add(router: Router, cluster: ShownCluster, data_dir: Path | None) -> None:
    def faults() -> FaultFile:
        """Raises Refused where nothing may be made to go wrong."""
        if data_dir is None:
            raise RequestRefused(403, NOT_EMBEDDED)
        try:
            require_own_folder(data_dir)
        except NotOurs as exc:
            raise RequestRefused(403, f"faults are not set here: {exc.message}") from exc
        except OSError as exc:
            raise RequestRefused(403, f"faults are not set here: {data_dir}: {exc.strerror}") from exc
        return FaultFile(data_dir / FAULT_FILE_NAME)

    async def listed(asked: RoutedRequest) -> web.StreamResponse:
        return json_answer({"kinds": _kinds(), "faults": [asdict(each) for each in faults().all()]})

    async def put(asked: RoutedRequest) -> web.StreamResponse:
        file = faults()
        wanted = _wanted(await asked.json())
        for each in wanted:
            require_node(file.path.parent, each.node)
        for each in wanted:
            await asyncio.to_thread(file.put, each)
        return _told(file, wanted)

    async def clear(asked: RoutedRequest) -> web.StreamResponse:
        file, query = faults(), asked.query
        kind, node = query.get("kind", ""), query.get("node")
        if kind:
            kind_of(kind)
        if kind and node is not None:
            ended = await asyncio.to_thread(file.end, kind, node)
        else:
            ended = await asyncio.to_thread(file.clear, kind, node or "")
        return _told(file, ended)

    def _told(file: FaultFile, changed: Any) -> web.StreamResponse:
        FollowedFaults(cluster, file.path.parent).look()  # every browser sees it now, not at the next look
        return json_answer({"faults": [asdict(each) for each in changed]})

    router.get("/api/v1/faults", listed)
    router.post("/api/v1/faults", put)
    router.delete("/api/v1/faults", clear)


def _kinds() -> dict[str, dict[str, str]]:
    return {
        name: {"meaning": each.meaning, "playedBy": each.played_by, "value": each.value} for name, each in KINDS.items()
    }


def _wanted(said: Any) -> list[Fault]:
    """The faults that a body asks for. Raises Refused for a body that is none, and InvalidFault."""
    if not isinstance(said, dict) or not said.keys() <= {"kind", "nodes", "value"}:
        raise RequestRefused(400, 'a fault is {"kind": …, "nodes": […], "value": number}')
    kind, nodes, value = said.get("kind"), said.get("nodes", []), said.get("value", 0.0)
    if not isinstance(kind, str):
        raise RequestRefused(400, '"kind" is the name of a fault')
    if not isinstance(nodes, list) or len(nodes) > MOST_NODES or not all(isinstance(n, str) and n for n in nodes):
        raise RequestRefused(400, '"nodes" is a list of names of nodes; without it the fault is for all of them')
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RequestRefused(400, '"value" is a number')
    return [Fault(kind, node, float(value)) for node in nodes or [""]]
