"""What is counted while a text is read equals what it turns out to be, aliases expanded."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tonnage.objects.document import Budget, BudgetExceeded, Limits, encode, read_json, size_of
from tonnage.objects.texts.yaml_text import documents

NO_LIMITS = Limits(values=1 << 62, text_bytes=1 << 62, depth=1_000)
TEXTS = st.text(st.characters(max_codepoint=0xD7FF), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=30
)


@st.composite
def aliased_yaml(draw: st.DrawFn) -> str:
    """A list of values in flow style, each with an anchor, and aliases of those before it at any depth."""
    lines = []
    for number in range(draw(st.integers(1, 6))):
        lines.append(f"- &a{number} [{_flow(draw, number, levels=3)}]")
    return "\n".join(lines)


def _flow(draw: st.DrawFn, anchors: int, levels: int) -> str:
    kind = draw(st.sampled_from(["alias", "list", "map", "scalar"]))
    if kind == "alias" and anchors:
        return f"*a{draw(st.integers(0, anchors - 1))} "
    if kind == "list" and levels:
        return "[" + ", ".join(_flow(draw, anchors, levels - 1) for _ in range(draw(st.integers(0, 3)))) + "]"
    if kind == "map" and levels:
        size = draw(st.integers(0, 3))
        return "{" + ", ".join(f'"k{n}é": {_flow(draw, anchors, levels - 1)}' for n in range(size)) + "}"
    return json.dumps(draw(SCALARS))


@given(aliased_yaml())
def test_what_aliases_expand_to_is_counted_to_the_byte(text: str) -> None:
    budget = Budget(NO_LIMITS)
    value = next(documents(text, budget)).value
    size = size_of(value)
    assert (budget.values, budget.text_bytes) == (size.values, size.text_bytes)


@given(aliased_yaml())
def test_yaml_is_read_within_a_budget_of_its_size_and_within_none_smaller(text: str) -> None:
    value = next(documents(text, Budget(NO_LIMITS))).value
    exact = size_of(value)
    assert next(documents(text, Budget(Limits(*exact)))).value == value
    for part in range(len(exact)):
        less = [limit - (part == idx) for idx, limit in enumerate(exact)]
        try:
            next(documents(text, Budget(Limits(*less))))
        except Exception as exc:
            assert "exceeded" in vars(exc)
        else:
            raise AssertionError(f"{less} was enough for {exact}")


@given(VALUES)
def test_json_is_never_counted_below_its_size(value: Any) -> None:
    budget = Budget(NO_LIMITS)
    assert read_json(encode(value), budget) == value
    size = size_of(value)
    assert budget.values >= size.values and budget.text_bytes >= size.text_bytes


@given(VALUES)
def test_json_is_read_at_its_own_depth_and_at_none_smaller(value: Any) -> None:
    text, depth = encode(value), size_of(value).depth
    assert read_json(text, Budget(Limits(1 << 62, 1 << 62, depth))) == value
    if depth:
        try:
            read_json(text, Budget(Limits(1 << 62, 1 << 62, depth - 1)))
        except BudgetExceeded as exc:
            assert exc.is_depth
        else:
            raise AssertionError(f"depth {depth - 1} was enough for {text!r}")
