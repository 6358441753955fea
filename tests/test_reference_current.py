"""docs/reference/ is what the code says now (`make reference` writes it again), and names what the code names."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import click
import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tonnage"
REFERENCE = ROOT / "docs" / "reference"


def _script() -> ModuleType:
    loader = SourceFileLoader("write_reference", str(ROOT / "scripts" / "write-reference"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    found = module_from_spec(spec)
    before = list(sys.path)
    loader.exec_module(found)
    sys.path[:] = [*before, str(ROOT / "scripts")]
    return found


FILES: dict[Path, str] = _script().files()


@cache
def literals() -> set[str]:
    """Every text of the package that is not a docstring, of files in which there is something to look for."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        if "tonnage.dev" not in text and '"/' not in text:
            continue
        tree = ast.parse(text)
        prose = {
            id(statement.value)
            for node in ast.walk(tree)
            if isinstance(body := getattr(node, "body", None), list)
            for statement in body
            if isinstance(statement, ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                found.add(node.value)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_page_of_the_reference_is_current(path: Path):
    assert path.exists(), "make reference writes it"
    assert path.read_text("utf-8") == FILES[path], f"{path.name}: make reference writes it again"


def test_there_is_no_page_that_nobody_writes():
    pages = set(REFERENCE.glob("*.md")) | set((REFERENCE / "schemas").glob("*.json"))
    assert pages - set(FILES) - {REFERENCE / "index.md"} == set()


def test_the_index_leads_to_every_page():
    index = (REFERENCE / "index.md").read_text("utf-8")
    assert [path.name for path in FILES if path.suffix == ".md" and f"]({path.name})" not in index] == []


def test_every_name_of_ours_that_the_code_uses_is_in_the_reference():
    from reference.names import OURS

    used = {name for text in literals() for name in re.findall(r"(?:[a-z][a-z.-]*\.)?tonnage\.dev/[a-z0-9-]+", text)}
    documented = {each.name for each in OURS}
    assert len(used) > 10
    assert used - documented == set(), "add it to scripts/reference/names.py and run make reference"
    assert {name for name in documented if not any(name in text for text in literals())} == set()


def test_every_page_that_a_program_serves_is_in_the_reference():
    from reference.endpoints import PAGES

    page = re.compile(r"/(?:debug/[a-z]+|[a-z]+z|metrics)")
    used = {text for text in literals() if page.fullmatch(text)}
    assert used - {path for path, _, _ in PAGES} == set(), "add it to scripts/reference/endpoints.py"
    assert {path for path, _, _ in PAGES} - used == set(), "a page that nobody serves"


def test_the_ports_of_the_programs_are_those_of_their_flags():
    from reference.endpoints import SERVED

    from tonnage.cli import cli

    for program, flags, port, _ in SERVED:
        command = cli.get_command(click.Context(cli), program.strip("`").removeprefix("tonnage "))
        assert command is not None, program
        options = {name: each for each in command.params for name in each.opts}
        named = re.findall(r"--[a-z-]+", flags)
        assert set(named) <= set(options), program
        told = [str(options[name].default) for name in named if name == "--secure-port"]
        assert told in ([], [port]), program


def test_every_command_and_gate_has_its_place():
    from tonnage.cli import COMMANDS
    from tonnage.gates import Gates

    commands, gates = FILES[REFERENCE / "commands.md"], FILES[REFERENCE / "gates.md"]
    assert [name for name in COMMANDS if f"\n## tonnage {name}\n" not in commands] == []
    assert [gate for gate in Gates.table() if f"| `{gate}` |" not in gates] == []
