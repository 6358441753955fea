"""An explanation as a table: what people see, to the letter, in a pipe and on terminals of any width."""

from __future__ import annotations

import io
import re

import pytest

from tonnage.scheduling.decision.explain import Explanation, NodeAnswer, PreemptionAnswer
from tonnage.whatif.explain_report import MAX_ROWS, print_explanation
from tonnage.whatif.page import FittedTable, TextPage

WEIGHTS = {"NodeResourcesFit": 1, "PodTopologySpread": 2, "TaintToleration": 3}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def fits(name: str, fit: int, spread: int = 100, taints: int = 300) -> NodeAnswer:
    scores = {"NodeResourcesFit": fit, "PodTopologySpread": spread, "TaintToleration": taints}
    return NodeAnswer(name, True, scores=scores, total=sum(scores.values()))


def refused(name: str, plugin: str = "NodeResourcesFit", *reasons: str) -> NodeAnswer:
    return NodeAnswer(name, False, plugin, reasons or ("Insufficient cpu",))


def piped(explanation: Explanation) -> str:
    out = io.StringIO()
    print_explanation(explanation, WEIGHTS, TextPage(out))
    return out.getvalue()


def test_the_answer_comes_first_then_who_fits_then_who_does_not():
    nodes = [
        fits("node-3", 90, spread=200),
        fits("node-1", 85, spread=100),
        refused("node-2", "TaintToleration", "node(s) had untolerated taint(s)"),
        refused("node-5"),
        refused("node-4"),
    ]
    assert piped(Explanation("shop/web", "node-3", "fits on 2 of 5 nodes", nodes)) == (
        "shop/web goes to node-3\n"
        "fits on 2 of 5 nodes\n"
        "\n"
        "  NODE    TOTAL  Fit  Spread×2\n"
        "* node-3    590   90       200\n"
        "  node-1    485   85       100\n"
        "the same on all of them: Taints×3 300\n"
        "\n"
        "REFUSED  BY                WHY                               NODES\n"
        "      2  NodeResourcesFit  Insufficient cpu                  node-5, node-4\n"
        "      1  TaintToleration   node(s) had untolerated taint(s)  node-2\n"
    )


def test_a_pod_that_does_not_fit_gets_the_message():
    message = "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory."
    nodes = [refused(name, "NodeResourcesFit", "Insufficient cpu", "Insufficient memory") for name in ("a", "b")]
    assert piped(Explanation("shop/web", "", message, nodes)) == (
        "shop/web does not fit\n"
        "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory.\n"
        "\n"
        "REFUSED  BY                WHY                                    NODES\n"
        "      2  NodeResourcesFit  Insufficient cpu, Insufficient memory  a, b\n"
    )


def test_without_nodes_there_are_no_tables():
    assert piped(Explanation("shop/web", "", "no nodes available to schedule pods", [])) == (
        "shop/web does not fit\nno nodes available to schedule pods\n"
    )


def test_a_pod_that_is_held_back_is_told_both():
    explanation = Explanation("shop/web", "a", "fits on 1 of 1 nodes", [NodeAnswer("a", True)])
    explanation.held_back = "waiting for scheduling gates: [backup]"
    assert piped(explanation) == (
        "shop/web is not tried: waiting for scheduling gates: [backup]\n"
        "otherwise it would go to a\n"
        "fits on 1 of 1 nodes\n"
        "\n"
        "  NODE\n"
        "* a\n"
        "the only node that fits; it is not scored\n"
    )
    explanation = Explanation("shop/web", "", "0/1 nodes are available.", [], held_back="waiting")
    assert piped(explanation).splitlines()[1] == "otherwise it would not fit"


def test_ties_are_told():
    nodes = [fits("b", 80), fits("a", 80), fits("c", 70)]
    assert piped(Explanation("shop/web", "b", "fits on 3 of 3 nodes", nodes)).splitlines()[4:] == [
        "* b       480   80",
        "  a       480   80",
        "  c       470   70",
        "the same on all of them: Spread×2 100, Taints×3 300",
        "2 nodes share the best total; one is drawn at random, always the same one for the same input",
    ]


