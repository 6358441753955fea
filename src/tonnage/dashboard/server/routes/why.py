"""Why pods are where they are, or wait.

GET /api/v1/pending                            what waits, by cause (questions/pending.py); ?full=true: node by node
GET /api/v1/pods/{namespace}/{name}            a pod's story (questions/pod_story.py)
GET /api/v1/pods/{namespace}/{name}/explain    node by node, pool by pool, scores (questions/pod_story.py)
"""

from __future__ import annotations

from aiohttp import web

from tonnage.dashboard.follow.shown_cluster import ShownCluster
from tonnage.dashboard.questions.asking import Asking
from tonnage.dashboard.questions.pending import PendingAnswers
from tonnage.dashboard.questions.pod_story import Explanations, pod_story
from tonnage.dashboard.server.router import RoutedRequest, Router, json_answer


def add(router: Router, cluster: ShownCluster, asking: Asking) -> None:
    pending_answers = PendingAnswers(cluster, asking)
    explanations = Explanations(cluster, asking)

    async def pending(asked: RoutedRequest) -> web.StreamResponse:
        is_full = asked.query.get("full") == "true"
        return json_answer(await (pending_answers.whole() if is_full else pending_answers.latest()))

    async def story(asked: RoutedRequest) -> web.StreamResponse:
        return json_answer(await pod_story(cluster, _key(asked)))

    async def explain(asked: RoutedRequest) -> web.StreamResponse:
        return json_answer(await explanations.of(_key(asked)))

    router.get("/api/v1/pending", pending)
    router.get("/api/v1/pods/{namespace}/{name}", story)
    router.get("/api/v1/pods/{namespace}/{name}/explain", explain)


def _key(asked: RoutedRequest) -> str:
    return f"{asked.path['namespace']}/{asked.path['name']}"
