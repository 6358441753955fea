"""What the documentation site needs beyond docs/: pages that lie elsewhere in the repository, and links that fit both.

Documents link to one another as files of the repository do, so that they can be read where they lie. In the site the
examples with their files, the change log and the pages on contributing and security stand beside the rest; a link to
source code keeps its text and leads nowhere, since a site does not know where its repository is. A link to anything
that does not exist stays as it is, and the strict build refuses it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent

MOVED = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "LICENSE": "license.txt",
    "README.md": "index.md",
}
"""Files outside docs/ that the site has, by where they stand in it. Its first page is its own."""

BESIDE = ("examples", "deploy")
"""Folders of the repository that the site takes as they are, as far as their files can be read in a browser."""
READABLE = {".md", ".yaml", ".yml", ".json", ".html", ".toml", ".py", ".txt", ".tpl", ".svg"}
NOT_FOUND = """\
<h1>This page is not here</h1>
<p>It may have another name now. Search for it above, or begin at <a href="/index.html">the first page</a>,
the <a href="/guides/index.html">guides</a> or the <a href="/reference/index.html">reference</a>.</p>"""
FOUND_BY_READER = re.compile(r"(?<!\\)(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Let the folders in the navigation stand for their pages."""
    named = set(_named(config.nav))
    config.nav = _spread(config.nav, named)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what lies outside docs/."""
    for path, uri in MOVED.items():
        if path != "README.md" and (ROOT / path).exists():
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    for path in _beside():
        uri = path.relative_to(ROOT).as_posix()
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links lead to where things stand in the site."""
    origin = _origin(page.file.src_uri)
    kept: list[str] = []

    def put_aside(block: re.Match[str]) -> str:
        kept.append(block[0])
        return f"\0{len(kept) - 1}\0"

    def follow(link: re.Match[str]) -> str:
        bang, text, target = link.groups()
        if re.match(r"[a-z]+:|#", target):
            return link[0]
        path, hash_sign, anchor = target.partition("#")
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
        uri = _uri(wanted)
        if uri is None:
            return text if not bang and (ROOT / wanted).exists() else link[0]
        there = posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
        return f"{bang}[{text}]({there}{hash_sign}{anchor})"

    without_code = FENCE.sub(put_aside, markdown)
    linked = FOUND_BY_READER.sub(follow, without_code)
    return re.sub(r"\0(\d+)\0", lambda number: kept[int(number[1])], linked)


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """Let the page for what is not there lead somewhere."""
    if template_name != "404.html":
        return output_content
    plain, found = "<h1>404 - Not found</h1>", output_content.count("<h1>404 - Not found</h1>")
    if found != 1:
        raise PluginError(f"the theme's 404.html has {plain!r} {found} times, and not once")
    return output_content.replace(plain, NOT_FOUND)


def _origin(uri: str) -> str:
    """Where a page of the site lies in the repository."""
    for path, moved in MOVED.items():
        if moved == uri and path != "README.md":
            return path
    return uri if uri.split("/")[0] in BESIDE else f"docs/{uri}"


def _uri(path: str) -> str | None:
    """Where a path of the repository stands in the site; None for one that does not."""
    if path in MOVED:
        return MOVED[path]
    top, _, rest = path.partition("/")
    found = ROOT / path
    if found.is_dir():
        for index in ("index.md", "README.md"):
            if (found / index).exists():
                return _uri(f"{path}/{index}")
        return None
    if top == "docs":
        return rest
    return path if top in BESIDE and found in set(_beside()) else None


def _beside() -> list[Path]:
    return [
        path
        for folder in BESIDE
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file()
        and path.suffix in READABLE
        and not any(part.startswith((".", "__")) for part in path.relative_to(ROOT).parts)
    ]


def _named(entries: Any) -> list[str]:
    if isinstance(entries, str):
        return [entries]
    if isinstance(entries, dict):
        return [name for value in entries.values() for name in _named(value)]
    return [name for entry in entries for name in _named(entry)]


def _spread(entries: Any, named: set[str]) -> Any:
    if isinstance(entries, dict):
        return {title: _spread(value, named) for title, value in entries.items()}
    if isinstance(entries, str):
        return entries
    spread: list[Any] = []
    for entry in entries:
        if isinstance(entry, str) and entry.endswith("/"):
            spread.extend(page for page in _pages(entry) if page not in named)
        else:
            spread.append(_spread(entry, named))
    return spread


def _pages(folder: str) -> list[str]:
    if folder.split("/")[0] in BESIDE:
        return [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / folder).glob("*/README.md"))]
    prefix = folder.removeprefix("./")
    return [f"{prefix}{path.name}" for path in sorted((ROOT / "docs" / prefix).glob("*.md"))]
