"""Properties are tried with the same examples in every run, unless others are asked for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

from examples_tried import ALL_EXAMPLES, tries

ROOT = Path(__file__).resolve().parent.parent
IS_RANDOM = bool(os.environ.get("TONNAGE_RANDOM_EXAMPLES"))


@pytest.mark.skipif(IS_RANDOM, reason="random examples were asked for")
def test_examples_are_the_same_in_every_run():
    chosen = hypothesis.settings()
    assert chosen.derandomize and chosen.database is None and chosen.deadline is None


@pytest.mark.skipif(IS_RANDOM, reason="random examples were asked for")
@pytest.mark.skipif(not hasattr(providers, "_get_local_constants"), reason="this hypothesis has no such constants")
def test_examples_do_not_depend_on_the_modules_that_are_imported():
    assert len(providers._get_local_constants()) == 0


def test_no_file_chooses_for_itself_whether_its_examples_repeat():
    """`make properties` looks for others in all of them."""
    own = re.compile(r"settings\([^)]*derandomize")
    found = [path for path in (ROOT / "tests").rglob("*.py") if own.search(path.read_text("utf-8"))]
    assert found == []


def test_the_quick_suite_tries_a_third_of_them(monkeypatch: pytest.MonkeyPatch):
    for each in ALL_EXAMPLES:
        monkeypatch.delenv(each, raising=False)
    assert [tries(300), tries(20), tries(12), tries(6)] == [100, 12, 12, 6]
    monkeypatch.setenv(ALL_EXAMPLES[0], "1")
    assert tries(300) == 300


@pytest.mark.slow
def test_random_examples_are_run_with_a_seed_that_is_told():
    command = [sys.executable, "scripts/run-properties", "--minutes", "0", "tests/unit/test_printable.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^round 1: TONNAGE_RANDOM_EXAMPLES=1 pytest --hypothesis-seed=\d+$", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("no failure; rounds: 1\n")
