"""Every story of the four enhancements, with the gates on and off, on a whole cluster: what `tonnage demo` runs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from tonnage.cli.up import run_suite
from tonnage.stories.suites import SUITES, Suite


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.title)
async def test_every_claim_of_every_story_holds(suite: Suite):
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        console = Console(record=True, width=160, highlight=False)
        failures = await run_suite(suite, Path(folder) / "suite", console)
        assert failures == [], console.export_text()
