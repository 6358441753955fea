"""What is below /api/v1, a module a topic: each adds its routes to the router."""

from __future__ import annotations

from pathlib import Path

from tonnage.dashboard.follow.shown_cluster import ShownCluster
from tonnage.dashboard.questions.asking import Asking
from tonnage.dashboard.server.router import Router
from tonnage.dashboard.server.routes import faults, replay, state, what_if, why

__all__ = ["routes_of"]


def routes_of(cluster: ShownCluster, data_dir: Path | None, asking: Asking | None = None) -> Router:
    """Every route of a dashboard for this cluster; `data_dir` is that of an embedded one, `asking` how the scheduler is
    configured that questions are decided by.
    """
    router = Router()
    asking = asking or Asking()
    state.add(router, cluster, data_dir)
    what_if.add(router, cluster, asking)
    faults.add(router, cluster, data_dir)
    why.add(router, cluster, asking)
    replay.add(router, asking)
    return router
