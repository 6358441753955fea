"""Hypothesis over the same decoders: any bytes, any JSON value, in the place of a document or inside of one."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from fuzz_run import tried
from fuzz_targets import CONFIGURATION, EVENTS, KUBECONFIG, LISTS, POD, STEPS, TARGETS, Target
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples_tried import tries

BY_NAME = {target.name: target for target in TARGETS}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
ANY_INPUT = st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode())

few = settings(max_examples=tries(40), deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def check(target: Target, data: bytes) -> None:
    failure = tried(target, data)
    if failure is not None:
        raise failure


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
@few
@given(data=ANY_INPUT)
def test_any_input_is_read_or_refused(target: Target, data: bytes):
    check(target, data)


def places_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places_of(value[key], (*path, key))


def with_value(doc: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = inner = copy.deepcopy(doc)
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return made


@pytest.mark.parametrize(
    ("name", "doc"),
    [
        ("json-body", POD),
        ("apply", POD),
        ("objects", POD),
        ("merge-patch", POD),
        ("strategic-patch", POD),
        ("manifests", POD),
        ("kubeconfig", KUBECONFIG),
        ("scheduler-configuration", CONFIGURATION),
        ("steps", STEPS),
        ("watch-events", EVENTS[0]),
        ("lists", LISTS[0]),
    ],
)
@few
@given(data=st.data())
def test_any_value_in_any_place_of_a_document_is_read_or_refused(name: str, doc: Any, data: st.DataObject):
    path = data.draw(st.sampled_from(list(places_of(doc))))
    check(BY_NAME[name], json.dumps(with_value(doc, path, data.draw(VALUES))).encode())
