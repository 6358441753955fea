"""The tutorial is done line by line, as a newcomer would, on a cluster of its own."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

import pytest
from console_blocks import ROOT, commands_of, is_shown, shell

TUTORIAL = ROOT / "docs" / "tutorial.md"


def test_what_is_printed_is_compared_with_what_is_shown():
    assert is_shown("a  b\nc\n", "a b\nc")
    assert is_shown("a … d\n", "a b\nc d\n")
    assert is_shown("a…\n", "a\n")
    assert not is_shown("a\n", "a\nb\n")
    assert not is_shown("a … d\n", "a d e\n")


def test_the_tutorial_waits_and_does_not_sleep():
    commands = commands_of(TUTORIAL)
    assert len(commands) > 25
    assert [each.text for each in commands if "sleep" in each.text] == []


def test_what_the_readme_says_to_try_is_what_the_tutorial_does():
    """So that the README's commands are executed too, all but the last, which only watches."""
    block = (ROOT / "README.md").read_text("utf-8").split("## Try it")[1].split("```")[1]
    lines = [re.sub(r"\s{2,}#.*", "", line).strip() for line in block.strip().splitlines()]
    assert lines.pop().endswith("--watch")
    done = {re.sub(r"\s*\\?\n\s*", " ", each.text) for each in commands_of(TUTORIAL)}
    assert [
        line for line in lines if line.replace("--data-dir ~/t ", "--data-dir ~/t --secure-port 0 ") not in done
    ] == []


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")
def test_the_tutorial_does_what_it_says_line_by_line():
    with tempfile.TemporaryDirectory(prefix="t") as folder, shell(Path(folder)) as running:
        for command in commands_of(TUTORIAL):
            running.run(command)
