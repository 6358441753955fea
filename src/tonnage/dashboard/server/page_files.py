"""The files of the pages, from the package: read once, told apart by what they hold, never looked up by a path that
somebody sends."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
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
    body = _with_links(found["/index.html"].body, [path for path in sorted(found) if path.endswith(".js")])
    found["/"] = found["/index.html"] = PageFile(body, _TYPES[".html"], _etag(body))
    return found


def _with_links(index: bytes, modules: Iterable[str]) -> bytes:
    """The page, naming every module: a browser that follows imports alone waits once for each step of the way.

    They give way to what is asked for meanwhile: the token is shown, and the state is on its way, while they come.
    """
    links = "".join(f'<link rel="modulepreload" fetchpriority="low" href="{path}">\n' for path in modules)
    return index.replace(b"</head>", links.encode() + b"</head>", 1)


def _gather(folder: Traversable, path: str, found: dict[str, PageFile]) -> None:
    for each in folder.iterdir():
        name = f"{path}/{each.name}"
        suffix = each.name[each.name.rfind(".") :]
        if each.is_dir():
            _gather(each, name, found)
        elif suffix in _TYPES:
            body = each.read_bytes()
            found[name] = PageFile(body, _TYPES[suffix], _etag(body))


def _etag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'
