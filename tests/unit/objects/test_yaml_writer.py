"""JSON data as YAML: readable, and read back as what it was by any reader."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tonnage.objects.document import Budget, file_limits
from tonnage.objects.texts.yaml_text import documents
from tonnage.objects.texts.yaml_writer import write_yaml

ODD = ["yes", "No", "null", "~", "1", "1.5", "1e3", "0x1", "0o7", "1_000", "12:30:00", "2030-01-01", "=", "<<", "- a"]
ODD += [
    "a: b",
    "a:",
    "#",
    "a #b",
    "*a",
    "&a",
    "!a",
    "%a",
    "|",
    ">",
    "'",
    '"',
    "\\",
    "a\nb",
    " a",
    "a ",
    "",
    ".inf",
    "-",
    "?",
]
ODD += ["\u2028", "\x85", "\ufeff", "k" * 2000]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(ODD)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


@given(VALUES)
def test_everything_is_read_back_as_it_was(value: Any) -> None:
    text = write_yaml(value)
    assert yaml.safe_load(text) == value
    assert next(iter(documents(text, Budget(file_limits(len(text)))))).value == value


def test_it_reads_as_kubectl_prints_it() -> None:
    pod = {
        "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "yes"}, "annotations": {}},
        "spec": {"containers": [{"name": "c", "args": ["-v", "2"], "ports": []}], "nodeName": ""},
    }
    assert write_yaml(pod) == (
        "metadata:\n"
        "  annotations: {}\n"
        "  labels:\n"
        '    app.kubernetes.io/name: "yes"\n'
        "  name: web\n"
        "spec:\n"
        "  containers:\n"
        "  - args:\n"
        '    - "-v"\n'
        '    - "2"\n'
        "    name: c\n"
        "    ports: []\n"
        '  nodeName: ""\n'
    )


@pytest.mark.parametrize("value", [{}, [], "", None, 1, [[[]]], [[1, [2]], {"a": [{}]}]])
def test_edges(value: Any) -> None:
    assert yaml.safe_load(write_yaml(value)) == value
