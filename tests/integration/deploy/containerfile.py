"""A Containerfile, read as far as ours goes: stages, and their instructions in order."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)
    """(instruction, the rest of it), with continued lines joined."""

    def of(self, instruction: str) -> list[str]:
        return [rest for word, rest in self.steps if word == instruction]


def read_stages(path: Path) -> tuple[dict[str, str], list[Stage]]:
    """The arguments before the first stage, and the stages."""
    text = re.sub(r"(?m)^\s*#.*\n", "", path.read_text("utf-8"))
    text = re.sub(r"\\\n\s*", "", text)
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(base, name))
        elif not stages:
            assert word == "ARG", line
            name, _, value = rest.partition("=")
            arguments[name] = value
        else:
            stages[-1].steps.append((word, rest))
    return arguments, stages