def test_thousands_of_nodes_stay_readable():
    many = [fits(f"node-{number:04}", 100 - number % 50) for number in range(3000)]
    many.sort(key=lambda each: -each.total)
    nodes = [*many, *(refused(f"full-{number:04}") for number in range(1900))]
    nodes += [refused(f"odd-{number:04}", "NodeAffinity", f"node(s) had reason {number:03}") for number in range(100)]
    lines = piped(Explanation("shop/web", many[0].name, "fits on 3000 of 5000 nodes", nodes)).splitlines()
    # Two lines of headline, a blank, a head, 20 rows, three notes, a blank, a head, 20 groups, a note.
    assert len(lines) == 2 + 1 + 1 + MAX_ROWS + 3 + 1 + 1 + MAX_ROWS + 1
    assert lines[24] == "… and 2,980 more that fit, with totals down to 451"
    full = "full-0000, full-0001, full-0002 and 1,897 more"
    assert lines[29] == f"  1,900  NodeResourcesFit  Insufficient cpu        {full}"
    assert lines[30] == "      1  NodeAffinity      node(s) had reason 000  odd-0000"
    assert lines[-1] == "… and 81 more reasons for 81 nodes"


def test_a_chosen_node_that_is_not_among_the_best_is_shown_all_the_same():
    nodes = [fits(f"node-{number:02}", 100 - number) for number in range(30)]
    lines = piped(Explanation("shop/web", "node-29", "fits on node-29", nodes)).splitlines()
    assert [line for line in lines if line.startswith("*")] == ["* node-29    471   71"]


def test_names_and_reasons_are_text_and_no_markup():
    nodes = [refused("[red]a[/]", "Foreign", "reason [bold]x[/]")]
    assert "reason [bold]x[/]  [red]a[/]" in piped(Explanation("shop/[b]", "", "0/1 [x]", nodes))


def test_long_lines_are_not_broken_in_a_pipe():
    reason = "node(s) " + "very " * 100 + "long"
    assert reason in piped(Explanation("shop/web", "", reason, [refused("a" * 200, "Plugin", reason)]))
    assert not [
        line for line in piped(Explanation("p", "", reason, [refused("a")])).splitlines() if line != line.rstrip()
    ]


