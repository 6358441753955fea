"""The house has five rows; imports go down, never up and never sideways. The picture is data, every import is read.

See docs/architecture.md for the same picture in words.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "tonnage"

ROWS: tuple[tuple[str, ...], ...] = (
    ("errors", "quantity", "clock", "faults", "gates", "health", "logs", "metrics"),
    ("objects",),
    ("store", "client", "scheduling", "csi"),
    ("apiserver", "scheduler", "provisioner", "controllers", "node", "driver", "sim", "dashboard"),
    ("cli", "plane", "stories", "__main__", "testing"),
)
ROW_OF = {name: number for number, row in enumerate(ROWS) for name in row}
FREE_ROWS = (0, 4)  # the single files at the bottom and the programs at the top may know their neighbours


def module_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """The parts of tonnage that a file imports, wherever in it the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full"
            names = [node.module or ""]
            if node.module == "tonnage":
                names = [f"tonnage.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("tonnage.")}
    return found


FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_downwards_only(path: Path) -> None:
    here = module_of(path)
    assert here in ROW_OF, f"{here} has no place in the picture: add it to ROWS and to docs/architecture.md"
    for there in imports_of(path) - {here}:
        row, below = ROW_OF[here], ROW_OF[there]
        sideways = row == below and row not in FREE_ROWS
        assert below <= row and not sideways, (
            f"{path.relative_to(SOURCE)} (row {row + 1}) imports {there} (row {below + 1})"
        )
