"""Charts: scales, steps, legends, and what they do with nothing, one point, or very much."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from tonnage.whatif.html.charts import COLOURS, WIDTH, Html, Table, bar_chart, element, line_chart, text
from tonnage.whatif.page import (
    MOST_TICKS,
    Axis,
    Series,
    byte_ticks,
    bytes_text,
    number_text,
    number_ticks,
    time_text,
    time_ticks,
)

PODS, TIME = Axis("pods"), Axis("time", time_ticks, time_text)
GI = 1024**3


def drawing(figure: Html) -> ET.Element:
    """The SVG of a figure."""
    found = re.search(r"<svg.*?</svg>", figure, re.DOTALL)
    assert found is not None
    return ET.fromstring(found[0])


def points(figure: Html) -> list[list[tuple[float, float]]]:
    """The points of each line, in pixels of the plot."""
    paths = [path.get("d", "") for path in drawing(figure).iterfind(".//path")]
    return [[(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", path)] for path in paths]


# -- amounts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0"),
        (512, "512 bytes"),
        (1024, "1Ki"),
        (180 * GI, "180Gi"),
        (1536 * GI, "1.5Ti"),
        (1024**4 - 1, "1Ti"),
        (2**63 - 1, "8Ei"),
        (2**80, "1,048,576Ei"),
    ],
)
def test_bytes_are_written_as_kubernetes_does(number, said):
    assert bytes_text(number) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0s"), (0.25, "0.25s"), (1.5, "1.5s"), (59.9, "59.9s"), (90, "1m30s"), (3600, "1h"), (93784, "1d2h")],
)
def test_times_have_their_two_largest_units(seconds, said):
    assert time_text(seconds) == said


def test_numbers_are_written_whole_where_they_are():
    assert number_text(12345) == "12,345"
    assert number_text(0.5) == "0.5"


@pytest.mark.parametrize("highest", [0.003, 0.5, 1, 3, 7, 10, 99, 100, 101, 12345, 1e9, 2**63, 1e30])
def test_steps_are_round_and_reach_the_highest(highest):
    ticks = number_ticks(highest)
    assert ticks[0] == 0
    assert ticks[-2] < highest <= ticks[-1] * (1 + 1e-9)
    assert 2 <= len(ticks) <= MOST_TICKS + 1
    leading = f"{ticks[1]:e}"[0]
    assert leading in "125"


@pytest.mark.parametrize("highest", [0, -1, float("nan"), float("inf")])
def test_an_axis_of_nothing_is_from_nought_to_one(highest):
    assert number_ticks(highest) == [0, 1]


def test_pods_are_counted_in_whole_steps():
    assert number_ticks(1, whole=True) == [0, 1]
    assert number_ticks(3, whole=True) == [0, 1, 2, 3]


def test_bytes_have_steps_in_their_unit():
    assert byte_ticks(3 * GI) == [0, *(0.5 * GI * each for each in range(1, 7))]
    assert byte_ticks(0) == [0, 1]
    assert byte_ticks(400 * GI)[-1] == 400 * GI


@pytest.mark.parametrize(("highest", "step"), [(7, 2), (60, 10), (3600, 600), (7200, 1800), (10 * 86400, 172800)])
def test_time_has_steps_of_a_clock_and_ends_where_it_ends(highest, step):
    ticks = time_ticks(highest)
    assert ticks[1] == step
    assert ticks[-1] <= highest
    assert len(ticks) <= MOST_TICKS + 1


def test_years_have_steps_too():
    ticks = time_ticks(10 * 365 * 86400.0)
    assert 2 <= len(ticks) <= MOST_TICKS + 1


# -- lines ------------------------------------------------------------------------------------------------------------


def test_a_line_goes_through_its_points_to_scale():
    figure = line_chart("a", "Pods", [Series("run", [(0, 0), (50, 5), (100, 10)])], TIME, PODS)
    ((start, middle, end),) = points(figure)
    assert start[0] == 0
    assert end[1] == 0, "the highest value is at the top"
    assert middle[0] == pytest.approx(end[0] / 2, abs=0.01)
    assert middle[1] == pytest.approx(start[1] / 2, abs=0.01)


def test_time_ends_at_the_right_edge():
    """119 s would be followed by 31 s of nothing if the axis ended at a round step."""
    figure = line_chart("a", "Pods", [Series("run", [(0, 0), (119, 1)])], TIME, PODS)
    ((_, end),) = points(figure)
    assert end[0] > WIDTH * 0.85


def test_each_line_has_its_colour_its_dashes_and_both_in_the_legend():
    series = [Series(f"run {number}", [(0, 0), (1, number)]) for number in range(8)]
    drawn = drawing(line_chart("a", "Pods", series, TIME, PODS))
    looks = [(path.get("stroke"), path.get("stroke-dasharray")) for path in drawn.iterfind(".//path")]
    samples = [line for line in drawn.iterfind(".//line") if line.get("x2") == "22"]
    assert len(set(looks[: len(COLOURS)])) == len(COLOURS)
    assert [(line.get("stroke"), line.get("stroke-dasharray")) for line in samples] == looks


def test_without_points_it_says_so_in_words():
    for series in ([], [Series("run", [])]):
        figure = line_chart("a", "Pods", series, TIME, PODS)
        assert "<svg" not in figure
        assert "nothing to draw" in figure


def test_one_point_is_a_dot():
    drawn = drawing(line_chart("a", "Pods", [Series("run", [(5, 3)])], TIME, PODS))
    assert len(drawn.findall(".//circle")) == 1


def test_a_line_at_nought_lies_on_the_axis():
    ((first, last),) = points(line_chart("a", "Pods", [Series("run", [(0, 0), (10, 0)])], TIME, PODS))
    assert first[1] == last[1] > 0


def test_huge_values_are_drawn_to_scale():
    ((_, middle, end),) = points(
        line_chart(
            "a", "Bytes", [Series("run", [(0, 0), (1, 2**62), (2, 2**63)])], TIME, Axis("b", byte_ticks, bytes_text)
        )
    )
    assert 0 <= end[1] < middle[1]


def test_a_chart_says_in_words_what_it_shows():
    drawn = drawing(line_chart("a", "Waiting", [Series("run", [(0, 1), (60, 9), (120, 2)])], TIME, PODS))
    assert drawn.get("role") == "img"
    assert drawn.get("aria-labelledby") == "a-title a-desc"
    assert drawn.findtext("title") == "Waiting"
    assert drawn.findtext("desc") == "pods by time. run: from 1 to 2, at most 9 at 1m."


def test_lines_with_other_times_share_one_table():
    figure = line_chart("a", "Pods", [Series("x", [(0, 1), (2, 2)]), Series("y", [(1, 3)])], TIME, PODS)
    rows = re.findall(r"<tr>(.*?)</tr>", figure)
    assert [re.findall(r">([^<]*)</t[hd]>", row) for row in rows] == [
        ["time", "x", "y"],
        ["0s", "1", ""],
        ["1s", "", "3"],
        ["2s", "2", ""],
    ]


# -- bars -------------------------------------------------------------------------------------------------------------


def test_bars_are_to_scale_in_their_order():
    drawn = drawing(bar_chart("a", "Pods", [("node-1", 4), ("node-2", 1), ("node-3", 0)], PODS))
    bars = drawn.findall(".//g[@class='series bars']/rect")
    by_height = sorted(bars, key=lambda bar: float(bar.get("y", "")))
    widths = [float(bar.get("width", "")) for bar in by_height]
    assert widths[0] == pytest.approx(4 * widths[1], abs=0.05)
    assert widths[2] == 0


def test_bars_of_one_name_do_not_hide_one_another():
    long = "a-very-long-name-that-differs-only-in-its-middle"
    names = [f"{long[:20]}{number}{long[20:]}" for number in range(3)] + ["twin", "twin"]
    drawn = drawing(bar_chart("a", "Pods", [(name, 1) for name in names], PODS))
    bars = drawn.findall(".//g[@class='series bars']/rect")
    assert len({bar.get("y") for bar in bars}) == 5


def test_no_bars_are_said_in_words():
    assert "nothing to draw" in bar_chart("a", "Pods", [], PODS)


# -- markup -----------------------------------------------------------------------------------------------------------


def test_text_is_escaped_and_made_visible_between_tags_and_in_attributes():
    bad = "</p>\"'&<script>\x00\u202e"
    assert element("p", bad, title=bad) == (
        '<p title="&lt;/p&gt;&quot;&#x27;&amp;&lt;script&gt;\\x00\\u202e">'
        "&lt;/p&gt;&quot;&#x27;&amp;&lt;script&gt;\\x00\\u202e</p>"
    )
    assert text(text("<")) == "&lt;", "what is HTML already is not escaped again"


def test_names_in_charts_are_escaped():
    bad = "</svg><script>\u202e"
    figure = line_chart("a", bad, [Series(bad, [(0, 0), (1, 1)]), Series("b", [(0, 0)])], TIME, PODS)
    figure = Html(figure + bar_chart("b", bad, [(bad, 1)], Axis(bad)))
    assert "<script>" not in figure
    assert "\u202e" not in figure
    drawing(figure)


def test_tables_of_numbers_say_so_once():
    assert Table(("a", "b"), [("1", "2")], kinds="").html().count("class=") == 1
    assert '<th scope="row" class="name">x</th><td class="n">1</td>' in Table(("", "n"), [("x", "1")]).html()
