"""`tonnage drain-preview`: what it asks, what it answers, and that its documentation names every field."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tonnage.cli.questions import drain_preview
from tonnage.errors import TonnageError
from tonnage.whatif.drain.preview import Preview

ROOT = Path(__file__).parents[3]
MILL = ROOT / "examples" / "14-drain-preview" / "cluster.yaml"
SCHEMA = (ROOT / "docs" / "reference" / "json.md").read_text()


def ask(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(
        drain_preview, ["-f", str(MILL), *arguments], catch_exceptions=options.pop("catches", False), **options
    )


def answer(*arguments: str) -> dict[str, Any]:
    result = ask(*arguments, "-o", "json")
    assert result.exit_code == 0
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def keys(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        for key, value in found.items():
            yield key
            yield from keys(value)
    elif isinstance(found, list):
        for each in found:
            yield from keys(each)


def test_the_least_that_an_answer_holds():
    found = answer("mill-1")
    assert found["drained"] == ["mill-1"] and found["holds"] is False and found["partial"] is False
    for move in found["moves"]:
        assert {"pod", "from", "to", "volumes"} <= set(move)
        assert all(set(each) == {"claim", "action", "bytes"} for each in move["volumes"])
    assert all({"pod", "from", "message"} <= set(each) for each in found["stuck"])
    assert [each["pod"] for each in found["stuck"]] == ["mill/search-0"]


def test_every_field_of_the_answer_is_documented():
    told = set(keys(answer("mill-1", "mill-2", "--one-by-one"))) | set(keys(answer("mill-1", "mill-2")))
    assert sorted(told - set(re.findall(r"`([A-Za-z]+)`", SCHEMA))) == []


def test_the_same_question_gives_the_same_bytes():
    arguments = ("mill-1", "mill-2", "--one-by-one", "-o", "json")
    assert ask(*arguments).stdout == ask(*arguments).stdout


def test_a_node_that_is_not_there_is_an_error_with_those_that_are_like_it():
    with pytest.raises(TonnageError, match='there is no node "mil-1" among the 3 nodes') as refused:
        ask("mil-1")
    assert refused.value.hint is not None and "mill-1" in refused.value.hint


def test_without_a_node_it_was_asked_wrongly():
    assert ask(catches=True).exit_code == 2


def test_ctrl_c_ends_it_with_what_is_known(monkeypatch: pytest.MonkeyPatch):
    run = Preview.run

    def interrupted(self: Preview, step: Any = None) -> None:
        def stop(amount: float) -> None:
            raise KeyboardInterrupt

        run(self, stop)

    monkeypatch.setattr(Preview, "run", interrupted)
    result = ask("mill-1", "-o", "json")
    found = json.loads(result.stdout)
    assert result.exit_code == 130 and found["partial"] is True and found["survivesOneMore"]["holds"] is None
    assert [each["pod"] for each in found["moves"]] == ["mill/db-0", "mill/web-6fc8d-x7k2p"]
    table = ask("mill-1")
    assert table.exit_code == 130 and "interrupted: this is what is known so far" in table.stdout


PRESSED = """
import os, signal, sys
from tonnage.whatif.drain.rehearsal import Rehearsal
from tonnage.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
Rehearsal.lose = lambda self, name: os.kill(os.getpid(), signal.SIGINT)
main()
"""
"""The program, and somebody who presses Ctrl-C when the first node fails."""


def test_a_real_ctrl_c_is_exit_130_and_a_whole_json():
    command = [sys.executable, "-c", PRESSED, "drain-preview", "-f", str(MILL), "mill-1", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 130, done.stderr
    found = json.loads(done.stdout)
    assert found["partial"] is True and found["holds"] is False and "Traceback" not in done.stderr
