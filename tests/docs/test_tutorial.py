"""The tutorial is done line by line, as a newcomer would, on a cluster of its own."""

from __future__ import annotations

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


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")
def test_the_tutorial_does_what_it_says_line_by_line():
    with tempfile.TemporaryDirectory(prefix="t") as folder, shell(Path(folder)) as running:
        for command in commands_of(TUTORIAL):
            running.run(command)
