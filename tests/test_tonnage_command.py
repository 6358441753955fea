"""A command that tests fork is as one that is started: the same answer, exit code, folder, environment and input."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tonnage_command import CLIENT, command_server, tonnage

pytestmark = pytest.mark.process

EXAMPLE = Path(__file__).parent.parent / "examples" / "02-explain"


@pytest.mark.parametrize(
    ("args", "stdin"),
    [
        (("explain", "-f", ".", "--pod", "shop/web-0"), ""),
        (("explain", "-f", "-", "--pending"), "apiVersion: v1\nkind: Nonsense\n"),
        (("explain", "--nonsense"), ""),
    ],
    ids=["an answer", "input", "wrong usage"],
)
def test_a_forked_command_is_as_a_started_one(args: tuple[str, ...], stdin: str):
    environment = {**os.environ, "COLUMNS": "70"}
    real = subprocess.run(
        [sys.executable, "-m", "tonnage", *args],
        input=stdin, cwd=EXAMPLE, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    forked = tonnage(*args, stdin=stdin, cwd=EXAMPLE, env=environment)
    assert (forked.returncode, forked.stdout, forked.stderr) == (real.returncode, real.stdout, real.stderr)


def test_a_shell_has_it_too():
    command = f"printf '' | {sys.executable} -I -S {CLIENT} {command_server()} explain --nonsense 2>&1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[0]) == (2, "error: No such option '--nonsense'.")


def test_one_that_does_not_end_is_ended(tmp_path: Path):
    with pytest.raises(TimeoutError, match=r"tonnage apiserver .* did not end within 3 s"):
        tonnage("apiserver", "--data-dir", str(tmp_path), "--secure-port", "0", timeout_s=3)
