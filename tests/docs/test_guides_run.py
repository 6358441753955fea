"""Commands that documents show run, and print what is shown; and what programs are said to say, they can say."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from console_blocks import ON_A_CLUSTER, ROOT, commands_of, shell

DOCS = ROOT / "docs"
ELSEWHERE_RUN = {"tutorial.md", *ON_A_CLUSTER}
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.name not in ELSEWHERE_RUN and commands_of(path))
NEEDS_KUBECTL = [path for path in PAGES if any(each.text.startswith("kubectl ") for each in commands_of(path))]


def run(page: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="t") as folder, shell(Path(folder)) as running:
        for command in commands_of(page):
            running.run(command)


def test_guides_show_commands():
    named = {path.relative_to(DOCS).as_posix() for path in PAGES}
    assert {"guides/read-explain.md", "enhancements/kep-4049.md"} <= named


def test_every_guide_is_run():
    guides = {path.name for path in (DOCS / "guides").glob("*.md")} - {"index.md"}
    assert guides == {path.name for path in PAGES if path.parent.name == "guides"} | set(ON_A_CLUSTER)


QUICK = ("kep-4049", "read-explain")
"""What the others show, the tests of the examples compare too."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow)
        for path in PAGES
        if path not in NEEDS_KUBECTL
    ],
)
def test_a_page_shows_what_its_commands_print(page: Path):
    run(page)


@pytest.mark.slow
@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")
@pytest.mark.parametrize("page", NEEDS_KUBECTL, ids=lambda path: path.stem)
def test_a_page_with_a_cluster_shows_what_its_commands_print(page: Path):
    if any("openssl " in each.text for each in commands_of(page)) and shutil.which("openssl") is None:
        pytest.skip("openssl is not on the PATH")
    run(page)


def test_every_text_in_troubleshooting_is_one_that_programs_say():
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    said = re.sub(r'"\s*\n\s*f?"', "", source)  # a sentence over several lines
    said += os.strerror(errno.ECONNREFUSED).lower()  # the client repeats the system's words
    page = (DOCS / "guides" / "troubleshooting.md").read_text("utf-8")
    told = [
        text for row in re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE) for text in re.findall(r"`([^`/]{8,})`", row)
    ]
    assert len(told) > 20
    assert [text for text in told if text not in said] == []
