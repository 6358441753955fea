"""The examples that need a whole cluster, done by hand as their READMEs tell, and what they show compared.

A block of commands is run in a shell; the block right after it is what they print. `…` stands for lines left out, and
whatever differs each time (ages, addresses, generated names) is not compared. A command with `-w` that the text names
is left running, and the next block that follows no commands is what it shows.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from scene import whole_cluster

from support.eventually import eventually
from support.processes import Up
from support.programs import spawn

pytestmark = pytest.mark.kubectl

ROOT = Path(__file__).parent.parent.parent
FOLDER = "~/t"
"""The --data-dir of the READMEs."""
ELIDED = "…"
PROGRAMS = ("kubectl ", "./tonnage ", "export ")
DIFFERENT_EACH_TIME = (
    (r"\bpvc-[0-9a-f-]{36}", "pvc-…"),
    (r"\b\d+\.\d+\.\d+\.\d+\b", "address"),
    (r"-[0-9a-z]{8,10}-[0-9a-z]{5}\b", "-…"),
    (r"(?<=\s)\d+s( \(x\d+ over \d+s\))?(?=\s|$)", "age"),
    (r"volumes=\[\w+\]", "volumes=[…]"),
    (r"\s+", " "),
)


@dataclass
class Step:
    """Commands and what they print, or, without commands, what the command that is left running shows."""

    watch: str
    commands: str
    shown: str


def steps_of(readme: Path) -> list[Step]:
    """The steps of a README up to its `## How it was before`."""
    text = readme.read_text().partition("\n## ")[0]
    parts = re.split(r"^```\n(.*?)^```\n", text, flags=re.MULTILINE | re.DOTALL)
    steps: list[Step] = []
    for before, block in zip(parts[::2], parts[1::2], strict=False):
        if block.startswith(PROGRAMS):
            watch = re.search(r"`(kubectl [^`]* -w[^`]*)`", before)
            steps.append(Step(watch[1] if watch else "", block, ""))
        elif not before.strip():
            steps[-1].shown = block
        else:
            steps.append(Step("", "", block))
    return steps


def compared(text: str) -> list[str]:
    lines = []
    for line in text.splitlines():
        for pattern, instead in DIFFERENT_EACH_TIME:
            line = re.sub(pattern, instead, line)
        lines.append(line.strip())
    return lines


def missing(shown: str, printed: str) -> str:
    """The first line that a README shows and that is not printed after those before it; empty when all are."""
    found: Sequence[str] = compared(printed)
    for line in compared(shown):
        if line == ELIDED:
            continue
        if line not in found:
            return line
        found = found[found.index(line) + 1 :]
    return ""


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    pools = ("--pools", "node-1=100Gi", "--pools", "node-2=3x100Gi", "--pools", "node-3=2x60Gi")
    # What happens after the fifteen seconds of grace happens after one as well.
    with whole_cluster(*pools, "--attach-error-grace-seconds", "1") as running:
        yield running


# The limits come last: it takes ten seconds until all nodes see theirs again.
@pytest.mark.parametrize("example", ["09-a-database-on-pools", "11-several-claims", "10-attach-limits"])
def test_an_example_shows_what_its_readme_shows(up: Up, tmp_path: Path, example: str):
    environment = {**os.environ, "KUBECONFIG": str(up.kubeconfig), "HOME": str(tmp_path)}
    seen = tmp_path / "watch"
    with ExitStack() as stack:
        for step in steps_of(ROOT / "examples" / example / "README.md"):
            if step.watch:
                file = stack.enter_context(seen.open("w"))
                watch = subprocess.Popen(step.watch.split(), stdout=file, env=environment)
                stack.callback(watch.wait)
                stack.callback(watch.terminate)
                until_shown(seen, ELIDED)
            if step.commands:
                # The cluster is there already.
                commands = re.sub(r"^(\./tonnage up|export) .*\n", "", step.commands, flags=re.MULTILINE)
                done = subprocess.run(
                    ["bash", "-euc", commands.replace(FOLDER, str(up.folder))],
                    cwd=ROOT,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
                assert missing(step.shown, done.stdout) == "", f"is not printed by\n{commands}\n{done.stdout}"
            else:
                until_shown(seen, step.shown)


def test_one_number_shows_what_its_readme_shows(tmp_path: Path):
    """Its cluster is its own, and `tonnage pools` is left running in another terminal."""
    steps = steps_of(ROOT / "examples" / "20-one-number" / "README.md")
    first, *others = (step for step in steps if step.commands)
    flags = re.fullmatch(rf"\./tonnage up --data-dir {FOLDER} (.*)\n", first.commands)
    assert flags
    with whole_cluster(*shlex.split(flags[1])) as up, ExitStack() as stack:
        environment = {**os.environ, "KUBECONFIG": str(up.kubeconfig), "HOME": str(tmp_path)}
        for step in others:
            commands = re.sub(r"^export .*\n", "", step.commands, flags=re.MULTILINE).replace(FOLDER, str(up.folder))
            if commands.startswith("./tonnage "):
                program, *words = shlex.split(commands)
                assert program == "./tonnage"
                left = spawn(*words, log=tmp_path / "left-running.log")
                stack.callback(left.wait)
                stack.callback(left.send_signal, signal.SIGTERM)
                continue

            def printed(commands: str = commands) -> str:
                done = subprocess.run(
                    ["bash", "-euc", commands], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
                )
                return done.stdout + done.stderr

            def is_shown(text: str, shown: str = step.shown) -> bool:
                return missing(shown, text) == ""

            if step.shown:
                eventually(printed, f"{step.shown}to be printed by {commands}", holds=is_shown, within_s=120.0)
            else:
                assert "created" in printed()


def until_shown(file: Path, shown: str) -> None:
    """Wait until a file has these lines, and at least one."""
    eventually(file.read_text, f"{shown!r} to be printed", holds=lambda text: text and not missing(shown, text))
