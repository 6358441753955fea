"""What if: nodes drained, replicas added. Answers are those of the commands with -o json.

POST /api/v1/drain-preview  {"nodes": ["node-1"], "oneByOne": false}
POST /api/v1/fit            {"workload": "sts/shop/db"} or {"template": "YAML"}, "max": 10000
GET  /api/v1/workloads      {"workloads": ["StatefulSet/shop/db"]}: what `fit` may be asked about
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tonnage.dashboard.follow.shown_cluster import ShownCluster
from tonnage.dashboard.questions.asking import Asking
from tonnage.dashboard.questions.what_if import drained, fits, workloads_of
from tonnage.dashboard.server.access import RequestRefused
from tonnage.dashboard.server.router import RoutedRequest, Router, json_answer
from tonnage.whatif.fit import MOST


def add(router: Router, cluster: ShownCluster, asking: Asking) -> None:
    async def drain_preview(asked: RoutedRequest) -> web.StreamResponse:
        said = _object(await asked.json(), ("nodes", "oneByOne"))
        nodes, is_one_by_one = said.get("nodes"), said.get("oneByOne", False)
        if not isinstance(nodes, list) or not nodes or not all(isinstance(each, str) for each in nodes):
            raise RequestRefused(400, '"nodes" is a list of names of nodes, and has at least one')
        if not isinstance(is_one_by_one, bool):
            raise RequestRefused(400, '"oneByOne" is true or false')
        state = await cluster.state(with_workloads=True, with_memory=False)
        return json_answer(
            await asking.answer(lambda limit: drained(state, asking, limit, nodes, is_one_by_one=is_one_by_one))
        )

    async def fit(asked: RoutedRequest) -> web.StreamResponse:
        said = _object(await asked.json(), ("workload", "template", "max"))
        workload, template, most = said.get("workload", ""), said.get("template", ""), said.get("max", MOST)
        if not isinstance(workload, str) or not isinstance(template, str) or bool(workload) == bool(template):
            raise RequestRefused(400, 'give "workload" (KIND/NS/NAME) or "template" (YAML), one of the two')
        if not isinstance(most, int) or isinstance(most, bool) or not 0 <= most <= MOST:
            raise RequestRefused(400, f'"max" is a whole number up to {MOST:,}')
        state = await cluster.state(with_workloads=True, with_memory=False)
        return json_answer(
            await asking.answer(
                lambda limit: fits(state, asking, limit, workload=workload, template=template, most=most)
            )
        )

    async def workloads(asked: RoutedRequest) -> web.StreamResponse:
        state = await cluster.state(with_workloads=True, with_memory=False)
        return json_answer({"workloads": workloads_of([*state.objects, *state.workloads])})

    router.post("/api/v1/drain-preview", drain_preview)
    router.post("/api/v1/fit", fit)
    router.get("/api/v1/workloads", workloads)


def _object(said: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a question. Raises Refused for what is none, and for fields that nobody would read."""
    if not isinstance(said, dict):
        raise RequestRefused(400, f"the body is a JSON object with {', '.join(names)}")
    unknown = [each for each in said if each not in names]
    if unknown:
        raise RequestRefused(400, f'there is no field "{unknown[0]}"; there are {", ".join(names)}')
    return said
