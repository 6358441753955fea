"""Every flag that a document writes after a command is one that the command takes."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from tonnage.cli import COMMANDS, cli

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")]
DOCUMENTS += (ROOT / "examples").rglob("README.md")
# A line of a block, or code within a sentence: `tonnage explain --pod NS/NAME`, up to a comment, a pipe or a semicolon.
WRITTEN = re.compile(r"(?:\./|\bkubectl |[ $`]|^)tonnage ([a-z-]+)((?:[^\n`#|;]|\\\n)*)", re.MULTILINE)


def flags_of(command: click.Command) -> set[str]:
    """What it takes, and what the commands below it take."""
    context = click.Context(command)
    found = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help", "-h"}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            found |= flags_of(inner) if inner is not None else set()
    return found


@pytest.fixture(scope="module")
def flags() -> dict[str, set[str]]:
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in COMMANDS}
    return {name: flags_of(command) for name, command in commands.items() if command is not None}


def test_every_flag_in_the_documents_is_one_that_its_command_takes(flags: dict[str, set[str]]):
    seen, wrong = 0, []
    for document in DOCUMENTS:
        for command, rest in WRITTEN.findall(document.read_text("utf-8")):
            if command not in flags:
                continue
            own = re.split(r" {3,}(?!-)|\bkubectl\b", re.sub(r"([\"']).*?\1", "", rest))[
                0
            ]  # not what is said beside it
            for flag in re.findall(r"(?<=[\s\[(])--[a-z][a-z-]*", own):
                seen += 1
                if not {flag, flag.replace("--no-", "--", 1)} & flags[command]:  # a switch can be said with --no-
                    wrong.append(f"{document.relative_to(ROOT)}: tonnage {command} {flag}")
    assert seen > 200
    assert wrong == []
