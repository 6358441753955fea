"""The frame of reports: contrast, sections, the same bytes; and that nobody else pays for it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from html import unescape
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from tonnage.cli import cli
from tonnage.clock import VirtualClock
from tonnage.printable import assembled, text
from tonnage.whatif.drain import preview as drain
from tonnage.whatif.drain.rehearsal import Scene
from tonnage.whatif.fit import fitting
from tonnage.whatif.fit.counting import Counted
from tonnage.whatif.html.html_page import HtmlPage
from tonnage.whatif.page import FittedTable
from tonnage.whatif.simulate import comparison_report
from tonnage.whatif.simulate.comparison import Comparison
from tonnage.whatif.sources import ClusterState

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
    page = HtmlPage("fit")
    page.section("a", "Here")
    page.say(text("text"))
    page.section("b", "Not here")
    found = page.html()
    assert "Here" in found
    assert "Not here" not in found
    assert found == page.html(), "the same bytes each time"
    assert found.startswith('<!doctype html>\n<html lang="en">')


def test_lines_keep_their_bold_and_coloured_words_and_their_depth():
    page = HtmlPage("doctor")
    page.section("error", "Errors")
    page.say(text("ERRORS", style="bold red"))
    page.say(text("driver", style="bold underline"), indent=2)
    page.say(assembled(("name", "bold red"), "  <", ("object", "bold")), indent=2)
    page.say(text("never mind", style="dim"), indent=4)
    page.table(FittedTable(("WHY", "run A"), "wn", [(text("no", "red"), "<x>")]))
    found = page.html().partition("</h2>")[2]
    assert found.startswith(
        '<h3 class="in">driver</h3><p class="in"><b class="bad">name</b>  &lt;<b>object</b></p>'
        '<p class="deep note">never mind</p><table>'
    ), "the section's own heading stands once"
    assert '<th scope="col">Why</th><th scope="col" class="name">run A</th>' in found
    assert '<span class="bad">no</span></th><td class="name">&lt;x&gt;</td>' in found


def test_a_partial_answer_says_so():
    page = HtmlPage("fit")
    assert "interrupted" not in page.html()
    page.title("Title", is_partial=True)
    assert "interrupted" in page.html()


def test_fit_on_many_nodes_draws_the_first_and_tells_all():
    counted = Counted(Counter({f"n{number}": 1 for number in range(50)}), is_cut=True, is_interrupted=True)
    asked, page = fitting.FitQuestion("Deployment shop/web", (), iter(()), 1), HtmlPage("fit")
    fitting.show(fitting.FitAnswer(asked, counted, 50), page)
    found = page.html()
    assert "10 nodes that take fewer are not drawn" in found
    assert all(f">n{number}<" in found for number in range(50))
    assert "Deployment shop/web: at least 50 more fit" in found
    assert "This was interrupted" in found


def test_a_drain_that_was_interrupted_early_is_a_page_too():
    page = HtmlPage("drain-preview")
    drain.show(drain.Preview(Scene(ClusterState([], "files", VirtualClock()), ()), ["a"]), page)
    assert "<h1>Draining a</h1>" in page.html()
    assert "this is what is known so far" in page.html()
    assert "This was interrupted" in page.html()


def test_a_simulation_without_a_run_is_a_page_too():
    page = HtmlPage("simulate")
    comparison_report.show(Comparison(0, is_partial=True), page)
    assert "no run" in page.html()


EXAMPLES = Path(__file__).parents[3] / "examples"
COMMANDS = (
    "fit -f {0}/13-fit/cluster.yaml -f {0}/13-fit/kafka.yaml --workload StatefulSet/default/kafka",
    "drain-preview -f {0}/14-drain-preview/cluster.yaml mill-1 mill-2 --one-by-one",
    "doctor -f {0}/16-doctor/dump",
)


@pytest.mark.parametrize("command", COMMANDS, ids=[command.split()[0] for command in COMMANDS])
def test_a_page_says_all_that_the_text_says(command: str) -> None:
    arguments = command.format(EXAMPLES).split()
    text_lines = CliRunner().invoke(cli, arguments).stdout.splitlines()
    page = unescape(re.sub(r"<[^>]*>", "", CliRunner().invoke(cli, [*arguments, "-o", "html"]).stdout))
    shown = "".join(page.casefold().split())
    parts = (part for line in text_lines for part in re.split(r" {2,}|, | ×[0-9]+|: ", line))
    assert [part for part in parts if "".join(part.casefold().split()) not in shown] == []


@pytest.mark.process
def test_commands_that_draw_nothing_do_not_load_the_library():
    code = "import sys, tonnage.cli.questions, tonnage.cli.simulate; print('leather' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
