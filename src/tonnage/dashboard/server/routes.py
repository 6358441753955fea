"""The endpoints below /api/v1, with their parameters or answers (docs/reference/dashboard.md has these lines).

GET    /api/v1/faults                  {"kinds": {"slow": {"meaning", "playedBy", "value"}}, "faults": [{"kind", …}]}
POST   /api/v1/faults                  {"kind": "slow", "nodes": ["node-1"], "value": 2}; without nodes it is for all
DELETE /api/v1/faults?kind=K&node=N    one fault; `node=` is the one for all nodes. Without kind and node: all of them
GET  /api/v1/examples   {"examples": [{"name", "title", "about", "kind", "part"}]}
POST /api/v1/replay     {"files": [{"name": "steps.yaml", "text": "…"}], "seed": 0} or {"example": "03-replay/burst"}
GET /api/v1/about      {"version": "v1", "server": "https://…", "embedded": true, "commandFlags": "--kubeconfig FILE"}
GET /api/v1/state      the whole state, one message
GET /api/v1/changes    server-sent events: the state, then what changes; ?since=AT: what changed since that message
GET /api/v1/status     what is wrong now, worst first, and what has ended; as `tonnage status -o json`
GET /api/v1/history?since=AT    {"samples": […]}: an hour every 10 s, a day every 2 min; ?since=AT: those after AT
POST /api/v1/drain-preview  {"nodes": ["node-1"], "oneByOne": false}
POST /api/v1/fit            {"workload": "sts/shop/db"} or {"template": "YAML"}, "max": 10000
GET  /api/v1/workloads      {"workloads": ["StatefulSet/shop/db"]}: what `fit` may be asked about
GET /api/v1/pending                            what waits, by cause; ?full=true: node by node
GET /api/v1/objects/{resource}/{name}              {"yaml", "at"} of a node or a persistent volume, by its resource
GET /api/v1/objects/{resource}/{namespace}/{name}  as well, of a claim or a pod
GET /api/v1/pods/{namespace}/{name}            a pod's story
GET /api/v1/pods/{namespace}/{name}/explain    node by node, pool by pool, scores

Drain previews and fits answer like the commands with -o json. Only faults write, and only to embedded clusters. A
replay's frames have messages like those of /api/v1/changes (first a state, then differences), with a title, lines, the
virtual time, and for a decision the node and the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tonnage import __version__, private_files
from tonnage.clock import InvalidTime, parse_rfc3339
from tonnage.dashboard.model.shown_cluster import ShownCluster, look_at_faults
from tonnage.dashboard.questions import given_files, playing, pod_story
from tonnage.dashboard.questions.asking import Asking
from tonnage.dashboard.questions.cluster_questions import PendingAnswers, drained, fits, workloads_of
from tonnage.dashboard.server.access import RequestRefused
from tonnage.dashboard.server.app import Document, RoutedRequest, Router, json_answer
from tonnage.dashboard.server.change_stream import PackedState, change_stream, takes_gzip
from tonnage.dashboard.status.keeper import StatusKeeper
from tonnage.dashboard.wire import VERSION
from tonnage.faults import FAULT_FILE_NAME, KINDS, Fault, FaultFile, kind_of
from tonnage.objects.codec import resource_of
from tonnage.plane.settings import require_node
from tonnage.whatif.fit import MOST
from tonnage.whatif.manifests import GivenText

MOST_NODES: Final = 500
MOST_FILES: Final = 500
_MOST_SEED: Final = 2**31
NOT_EMBEDDED: Final = "faults are for clusters of `tonnage up` alone, and this dashboard shows another"


class Routes:
    """The answers. `data_dir`: the folder of an embedded cluster. `asking`: the configuration for questions.
    `command_flags`: what kubectl needs to reach the cluster from this machine."""

    def __init__(
        self, cluster: ShownCluster, data_dir: Path | None, asking: Asking, command_flags: str, status: StatusKeeper
    ) -> None:
        self._cluster, self._data_dir, self._asking = cluster, data_dir, asking
        self._command_flags, self._keeper = command_flags, status
        self._whole = PackedState(cluster.collections)
        self._pending = PendingAnswers(cluster, asking)

    def router(self) -> Router:
        router = Router()
        router.add("GET", "/api/v1/faults", self.faults)
        router.add("POST", "/api/v1/faults", self.put_faults)
        router.add("DELETE", "/api/v1/faults", self.clear_faults)
        router.add("GET", "/api/v1/examples", self.examples)
        router.add("POST", "/api/v1/replay", self.replay)
        router.add("GET", "/api/v1/about", self.about)
        router.add("GET", "/api/v1/state", self.state)
        router.add("GET", "/api/v1/changes", change_stream(self._cluster.collections))
        router.add("GET", "/api/v1/status", self.status)
        router.add("GET", "/api/v1/history", self.history)
        router.add("POST", "/api/v1/drain-preview", self.drain_preview)
        router.add("POST", "/api/v1/fit", self.fit)
        router.add("GET", "/api/v1/workloads", self.workloads)
        router.add("GET", "/api/v1/objects/{resource}/{name}", self.object_text)
        router.add("GET", "/api/v1/objects/{resource}/{namespace}/{name}", self.object_text)
        router.add("GET", "/api/v1/pending", self.pending)
        router.add("GET", "/api/v1/pods/{namespace}/{name}", self.story)
        router.add("GET", "/api/v1/pods/{namespace}/{name}/explain", self.explain)
        return router

    def _fault_file(self) -> FaultFile:
        """The fault file. Raises RequestRefused where faults are not allowed."""
        if self._data_dir is None:
            raise RequestRefused(403, NOT_EMBEDDED)
        try:
            private_files.require_own_folder(self._data_dir)
        except private_files.NotOurs as exc:
            raise RequestRefused(403, f"faults are not set here: {exc.message}") from exc
        except OSError as exc:
            raise RequestRefused(403, f"faults are not set here: {self._data_dir}: {exc.strerror}") from exc
        return FaultFile(self._data_dir / FAULT_FILE_NAME)

    async def faults(self, asked: RoutedRequest) -> Document:
        kinds = {
            name: {"meaning": kind.meaning, "playedBy": kind.played_by, "value": kind.value}
            for name, kind in KINDS.items()
        }
        return {"kinds": kinds, "faults": [asdict(each) for each in self._fault_file().all()]}

    async def put_faults(self, asked: RoutedRequest) -> Document:
        file = self._fault_file()
        wanted = _wanted_faults(await asked.json())
        for fault in wanted:
            require_node(file.path.parent, fault.node)
        for fault in wanted:
            await asyncio.to_thread(file.put, fault)
        return self._told(file, wanted)

    async def clear_faults(self, asked: RoutedRequest) -> Document:
        file, query = self._fault_file(), asked.request.query
        kind, node = query.get("kind", ""), query.get("node")
        if kind:
            kind_of(kind)
        if kind and node is not None:
            return self._told(file, await asyncio.to_thread(file.end, kind, node))
        return self._told(file, await asyncio.to_thread(file.clear, kind, node or ""))

    def _told(self, file: FaultFile, changed: Iterable[Fault]) -> Document:
        look_at_faults(self._cluster, file)  # every browser sees it now, not at the next poll
        return {"faults": [asdict(each) for each in changed]}

    async def examples(self, asked: RoutedRequest) -> Document:
        names = ("name", "title", "about", "kind", "part")
        found = await asyncio.to_thread(given_files.examples)
        return {"examples": [{name: getattr(example, name) for name in names} for example in found]}

    async def replay(self, asked: RoutedRequest) -> Document:
        said = await asked.json()
        if not isinstance(said, dict) or not said.keys() <= {"files", "example", "seed"}:
            raise RequestRefused(400, 'the body is {"files": [{"name", "text"}]} or {"example": name}')
        name, seed = said.get("example"), said.get("seed", 0)
        if not _is_whole(seed) or not 0 <= seed < _MOST_SEED:
            raise RequestRefused(400, '"seed" is a whole number')
        if isinstance(name, str) and "files" not in said:
            files = await asyncio.to_thread(given_files.files_of, name)
        else:
            files = _given_files(said.get("files"))
        return await self._asking.answer(
            lambda limit: playing.played(given_files.sorted_out(files), self._asking, limit, seed=seed)
        )

    async def about(self, asked: RoutedRequest) -> Document:
        return {
            "version": VERSION,
            "tonnage": __version__,
            "server": self._cluster.source,
            "embedded": self._data_dir is not None,
            "asksScheduler": self._cluster.asks_scheduler,
            "commandFlags": self._command_flags,
        }

    async def state(self, asked: RoutedRequest) -> Document | web.StreamResponse:
        if not takes_gzip(asked.request):
            return self._cluster.collections.state()
        answer = json_answer(await self._whole.packed())
        answer.headers["Content-Encoding"] = "gzip"
        return answer

    async def status(self, asked: RoutedRequest) -> Document:
        return await self._keeper.current()

    async def history(self, asked: RoutedRequest) -> Document:
        try:
            since = parse_rfc3339(asked.request.query["since"]) if "since" in asked.request.query else None
        except InvalidTime as exc:
            raise RequestRefused(400, f"since: {exc.message}") from exc
        return {"samples": self._keeper.log.samples(since)}

    async def drain_preview(self, asked: RoutedRequest) -> Document:
        said = _object(await asked.json(), ("nodes", "oneByOne"))
        nodes, is_one_by_one = said.get("nodes"), said.get("oneByOne", False)
        if not isinstance(nodes, list) or not nodes or not all(isinstance(node, str) for node in nodes):
            raise RequestRefused(400, '"nodes" is a list of names of nodes, and has at least one')
        if not isinstance(is_one_by_one, bool):
            raise RequestRefused(400, '"oneByOne" is true or false')
        state = await self._cluster.state(with_workloads=True, with_memory=False)
        return await self._asking.answer(
            lambda limit: drained(state, self._asking, limit, nodes, is_one_by_one=is_one_by_one)
        )

    async def fit(self, asked: RoutedRequest) -> Document:
        said = _object(await asked.json(), ("workload", "template", "max"))
        workload, template, most = said.get("workload", ""), said.get("template", ""), said.get("max", MOST)
        if not isinstance(workload, str) or not isinstance(template, str) or bool(workload) == bool(template):
            raise RequestRefused(400, 'give "workload" (KIND/NS/NAME) or "template" (YAML), one of the two')
        if not _is_whole(most) or not 0 <= most <= MOST:
            raise RequestRefused(400, f'"max" is a whole number up to {MOST:,}')
        state = await self._cluster.state(with_workloads=True, with_memory=False)
        return await self._asking.answer(
            lambda limit: fits(state, self._asking, limit, workload=workload, template=template, most=most)
        )

    async def workloads(self, asked: RoutedRequest) -> Document:
        state = await self._cluster.state(with_workloads=True, with_memory=False)
        return {"workloads": workloads_of([*state.objects, *state.workloads])}

    async def object_text(self, asked: RoutedRequest) -> Document:
        resource, namespace, name = asked.path["resource"], asked.path.get("namespace", ""), asked.path["name"]
        if resource not in pod_story.KINDS or resource_of(pod_story.KINDS[resource]).namespaced != bool(namespace):
            raise RequestRefused(
                404, f"there are objects of {', '.join(pod_story.KINDS)}, by namespace if they have one"
            )
        return await pod_story.object_text(self._cluster, resource, f"{namespace}/{name}" if namespace else name)

    async def pending(self, asked: RoutedRequest) -> Document:
        is_full = asked.request.query.get("full") == "true"
        return await (self._pending.whole() if is_full else self._pending.latest())

    async def story(self, asked: RoutedRequest) -> Document:
        return await pod_story.pod_story(self._cluster, _key(asked))

    async def explain(self, asked: RoutedRequest) -> Document:
        return await pod_story.explained(self._cluster, self._asking, _key(asked))


def _key(asked: RoutedRequest) -> str:
    return f"{asked.path['namespace']}/{asked.path['name']}"


def _wanted_faults(said: Any) -> list[Fault]:
    """The faults of a request body. Raises RequestRefused for an invalid body, and InvalidFault."""
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


def _given_files(said: Any) -> list[GivenText]:
    """The files of a request body. Raises RequestRefused."""
    wrong = RequestRefused(400, '"files" is a list of {"name": text, "text": text}')
    if not isinstance(said, list) or not said:
        raise wrong
    if len(said) > MOST_FILES:
        raise RequestRefused(413, f"there are {len(said):,} files, and at most {MOST_FILES} are read")
    found = []
    for each in said:
        if not isinstance(each, dict) or not each.keys() <= {"name", "text"}:
            raise wrong
        name, text = each.get("name"), each.get("text")
        if not isinstance(name, str) or not name or not isinstance(text, str):
            raise wrong
        found.append(GivenText(name[:253], text.encode(errors="replace")))
    return found


def _object(said: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a question. Raises RequestRefused for a body that is no object and for unknown fields."""
    if not isinstance(said, dict):
        raise RequestRefused(400, f"the body is a JSON object with {', '.join(names)}")
    unknown = [each for each in said if each not in names]
    if unknown:
        raise RequestRefused(400, f'there is no field "{unknown[0]}"; the fields are {", ".join(names)}')
    return said


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
