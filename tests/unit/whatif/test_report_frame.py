"""The frame of reports: contrast, sections, the same bytes; and that nobody else pays for it."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files
from typing import Any

import pytest

from tonnage.whatif.html.charts import HtmlPage
from tonnage.whatif.html.pages import drain_page, fit_page
from tonnage.whatif.html.simulate_page import simulate_page

CSS = (files("tonnage.whatif.html") / "report.css").read_text("utf-8")
LIGHT, DARK, PRINT = (
    dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
)

TEXTS = [(name, "paper") for name in ("ink", "muted", "link", "good", "warn", "bad")]
TEXTS += [("ink", "soft"), ("on-claim", "claim"), ("on-marked", "marked")]
SHAPES = [(f"series-{number}", "paper") for number in range(1, 7)]
SHAPES += [("claim", "paper"), ("marked", "paper"), ("claim", "soft"), ("muted", "soft")]


def contrast(one: str, other: str) -> float:
    """WCAG 2's ratio."""

    def luminance(colour: str) -> float:
        parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK, PRINT], ids=["light", "dark", "print"])
def test_text_and_shapes_have_enough_contrast(theme):
    assert len(theme) == len(LIGHT)
    assert [pair for pair in TEXTS if contrast(theme[pair[0]], theme[pair[1]]) < 4.5] == []
    assert [pair for pair in SHAPES if contrast(theme[pair[0]], theme[pair[1]]) < 3.0] == []


def test_paper_is_light_whatever_the_screen_is():
    assert PRINT == LIGHT
    assert "@media print" in CSS


def test_the_style_asks_nobody_for_anything():
    assert "url(" not in CSS
    assert "@import" not in CSS


def test_a_section_without_anything_is_left_out():
    page = HtmlPage("fit", "Title")
    page.section("a", "Here", "text")
    page.section("b", "Not here")
    found = page.html()
    assert "Here" in found
    assert "Not here" not in found
    assert found == page.html(), "the same bytes each time"
    assert found.startswith('<!doctype html>\n<html lang="en">')


def test_a_partial_answer_says_so():
    assert "interrupted" in HtmlPage("fit", "Title", is_partial=True).html()
    assert "interrupted" not in HtmlPage("fit", "Title").html()


def test_fit_on_many_nodes_draws_the_first_and_tells_all():
    answer = {
        "workload": "Deployment shop/web", "text": "at least 50 more fit", "count": 50, "atMost": 50, "preempting": [],
        "byNode": {f"n{number}": 1 for number in range(50)},
        "byZone": {}, "stops": [], "wouldHelp": [], "partial": True, "interrupted": True, "disks": [],
    }  # fmt: skip
    found = fit_page(answer).html()
    assert "10 nodes that take fewer are not drawn" in found
    assert all(f">n{number}<" in found for number in range(50))
    assert "≥ 50" in found
    assert "This was interrupted" in found


def test_a_drain_that_was_interrupted_early_is_a_page_too():
    answer: dict[str, Any] = {
        "drained": ["a"],
        "moves": [],
        "stuck": [],
        "holds": None,
        "bytesRebuilt": {"total": 0, "moves": []},
        "survivesOneMore": {"holds": None, "tried": 0, "notTried": 0, "complete": False, "failures": []},
        "disksBefore": [],
        "disksAfter": [],
        "partial": True,
    }
    found = drain_page(answer).html()
    assert "not known" in found
    assert "This was interrupted" in found


def test_a_simulation_without_a_run_is_a_page_too():
    assert "no run" in simulate_page({"seed": 0, "partial": True, "runs": {}, "differences": []}).html()


@pytest.mark.process
def test_commands_that_draw_nothing_do_not_load_the_library():
    code = "import sys, tonnage.cli.questions, tonnage.cli.simulate; print('leather' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
