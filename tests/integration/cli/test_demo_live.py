"""`tonnage demo`: chosen stories, one that is told to end before it is over, and one whose stories do not hold."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from rich.console import Console

from tonnage.cli.up import demo
from tonnage.errors import TonnageError
from tonnage.stories.story_runner import StoryRunner
from tonnage.stories.suites import STORIES, SUITES
from tonnage_command import tonnage


@contextmanager
def hearing_sigint() -> Iterator[None]:
    """A process that is started here hears SIGINT: one that a shell put into the background is born deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_demo_that_is_told_to_end_stops_its_cluster_and_leaves_no_folder(number: int, code: int):
    folder = Path(tempfile.mkdtemp(prefix="t"))  # sockets are below it
    try:
        command = [sys.executable, "-m", "tonnage", "demo"]
        environment = {**os.environ, "TMPDIR": str(folder)}
        with hearing_sigint():
            playing = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        with playing:
            try:
                assert playing.stdout is not None
                assert "with all four enhancements" in playing.stdout.readline()
                playing.send_signal(number)
                said, _ = playing.communicate(timeout=60)
            finally:
                playing.kill()
        assert playing.returncode == code  # 0 would say that every story held
        assert "passed" not in said
        assert list(folder.iterdir()) == []
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def nothing_holds(runner: StoryRunner) -> None:
    """A story that is not true"""
    runner.check("the earth is flat", False, "it is round")
    raise TonnageError("and then the stage breaks")


def test_a_claim_that_does_not_hold_is_shown_and_ends_the_demo_with_1(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "tonnage.stories.suites.SUITES", (replace(SUITES[0], title="a test", stories=(nothing_holds,)),)
    )
    done = CliRunner().invoke(demo)
    assert done.exit_code == 1
    assert "✗ the earth is flat\n      it is round\n  ✗ and then the stage breaks\n  failed" in done.stdout
    assert done.stderr.endswith("error: 2 of the checks above failed\n")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_on_a_terminal_lines_end_between_words_and_go_on_at_their_indent(is_terminal: bool):
    out = io.StringIO()
    console = Console(file=out, force_terminal=is_terminal, no_color=True, width=40)
    runner = StoryRunner(SimpleNamespace(settings=SimpleNamespace(faults=Path("x"))), console, clock=None)  # type: ignore[arg-type]
    runner.say("    db: node-1 is refused: node(s) did not have enough free storage")
    lines = ["    db: node-1 is refused: node(s) did", "    not have enough free storage"]
    assert out.getvalue().splitlines() == (lines if is_terminal else [lines[0] + lines[1][3:]])


def test_the_stories_are_listed_with_a_line_each():
    done = tonnage("demo", "--list")
    head, *lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr, head.split()[0]) == (0, "", "STORY")
    assert [line.split()[0] for line in lines] == list(STORIES)
    assert len(STORIES) == 14
    assert lines[4].split(maxsplit=1)[1] == "KEP-4049, story 1: room to grow, so the node with the most free storage"


def test_an_unknown_story_is_wrong_usage_that_lists_the_stories():
    done = tonnage("demo", "--only", "most-free-first", "--only", "most-fre-first")
    error, hint = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert error == f'error: there is no story "most-fre-first"; the stories are {", ".join(STORIES)}'
    assert hint == "hint: did you mean 'most-free-first'?"


def test_chosen_stories_are_played_without_a_log_line():
    """One of them kills the scheduler, which `tonnage up` would log; the other belongs to the second cluster."""
    chosen = ("the-decision-is-seen-and-survives", "claims-are-looked-at-one-by-one")
    done = tonnage("demo", "--only", chosen[1], "--only", chosen[0])
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    titles = [(each.__doc__ or "").strip() for each in STORIES.values()]
    lines = done.stdout.splitlines()
    assert [line for line in lines if line in titles] == [(STORIES[name].__doc__ or "").strip() for name in chosen]
    assert not any(re.match(r"[IWE]\d{4} ", line) for line in lines)
    assert lines[-1] == "all 2 stories passed"
