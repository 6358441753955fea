"""JSON is YAML in flow style: read as YAML, every JSON document means what it means."""

from __future__ import annotations

import json

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.objects.texts.yaml_text import documents

# Line and paragraph separators (Zl, Zp) end a line in YAML 1.1, where a key must not; JSON does not mind.
TEXT = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xD7FF, exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=12
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False, allow_infinity=False), TEXT
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=20
)


@settings(max_examples=tries(200), deadline=None)
@given(VALUES)
def test_json_read_as_yaml_is_the_same(value):
    (found,) = documents(json.dumps(value, ensure_ascii=False))
    assert found.value == value
    assert found.repeated == ()


@settings(max_examples=tries(100), deadline=None)
@given(st.lists(VALUES, max_size=3))
def test_quoted_block_style_is_the_same(values):
    text = yaml.safe_dump_all(values, default_style='"', explicit_start=True, allow_unicode=True)
    assert [each.value for each in documents(text)] == values
