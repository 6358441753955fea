"""The annotation `tonnage.dev/size-rules`: what is read, what is refused, and which sizes follow."""

from __future__ import annotations

import pytest

from tonnage.objects.size_rules import (
    NO_RULES,
    InvalidSizeRules,
    SizeRules,
    driver_size,
    problem_with_size_rules,
    rules_of,
    why_larger,
)
from tonnage.testing.storage_builders import storage_class

MI, GI = 1 << 20, 1 << 30
KNOWN = "the rules are step=, above=, minimum=, block-minimum=, overhead=, extent= and strict"


@pytest.mark.parametrize(
    "text", ["step=1Mi,step=1Gi,above=1Gi", "step=1Mi; step=1Gi above=1Gi", "step=1Gi above=1Gi\nstep=1Mi"]
)
def test_a_size_follows_the_step_with_the_highest_above_below_it(text: str):
    rules = SizeRules.parse(text)
    assert [driver_size(rules, asked) for asked in (1, GI, GI + 1, 10200 * MI)] == [MI, GI, 2 * GI, 10 * GI]


def test_sizes_that_no_step_is_for_stay_as_they_are():
    rules = SizeRules.parse("step=1Gi,above=1Gi,minimum=32Mi,strict")
    assert [driver_size(rules, asked) for asked in (1, 33 * MI + 7, GI + 1)] == [32 * MI, 33 * MI + 7, 2 * GI]
    assert rules.is_strict


def test_overhead_comes_after_the_steps_and_extents_last():
    # 1000Mi + 3% (30Mi) + 1Mi = 1031Mi, in extents of 4Mi: 1032Mi
    rules = SizeRules.parse("step=1Mi,overhead=3%,overhead=1Mi,extent=4Mi")
    assert driver_size(rules, 1000 * MI) == 1032 * MI
    # 100 bytes + 2.5% is 102.5, rounded up
    assert driver_size(SizeRules.parse("overhead=2.5%"), 100) == 103


def test_a_block_volume_has_a_minimum_of_its_own():
    rules = SizeRules.parse("minimum=300Mi,block-minimum=8Mi")
    assert (driver_size(rules, MI), driver_size(rules, MI, is_block=True)) == (300 * MI, 8 * MI)
    assert driver_size(SizeRules.parse("minimum=300Mi"), MI, is_block=True) == 300 * MI


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("above=1Gi", '"above=1Gi" does not follow a step=: it says which sizes that step is for'),
        ("step=1Gi,minimum=1Mi,above=1Gi", '"above=1Gi" does not follow a step=: it says which sizes that step is for'),
        ("step=1Mi,step=2Mi", '"step" is given twice for sizes above 0'),
        ("step=0", '"step=0" must be more than 0'),
        ("extent=0", '"extent=0" must be more than 0'),
        ("minimum=-1Mi", '"minimum=-1Mi" must not be negative'),
        ("minimum=1Mi,minimum=2Mi", '"minimum=2Mi" is a second minimum='),
        ("overhead=2", ""),
        ("overhead=lots", '"overhead=lots" has no amount such as "1Gi" or a share such as "2%"'),
        ("overhead=-2%", '"overhead=-2%" has no amount such as "1Gi" or a share such as "2%"'),
        ("step=1 GB", '"GB" is not known; ' + KNOWN),
        ("strict=true", '"strict=true" is not known; ' + KNOWN),
        ("", ""),
        (" , ", ""),
    ],
)  # fmt: skip
def test_bad_rules_are_refused_by_the_word_that_is_wrong(text: str, told: str):
    if not told:
        SizeRules.parse(text)
        return
    with pytest.raises(InvalidSizeRules) as caught:
        SizeRules.parse(text)
    assert caught.value.message == f'tonnage.dev/size-rules="{text}": {told}'


def test_rules_with_an_error_are_ignored_as_a_whole():
    of_class = storage_class(size_rules="step=1Gi,minimun=8Mi")
    assert rules_of(of_class) == NO_RULES
    assert '"minimun=8Mi" is not known' in problem_with_size_rules(of_class)


@pytest.mark.parametrize(
    ("text", "asked", "told"),
    [
        ("step=1Gi,above=1Gi", 10200 * MI, "10200Mi asked, the driver rounds up to whole Gi"),
        ("step=4Mi", 5 * MI, "5Mi asked, the driver rounds up to multiples of 4Mi"),
        ("minimum=300Mi,extent=4Mi", MI, "1Mi asked, the driver makes no volume below 300Mi"),
        ("extent=4Mi", 5 * MI, "5Mi asked, the driver takes whole extents of 4Mi"),
        ("overhead=3%,overhead=1Mi", GI, "1Gi asked, the driver adds 3% and 1Mi"),
        ("step=1Gi", GI, ""),
        ("", GI, ""),
    ],
)
def test_it_is_told_why_a_driver_takes_more(text: str, asked: int, told: str):
    assert why_larger(SizeRules.parse(text), asked) == told
