"""Selectors of tens of kilobytes, in queries and in objects: put together once, small in memory, asked in a few steps.

What is counted is calls and bytes that stay, so a busy machine makes no difference; `test_server_stays_responsive.py`
opens watches and lists with such selectors.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from support.virtual_clock import VirtualClock
from tonnage.apiserver import stored_documents
from tonnage.apiserver.requests import Call, ListOptions, Location
from tonnage.apiserver.stored_documents import index_for
from tonnage.apiserver.verbs import reading
from tonnage.documents.custom.custom_resource import custom_resources
from tonnage.documents.strategy import Strategy
from tonnage.gates import Gates
from tonnage.objects.document import decode, encode
from tonnage.objects.requirements import LabelMatcher, Requirement
from tonnage.objects.resources import BY_PLURAL
from tonnage.objects.selectors import FieldSelector, LabelSelector, label_matcher
from tonnage.scheduling.cluster.pod_matching import MatcherIndex, PodMatcher, requirements_of
from tonnage.store.records import StoreRecord, event_of

LABELS = {"a": "other", "b": "c", "k7": "v"}
TERMS = 2_000
NUMBERS = count()


def in_text(form: str, number: int) -> str:
    """Some twenty kilobytes of one form of term; with another number the same length, and other values."""
    return ",".join(form.format(f"{number:03}x{i:04}") for i in range(TERMS))


FORMS = ["a!={}", "k{}!=v", "!k{}", "k{}=v", "k{}", "k{}>1", "a>1,k{}<7"]


@contextmanager
def calls_counted() -> Iterator[Callable[[], int]]:
    """How many functions, in Python and in C, are called inside the block."""
    calls = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        yield lambda: calls
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("form", FORMS)
def test_a_long_selector_is_asked_in_a_few_steps(form: str) -> None:
    matcher = label_matcher(in_text(form, next(NUMBERS)))
    with calls_counted() as calls:
        matcher.matches(LABELS)
    assert calls() < 100
    many = {f"label-{i}": "value" for i in range(20_000)}
    few = label_matcher("a!=b,label-7,label-8!=x" + ",a!=c" * 50)
    with calls_counted() as calls:
        assert few.matches(many)
    assert calls() < 100


@pytest.mark.parametrize("form", FORMS)
def test_long_selectors_of_watches_stay_small(form: str) -> None:
    """Different ones: what each keeps is a few times its text. Equal ones are one."""
    texts = [in_text(form, next(NUMBERS)) for _ in range(2)]
    label_matcher(in_text(form, next(NUMBERS)))
    tracemalloc.start()
    try:
        kept = [LabelMatcher(LabelSelector.parse(text).requirements()) for text in texts]
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 6 * sum(map(len, texts))
        assert len(kept) == 2
    finally:
        tracemalloc.stop()
    assert label_matcher(texts[0]) is label_matcher("".join([texts[0]]))


def test_long_field_selectors() -> None:
    selector = FieldSelector.parse(in_text("metadata.name!=a{}", next(NUMBERS)))
    assert selector.matcher.matches({"metadata.name": "x"})
    with calls_counted() as calls:
        assert selector.matcher.matches({"metadata.name": "x"})
    assert calls() < 50


def test_long_selectors_in_objects_are_put_together_once() -> None:
    """As Deployments, StatefulSets, Jobs and PodDisruptionBudgets carry them: asked of every pod of the namespace."""
    not_in = tuple(Requirement(key=f"k{i}", operator="NotIn", values=("v",)) for i in range(8, 8 + TERMS))
    long_set = (Requirement(key="a", operator="NotIn", values=tuple(f"v{i}" for i in range(100_000))),)
    for expressions in (not_in, long_set):
        selector = LabelSelector(match_expressions=expressions)
        assert selector.matches(LABELS)
        with calls_counted() as calls:
            assert selector.matches(LABELS)
        assert calls() < 100


def test_long_selectors_of_affinity_and_spread() -> None:
    """A term that names 100,000 values was filed under each: 40 MB for a pod of 1.4 MB."""
    values = tuple(f"v{i}" for i in range(20_000))
    spaces = frozenset(f"space-{i}" for i in range(5_000))
    selector = LabelSelector(match_expressions=(Requirement(key="app", operator="In", values=values),))
    for matcher in (
        PodMatcher(frozenset(("default",)), requirements_of(selector)),
        PodMatcher(spaces, requirements_of(selector)),
        PodMatcher(spaces, requirements_of(LabelSelector(match_labels={"app": "v7"}))),
    ):
        index: MatcherIndex[str] = MatcherIndex()
        index.add(matcher, "thing")
        assert len(list(matcher.anchors())) <= 64
        for namespace in ("default", "space-7"):
            is_meant = namespace in matcher.namespaces
            found = list(index.candidates(namespace, {"app": "v7"}))
            assert matcher.matches(namespace, {"app": "v7"}, {}) is is_meant
            assert found == ["thing"] or not is_meant
        with calls_counted() as calls:
            matcher.matches("default", {"app": "v19999"}, {})
            hash(matcher.requirements)
        assert calls() < 50
        index.remove(matcher, "thing")


@pytest.mark.parametrize("accept", ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"])
def test_what_leaves_a_selection_is_put_into_words_once_for_all_watchers(accept: str) -> None:
    """A megabyte was read and written anew for each of 400 watchers."""
    clock = VirtualClock()
    attributes_of = index_for(Gates(), clock)

    def record(revision: int, label: str) -> StoreRecord:
        document = encode({"metadata": {"name": "x", "namespace": "default", "labels": {"a": label}}})
        return StoreRecord("configmaps/default/x", revision, document, attributes_of("configmaps/default/x", document))

    is_meant = label_matcher("a=b")
    states = [record(1, "b"), record(2, "c"), record(3, "b"), record(4, "c")]
    events = [event_of(new, old, deleted=False) for old, new in pairwise(states)]
    call = Call("watch", Location(BY_PLURAL["", "configmaps"], "default"), {}, {"Accept": accept})
    told = []
    for _ in range(2):
        encoder = reading._Encoder(SimpleNamespace(clock=clock), call)  # type: ignore[arg-type]  # all it uses
        told.append(
            [reading.frame_of(each, lambda it: is_meant.matches(it.attributes.labels), encoder) for each in events]
        )
    assert [decode(frame or b"")["type"] for frame in told[0]] == ["DELETED", "ADDED", "DELETED"]
    # A table's first frame has the columns, and is nobody else's.
    first = 1 if "Table" in accept else 0
    assert all(one is other for one, other in zip(told[0][first:], told[1][first:], strict=True))


def test_fields_of_custom_objects_are_read_once_for_all_watchers() -> None:
    version = {"name": "v1", "served": True, "storage": True, "selectableFields": [{"jsonPath": ".spec.size"}]}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "string"}}}}}
    names = {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"}
    spec: dict[str, Any] = {"group": "a.io", "scope": "Namespaced", "names": names}
    spec["versions"] = [{**version, "schema": {"openAPIV3Schema": schema}}]
    resource = custom_resources({"metadata": {"name": "boxes.a.io", "uid": "u"}, "spec": spec, "status": {}})["v1"]
    document = encode({"apiVersion": "a.io/v1", "kind": "Box", "metadata": {"name": "x"}, "spec": {"size": "large"}})
    key = f"{resource.store_prefix}default/x"
    record = StoreRecord(key, 1, document, index_for(Gates(), VirtualClock())(key, document))
    call = Call("list", Location(resource, "default"), {})
    matches = [
        stored_documents.matcher(
            Strategy(resource, Gates(), VirtualClock()),
            call,
            ListOptions(fields=FieldSelector.parse(f"spec.size{sign}large")),
        )
        for sign in ("=", "!=")
    ]
    assert [each(record) for each in matches] == [True, False]
    with calls_counted() as calls:
        matches[0](record)
    assert calls() < 40
