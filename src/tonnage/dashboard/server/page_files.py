"""The files of the pages, from the package: read once, told apart by what they hold, never looked up by a path that
somebody sends."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import web

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    body: bytes
    content_type: str
    etag: str

    def answer(self, request: web.BaseRequest) -> web.Response:
        headers = {"Content-Type": self.content_type, "Cache-Control": "no-cache", "ETag": self.etag}
        if request.headers.get("If-None-Match") == self.etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, headers=headers)


def page_files() -> dict[str, PageFile]:
    """Every file of the pages by its path on the server; `/` is index.html."""
    found: dict[str, PageFile] = {}
    _gather(files("tonnage.dashboard") / "pages", "", found)
    found["/"] = found["/index.html"]
    return found


def _gather(folder: Traversable, path: str, found: dict[str, PageFile]) -> None:
    for each in folder.iterdir():
        name = f"{path}/{each.name}"
        suffix = each.name[each.name.rfind(".") :]
        if each.is_dir():
            _gather(each, name, found)
        elif suffix in _TYPES:
            body = each.read_bytes()
            found[name] = PageFile(body, _TYPES[suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')
