"""The documents keep up with the code: every part is in the tour, every command in the reference and in a document."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tonnage.cli import COMMANDS
from tonnage.gates import Gates
from tonnage_command import tonnage

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def test_the_tour_names_every_part_of_the_package():
    parts = [
        path for path in (ROOT / "src" / "tonnage").iterdir() if path.name[0] not in "_." and path.suffix in ("", ".py")
    ]
    missing = [path.name for path in parts if path.stem not in ARCHITECTURE]
    assert missing == []


def test_the_tour_names_every_folder_of_the_package():
    source = ROOT / "src" / "tonnage"
    folders = {path.parent.relative_to(source).as_posix() for path in source.rglob("__init__.py")} - {"."}
    named = set(re.findall(r"`([a-z0-9_/*.]+)`", ARCHITECTURE))
    missing = set()
    for folder in folders:
        top, _, inner = folder.partition("/")
        # In the paragraph of a package its own folders go without the package's name.
        own = " ".join(part for part in ARCHITECTURE.split("\n\n") if f"**{top}/**" in part)
        beside = set(re.findall(r"`([a-z0-9_/*.]+)`", own))
        if not (
            any(name.startswith(f"{folder}/") for name in named)
            or (any(name.startswith(f"{inner}/") for name in beside) if inner else own)
        ):
            missing.add(folder)
    assert missing == set(), "give each a line in docs/architecture.md"


def test_the_tour_ends_with_every_decision():
    decisions = [path.name for path in (ROOT / "docs" / "decisions").glob("*.md")]
    assert [name for name in decisions if f"(decisions/{name})" not in ARCHITECTURE] == []


def test_the_index_of_the_examples_has_every_example():
    index = (ROOT / "examples" / "README.md").read_text()
    examples = [path.parent.name for path in (ROOT / "examples").glob("*/README.md")]
    assert len(examples) > 20
    assert [name for name in examples if f"]({name}/README.md)" not in index] == []


def test_the_indexes_of_guides_and_concepts_have_every_page():
    for folder in ("guides", "concepts", "enhancements"):
        index = (ROOT / "docs" / folder / "index.md").read_text()
        pages = [path.name for path in (ROOT / "docs" / folder).glob("*.md") if path.name != "index.md"]
        assert [name for name in pages if f"]({name})" not in index] == [], folder


def test_every_file_that_the_tour_names_by_its_folder_is_there():
    source = ROOT / "src" / "tonnage"
    named = set(re.findall(r"`((?:[a-z0-9_]+/)+(?:[a-z0-9_]+\.py)?)`", ARCHITECTURE))
    assert len(named) > 30
    inner = {path.relative_to(source).as_posix() for path in source.rglob("*")}
    missing = {each for each in named if each.rstrip("/") not in inner and not (ROOT / each).exists()}
    # In the paragraph of a package its own folders go without the package's name.
    assert {each for each in missing if not any(path.endswith(f"/{each.rstrip('/')}") for path in inner)} == set()


def test_the_readme_is_short_and_names_the_two_commands_first():
    assert len(README.splitlines()) <= 120
    first = README.split("```")[1]
    assert "./tonnage demo" in first and "make test" in first


def test_documents_written_by_hand_name_every_command_and_every_gate():
    written = "\n".join(path.read_text() for path in (ROOT / "docs").rglob("*.md") if "reference" not in path.parts)
    assert [name for name in COMMANDS if f"tonnage {name}" not in written] == []
    assert [gate for gate in Gates.table() if f"{gate}" not in written] == []


def test_the_page_on_versions_agrees_with_what_doctor_goes_by():
    page = (ROOT / "docs" / "versions.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    minors = [int(each.rpartition("1.")[2]) for each in rows[0][1:-1]]
    words = {"off": "opt-in", "on": "default", "always on": "always"}
    by_gate = {row[-1].strip("`"): row for row in rows[1:] if len(row) == len(rows[0]) and row[-1].startswith("`")}
    assert len(by_gate) == 4
    for name, row in by_gate.items():
        states = {int(release.rpartition(".")[2]): stage for release, stage in Gates.table()[name].releases}
        for minor, cell in zip(minors, row[1:-1], strict=True):
            told = [stage.partition(", ")[2] for since, stage in sorted(states.items()) if since <= minor]
            assert cell.strip("*") == (words[told[-1]] if told else "no"), (name, minor)
    assert [gate for gate in Gates.table() if gate != "VolumeCapacityPriority" and gate not in page] == []


def test_every_link_between_documents_leads_somewhere():
    own = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    for document in [*own, *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            assert target.startswith("http") or (document.parent / target).exists(), f"{document}: {target}"


def test_every_make_target_in_the_documents_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in (README, (ROOT / "CONTRIBUTING.md").read_text()):
        assert set(re.findall(r"^make ([a-z-]+)", document, re.MULTILINE)) <= targets


def test_every_example_and_manifest_that_the_documents_name_is_there():
    named = re.compile(r"(?<![\w/.-])((?:examples|deploy)/[\w./-]+)")
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for path in named.findall(document.read_text()):
            assert (ROOT / path.rstrip(".")).exists(), f"{document.relative_to(ROOT)}: {path}"


@pytest.mark.process
def test_the_commands_on_files_of_the_documents_answer():
    shown = "\n".join([README, *(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))])
    commands = set(
        re.findall(r"^\./tonnage ((?:explain|fit|drain-preview) -f [^#\n]+?) *(?:#.*)?$", shown, re.MULTILINE)
    )
    assert {command.split()[0] for command in commands} >= {"explain", "drain-preview"}
    for command in commands:
        done = tonnage(*shlex.split(command), cwd=ROOT)
        assert done.returncode == 0 and done.stdout, f"{command}: {done.stderr}"
