"""Regular expressions as Go reads them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.objects.texts.go_regexp import InvalidPattern, compile_go


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("", ["", "anything"], []),
        ("lvmvg", ["lvmvg", "a-lvmvg-b"], ["lvm"]),
        ("^lvmvg$", ["lvmvg"], ["lvmvg2", "my-lvmvg", "lvmvg\n"]),
        ("^data-[[:digit:]]+$", ["data-1", "data-42"], ["data-", "data-x", "xdata-1"]),
        ("^data-[^[:alpha:]]$", ["data-1"], ["data-a"]),
        ("^(ssd|nvme)[0-9]{1,2}$", ["ssd1", "nvme12"], ["ssd", "ssd123", "hdd1"]),
        ("^a{2,}$", ["aa", "aaaa"], ["a", ""]),
        ("^a{,2}$", ["a{,2}"], ["aa"]),  # braces that are no repetition
        ("(?i)^VG$", ["vg", "Vg"], ["vgs"]),
        ("^(?i:vg)1$", ["VG1"], ["VG2"]),
        (r"\Avg\z", ["vg"], ["vg1"]),
        (r"\bvg\b", ["a vg b", "vg"], ["vgs"]),
        (r"^\Qvg.1\E$", ["vg.1"], ["vgx1"]),
        (r"^vg\.1$", ["vg.1"], ["vgx1"]),
        (r"^\x76\x{67}$", ["vg"], ["v"]),
        ("^a.c$", ["abc"], ["a\nc"]),
        ("(?s)^a.c$", ["a\nc"], ["ac"]),
        ("(?m)^b$", ["a\nb\nc"], ["ab"]),
        ("^(?P<disk>vg)(?:-x)?$", ["vg", "vg-x"], ["vg-y"]),
        ("^[]a]+$", ["]a"], ["b"]),
        ("^[a-]+$", ["a-a"], ["b"]),
        ("^(|a)$", ["", "a"], ["b"]),
        (r"^\d+\s\w$", ["1 _"], ["x y"]),
        (r"^\pL+\p{Nd}$", ["ä1", "abc2"], ["1", "a-1"]),
        (r"^[^\p{Lu}]\P{L}$", ["a1"], ["A1", "ab"]),
        (r"^\p{Greek}$", ["λ"], ["l"]),
    ],
)
def test_patterns_match_as_in_go(pattern: str, matching: list[str], others: list[str]) -> None:
    compiled = compile_go(pattern)
    assert [text for text in (*matching, *others) if compiled.search(text)] == matching


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "[", "[a", "a**", "*", "+a", "(?=a)", "(?!a)", "(?<=a)", r"\1", r"(a)\1", "(?>a)", "a{1001}", "a{3,2}",
     "[b-a]", "[[:nope:]]", r"\z\y", "\\", r"\p{Nope}", r"\p", "(?P<a", "(?x)a", "((((a{100}){100}){100}){100})",
     "(" * 500, r"\xZZ", r"\x{110000}"],
)  # fmt: skip
def test_what_go_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_go(pattern)


def test_a_pattern_that_backtracks_for_ever_elsewhere_takes_one_pass() -> None:
    assert not compile_go("^(a+)+$").search("a" * 5000 + "b")
    assert not compile_go("(a|aa)+$").search("a" * 2000 + "b")


@settings(max_examples=tries(60), deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", "(a|b)", "a*", "b+", "(ab)?", "b{1,2}", "^", "$"]),
                max_size=5).map("".join), st.text("ab-", max_size=6))  # fmt: skip
def test_what_python_and_go_both_know_means_the_same(pattern: str, text: str) -> None:
    in_python = re.compile(pattern.replace("$", r"\Z"))
    assert compile_go(pattern).search(text) == (in_python.search(text) is not None)
