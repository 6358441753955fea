"""Files played on the map: a replay's or a scenario's, or those of an example.

GET  /api/v1/examples   {"examples": [{"name", "title", "about", "kind", "part"}]}
POST /api/v1/replay     {"files": [{"name": "steps.yaml", "text": "…"}], "seed": 0} or {"example": "03-replay/burst"}

The answer has frames: the message of the first is a state, that of each further one a difference, as of
/api/v1/changes; with a title, lines, the virtual time, and for a decision where the pod goes and why.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiohttp import web

from tonnage.dashboard.questions.asking import Asking
from tonnage.dashboard.questions.given_files import examples, files_of, sorted_out
from tonnage.dashboard.questions.playing import played
from tonnage.dashboard.server.access import RequestRefused
from tonnage.dashboard.server.router import RoutedRequest, Router, json_answer
from tonnage.whatif.manifest_errors import GivenText

MOST_FILES: Final = 500
_MOST_SEED: Final = 2**31


def add(router: Router, asking: Asking) -> None:
    async def listed(asked: RoutedRequest) -> web.StreamResponse:
        found = await asyncio.to_thread(examples)
        return json_answer(
            {
                "examples": [
                    {"name": each.name, "title": each.title, "about": each.about, "kind": each.kind, "part": each.part}
                    for each in found
                ]
            }
        )

    async def replay(asked: RoutedRequest) -> web.StreamResponse:
        said = await asked.json()
        if not isinstance(said, dict) or not said.keys() <= {"files", "example", "seed"}:
            raise RequestRefused(400, 'the body is {"files": [{"name", "text"}]} or {"example": name}')
        seed = said.get("seed", 0)
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < _MOST_SEED:
            raise RequestRefused(400, '"seed" is a whole number')
        name = said.get("example")
        if isinstance(name, str) and "files" not in said:
            files = await asyncio.to_thread(files_of, name)
        else:
            files = _files(said.get("files"))
        return json_answer(await asking.answer(lambda limit: played(sorted_out(files), asking, limit, seed=seed)))

    router.get("/api/v1/examples", listed)
    router.post("/api/v1/replay", replay)


def _files(said: Any) -> list[GivenText]:
    """The files of a body. Raises Refused."""
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
