"""Every story of the four enhancements, with the gates on and off, on a whole cluster: what `tonnage demo` plays."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from tonnage.cli.demo import play
from tonnage.stories.acts import ACTS, Act


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.title)
async def test_every_claim_of_every_story_holds(act: Act):
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        console = Console(record=True, width=160, highlight=False)
        failures = await play(act, Path(folder) / "act", console)
        assert failures == [], console.export_text()