def on_terminal(explanation: Explanation, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    print_explanation(explanation, WEIGHTS, TextPage(out))
    return out.getvalue()


def test_colours_are_for_terminals(monkeypatch):
    explanation = Explanation("shop/web", "a", "fits on 2 of 2 nodes", [fits("a", 90), fits("b", 80)])
    assert "\x1b[" in on_terminal(explanation, 100, monkeypatch)
    assert "\x1b[" not in piped(explanation)


def test_a_narrow_terminal_sums_up_the_scores_that_tell_least(monkeypatch):
    nodes = [fits("node-1", 90, 200, 300), fits("node-2", 80, 100, 297), fits("node-3", 70, 0, 300)]
    explanation = Explanation("shop/web", "node-1", "fits on 3 of 3 nodes", nodes)
    shown = re.sub("\x1b\\[[0-9;]*m", "", on_terminal(explanation, 36, monkeypatch))
    assert [line.rstrip() for line in shown.splitlines()][3:] == [
        "  NODE    TOTAL  Spread×2  others",
        "* node-1    590       200     390",
        "  node-2    477       100     377",
        "  node-3    370         0     370",
        "others: Taints×3, Fit",
    ]
    assert max(map(len, shown.splitlines())) <= 36


def test_a_narrow_terminal_breaks_lists_between_names(monkeypatch):
    nodes = [
        refused(f"a-node-with-a-long-name-{n}", "TaintToleration", "node(s) had untolerated taint(s)") for n in "abc"
    ]
    shown = plain(on_terminal(Explanation("p", "", "no", nodes), 70, monkeypatch))
    assert [line.rstrip() for line in shown.splitlines()][3:] == [
        "REFUSED  BY               WHY            NODES",
        "      3  TaintToleration  node(s) had    a-node-with-a-long-name-a,",
        "                          untolerated    a-node-with-a-long-name-b,",
        "                          taint(s)       a-node-with-a-long-name-c",
    ]


def test_where_columns_do_not_fit_beside_each_other_each_cell_has_a_line(monkeypatch):
    nodes = [refused("node-1", "TaintToleration", "node(s) had untolerated taint(s)"), refused("node-2")]
    shown = plain(on_terminal(Explanation("p", "", "no", nodes), 36, monkeypatch))
    assert [line.rstrip() for line in shown.splitlines()][3:] == [
        "REFUSED  1",
        "BY       NodeResourcesFit",
        "WHY      Insufficient cpu",
        "NODES    node-2",
        "",
        "REFUSED  1",
        "BY       TaintToleration",
        "WHY      node(s) had untolerated",
        "         taint(s)",
        "NODES    node-1",
    ]


def test_what_all_rows_share_stands_above_a_table_that_is_too_wide():
    rows = [("shop/data", "dynamic", "shop/object-1", "none"), ("shop/data", "dynamic", "shop/object-2", "possible")]
    table = FittedTable(("CLAIM", "KIND", "CAPACITY OBJECT", "VERDICT"), "wnwn", rows)
    # 9 + 7 + 13 + 8 and three gaps of 2 are 43; without the first two columns it is 13 + 8 + 2.
    assert [line.plain.rstrip() for line in table.lines(42)] == [
        "CLAIM  shop/data",
        "KIND   dynamic",
        "",
        "CAPACITY OBJECT  VERDICT",
        "shop/object-1    none",
        "shop/object-2    possible",
    ]
    # One less than 23: row by row, and what is shared still stands above.
    assert [line.plain.rstrip() for line in table.lines(22)] == [
        "CLAIM  shop/data",
        "KIND   dynamic",
        "",
        "CAPACITY OBJECT  shop/object-1",
        "VERDICT          none",
        "",
        "CAPACITY OBJECT  shop/object-2",
        "VERDICT          possible",
    ]


def test_row_by_row_each_row_has_what_a_blank_repeats():
    table = FittedTable(("CLAIM", "NODES"), "nr", [("shop/a-long-name", "node-1"), ("shop/b", "")])
    assert [line.plain.rstrip() for line in table.lines(20)] == [
        "CLAIM  shop/a-long-name",
        "NODES  node-1",
        "",
        "CLAIM  shop/b",
        "NODES  node-1",
    ]


def plain(shown: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", shown)


LONG = "ip-10-0-" + "very-" * 30 + "long.eu-central-1.compute.internal"


@pytest.mark.parametrize("columns", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("names", [["node-1", "node-2", "node-3"], [LONG + n for n in "abc"], ["n" * 39 + "1"] * 3])
def test_no_width_breaks_a_name(columns, names, monkeypatch):
    fit, *rest = names
    answers = [fits(fit, 90, 100), fits(f"{fit}-b", 80, 200)]
    answers += [refused(name, "TaintToleration", "node(s) had untolerated taint(s)") for name in rest]
    explanation = Explanation(f"shop/{fit}", fit, f"fits on 2 of 4 nodes, of which {fit} failed it", answers)
    explanation.preemption = PreemptionAnswer(fit, (f"batch/{fit}", "batch/b"), 1)
    shown = plain(on_terminal(explanation, columns, monkeypatch))
    words = {word.strip(",:") for word in shown.split()}
    assert words >= {f"shop/{fit}", fit, f"{fit}-b", f"batch/{fit}", "TaintToleration", *rest}
    for line in shown.splitlines():  # only a word that is longer than the terminal runs over, beside its label at most
        assert len(line) <= columns or max(map(len, line.split())) > columns - len("REFUSED  "), line
    assert "…" not in shown


def test_a_pipe_is_the_same_whatever_the_environment_says(monkeypatch):
    nodes = [fits("node-1", 90), fits("node-2", 80), refused(LONG)]
    explanation = Explanation("shop/web", "node-1", "fits on 2 of 3 nodes", nodes)
    before = piped(explanation)
    for name, value in {"COLUMNS": "20", "FORCE_COLOR": "1", "TERM": "xterm-256color", "CLICOLOR_FORCE": "1"}.items():
        monkeypatch.setenv(name, value)
    assert piped(explanation) == before and "\x1b" not in before


def test_who_would_be_preempted_is_told():
    explanation = Explanation("shop/web", "", "0/1 nodes are available: 1 Insufficient cpu.", [refused("a")])
    explanation.preemption = PreemptionAnswer("a", tuple(f"batch/{n}" for n in range(7)), 2)
    assert piped(explanation).splitlines()[2] == (
        "preemption would make room on a: batch/0, batch/1, batch/2 and 4 more would go,"
        " 2 of 7 against a PodDisruptionBudget"
    )
