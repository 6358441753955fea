"""Size rules against a slow twin that counts up byte by byte, and laws that every rule keeps."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.objects.size_rules import SizeRules, driver_size, volume_size

SMALL = st.integers(1, 40)
ASKED = st.integers(0, 120)


@st.composite
def rule_texts(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Words of a value with unit bytes: small numbers, so that every edge is met."""
    words: list[tuple[str, int]] = []
    for above in draw(st.lists(st.integers(0, 60), max_size=3, unique=True)):
        words += [("step", draw(SMALL)), ("above", above)]
    for key in ("minimum", "overhead", "percent", "extent"):
        if draw(st.booleans()):
            words.append((key, draw(SMALL)))
    return words


def written(words: list[tuple[str, int]]) -> SizeRules:
    return SizeRules.parse(
        " ".join(f"overhead={number}%" if key == "percent" else f"{key}={number}" for key, number in words)
    )


def counted_up(words: list[tuple[str, int]], asked: int) -> tuple[int, int]:
    """The volume and the bytes taken, by counting one byte after the other."""
    told = dict(words)
    volume = asked
    while volume < told.get("minimum", 0):
        volume += 1
    steps = [(words[place + 1][1], number) for place, (key, number) in enumerate(words) if key == "step"]
    step = max([each for each in steps if volume > each[0]], default=(0, 1))[1]
    while volume % step:
        volume += 1
    taken = volume
    while taken < volume + told.get("overhead", 0) or (
        taken - volume - told.get("overhead", 0)
    ) * 100 < volume * told.get("percent", 0):
        taken += 1
    while taken % told.get("extent", 1):
        taken += 1
    return volume, taken


@settings(max_examples=tries(300))
@given(rule_texts(), ASKED)
def test_sizes_are_those_of_a_slow_twin(words: list[tuple[str, int]], asked: int):
    rules = written(words)
    assert (volume_size(rules, asked), driver_size(rules, asked)) == counted_up(words, asked)


@settings(max_examples=tries(200))
@given(rule_texts(), ASKED, ASKED)
def test_a_driver_never_takes_less_than_is_asked(words: list[tuple[str, int]], one: int, other: int):
    rules = written(words)
    assert driver_size(rules, one) >= volume_size(rules, one) >= one


@settings(max_examples=tries(200))
@given(rule_texts())
def test_the_order_of_words_does_not_matter(words: list[tuple[str, int]]):
    pairs = [
        words[place : place + 2] if key == "step" else [(key, number)]
        for place, (key, number) in enumerate(words)
        if key != "above"
    ]
    assert written([word for pair in reversed(pairs) for word in pair]) == written(words)
