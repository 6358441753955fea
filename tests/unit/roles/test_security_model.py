"""docs/security-model.md names every program and every right that can be left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.roles import PROGRAMS, account_of, rules_of

PAGE = (Path(__file__).parents[3] / "docs" / "security-model.md").read_text()


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_table_has_the_program_and_what_it_can_do_without(program: str) -> None:
    (row,) = (line for line in PAGE.splitlines() if f"| `{account_of(program)}` |" in line)
    for right in {rule.right for rule in rules_of(program)} - {""}:
        assert f"`{right}`" in row
