"""The documentation site builds strictly, and what is built asks no other host for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent
MOST_PICTURE_BYTES = 12_000


def _script(name: str) -> ModuleType:
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    found = module_from_spec(spec)
    loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("site")
    # Not --quiet: warnings that are not told do not count, and a dead link would be let pass.
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_document_is_a_page_of_the_site(site: Path):
    documents = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert [path for path in documents if not (site / path.with_suffix(".html")).exists()] == []
    examples = [path.parent.relative_to(ROOT) for path in (ROOT / "examples").glob("*/README.md")]
    assert [path for path in examples if not (site / path / "index.html").exists()] == []
    assert (site / "changelog.html").exists() and (site / "security.html").exists()


def test_every_document_is_in_the_navigation(site: Path):
    front = (site / "index.html").read_text("utf-8")
    documents = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    missing = [path.as_posix() for path in documents if f'href="{path.as_posix()}"' not in front]
    assert [path for path in missing if path != "index.html"] == []


def test_every_page_is_linked_from_the_text_of_another(site: Path):
    linked = {"index.html", "404.html"}
    for path in site.rglob("*.html"):
        article = re.search(r"<article.*?</article>", path.read_text("utf-8"), re.DOTALL)
        for target in re.findall(r'href="([^"#]+\.html)', article[0]) if article else ():
            if not target.startswith(("http", "/")):
                linked.add((path.parent / target).resolve().relative_to(site.resolve()).as_posix())
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "report.html"}
    assert {page for page in pages if not page.startswith("deploy/")} - linked == set()


def test_what_is_not_there_leads_somewhere(site: Path):
    page = (site / "404.html").read_text("utf-8")
    for target in ("index.html", "guides/index.html", "reference/index.html"):
        assert f'<a href="/{target}">' in page and (site / target).exists()


def test_the_demo_can_be_read_before_anything_has_moved():
    style = (ROOT / "docs" / "pictures" / "demo.svg").read_text("utf-8").split("<style>")[1].split("</style>")[0]
    assert "prefers-reduced-motion" in style and "print" in style
    seen = [float(each) for each in re.findall(r"opacity:([\d.]+)", style)]
    assert seen and min(seen) >= 0.4


def test_no_page_asks_another_host(site: Path):
    asked = re.compile(
        r"""<(?:script|img|iframe|source|video|link)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^"'\s>]+"""
    )
    for path in site.rglob("*.html"):
        found = [tag for tag in asked.findall(path.read_text("utf-8")) if 'rel="canonical"' not in tag]
        assert found == [], path
    for path in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        text = path.read_text("utf-8")
        assert re.findall(r"""(?:url\(|@import |href=)["']?(?:https?:)?//""", text) == [], path


@pytest.mark.parametrize("path", _script("draw-pictures").files().items(), ids=lambda entry: entry[0].stem)
def test_a_picture_is_current(path: tuple[Path, str]):
    assert path[0].read_text("utf-8") == path[1], "make pictures draws it again"


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "pictures").glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_is_small_and_says_what_it_shows(path: Path):
    text = path.read_text("utf-8")
    assert len(text.encode()) <= MOST_PICTURE_BYTES
    assert "<title" in text and ("<desc" in text or path.stem == "favicon")


FOLDERS, REGISTRIES = ("work", "root", "home"), (("pypi", "org"), ("docker", "io"), ("ghcr", "io"))
OF_A_MACHINE = (*(f"/{name}/" for name in FOLDERS), *(".".join(parts) for parts in REGISTRIES))
"""Where people keep checkouts, and where packages and images come from; in parts, so that the names stand nowhere."""


def test_documents_name_no_folder_of_a_machine_and_no_registry():
    texts = [ROOT / "README.md", ROOT / "mkdocs.yml", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.svg")]
    for path in texts:
        text = path.read_text("utf-8")
        assert [word for word in OF_A_MACHINE if word in text] == [], path
