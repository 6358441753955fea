"""The reports beside the examples are what their commands answer now; `make reports` writes them again."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


def _script() -> ModuleType:
    loader = SourceFileLoader("write_reports", str(ROOT / "scripts" / "write-reports"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    found = module_from_spec(spec)
    loader.exec_module(found)
    return found


SCRIPT = _script()
MOST_BYTES = 200_000


def test_every_command_that_writes_html_has_a_report():
    commands = {command.split()[0] for command in SCRIPT.REPORTS.values()}
    assert commands == {"fit", "drain-preview", "simulate", "doctor"}


@pytest.mark.process
@pytest.mark.parametrize("example", SCRIPT.REPORTS)
def test_a_report_beside_an_example_is_current(example):
    written = (ROOT / "examples" / example / "report.html").read_text("utf-8")
    assert len(written.encode()) <= MOST_BYTES
    assert written == SCRIPT.report(example), "make reports writes it again"
