"""The forkserver loads ahead what its programs import when they run: what is missing there, each child loads itself."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tonnage.cli import COMMANDS
from tonnage.cli.forkserver import PROGRAMS, modules_of

ON_REQUEST = (
    *("tonnage.scheduler.open_telemetry", "tonnage.scheduler.recording_file", "tonnage.scheduling.recording"),
    *("tonnage.whatif.page", "tonnage.whatif.html.html_page"),
)
"""Loaded only by those who ask for traces, for recordings, or for an answer as a page, which no program prints."""


def test_every_program_that_is_loaded_ahead_is_a_command_that_is_there():
    for name in PROGRAMS:
        assert all(find_spec(module) is not None for module in modules_of(name)), name


def imported_when_run(module: str) -> set[str]:
    """What the functions of a module import, and those of the modules of the command line that it imports."""
    found: set[str] = set()
    seen, waiting = set(), [module]
    while waiting:
        each = waiting.pop()
        if each in seen or not each.startswith("tonnage.cli."):
            continue
        seen.add(each)
        spec = find_spec(each)
        assert spec is not None and spec.origin is not None
        tree = ast.parse(Path(spec.origin).read_text())
        waiting += [node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
        functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        for node in (inner for function in functions for inner in ast.walk(function)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tonnage."):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                found |= {name if find_spec_of(name) else node.module for name in names}
    return {name for name in found if not name.startswith(("tonnage.cli.", *ON_REQUEST))}


def find_spec_of(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is no package
        return False


_LOADED_AFTER_EACH = """
import importlib, json, sys
told = {}
for program, modules in json.loads(sys.argv[1]).items():
    for each in modules:
        importlib.import_module(each)
    told[program] = [each for each in sys.modules if each.startswith("tonnage.")]
print(json.dumps(told))
"""


def test_what_a_program_imports_when_it_runs_is_loaded_ahead() -> None:
    asked = json.dumps({program: modules_of(program) for program in PROGRAMS})
    told = subprocess.run(
        [sys.executable, "-c", _LOADED_AFTER_EACH, asked], capture_output=True, check=True, timeout=120
    )
    for program, loaded in json.loads(told.stdout).items():
        assert imported_when_run(COMMANDS[program]) - set(loaded) == set(), program
