"""One Event in two shapes: every field finds its place, and nothing is lost on the way there and back."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.documents.kinds.event import FIELD_LABELS, from_events_v1, to_events_v1
from tonnage.documents.schema import schema_of
from tonnage.objects.document import Doc, copy

CORE: Doc = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "ns"},
    "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "p"},
    "reason": "Scheduled",
    "message": "assigned",
    "source": {"component": "scheduler"},
    "firstTimestamp": "2024-01-01T00:00:00Z",
    "lastTimestamp": "2024-01-01T00:00:05Z",
    "count": 3,
    "type": "Normal",
    "eventTime": "2024-01-01T00:00:00.000001Z",
    "series": {"count": 3, "lastObservedTime": "2024-01-01T00:00:05.000000Z"},
    "action": "Binding",
    "related": {"kind": "Node", "name": "n"},
    "reportingComponent": "scheduler",
    "reportingInstance": "scheduler-1",
}
NEW: Doc = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "ns"},
    "regarding": {"kind": "Pod", "namespace": "ns", "name": "p"},
    "reason": "Scheduled",
    "note": "assigned",
    "deprecatedSource": {"component": "scheduler"},
    "deprecatedFirstTimestamp": "2024-01-01T00:00:00Z",
    "deprecatedLastTimestamp": "2024-01-01T00:00:05Z",
    "deprecatedCount": 3,
    "type": "Normal",
    "eventTime": "2024-01-01T00:00:00.000001Z",
    "series": {"count": 3, "lastObservedTime": "2024-01-01T00:00:05.000000Z"},
    "action": "Binding",
    "related": {"kind": "Node", "name": "n"},
    "reportingController": "scheduler",
    "reportingInstance": "scheduler-1",
}


def test_each_field_has_its_name_in_the_other_api() -> None:
    assert to_events_v1(CORE) == NEW
    assert from_events_v1(NEW) == CORE


def test_the_event_that_goes_in_is_not_touched() -> None:
    before = copy(CORE)
    to_events_v1(CORE)["metadata"]["name"] = "changed"
    assert before == CORE


def test_both_shapes_have_the_same_fields_but_for_their_names() -> None:
    core = dict.fromkeys(schema_of("", "v1", "Event").fields, "x")
    new = dict.fromkeys(schema_of("events.k8s.io", "v1", "Event").fields, "x")
    assert to_events_v1(core).keys() == new.keys()


def test_a_field_selector_of_the_new_api_names_fields_of_the_stored_shape() -> None:
    assert FIELD_LABELS["regarding.name"] == "involvedObject.name"
    assert FIELD_LABELS["reportingController"] == "reportingComponent"


values = st.one_of(st.text(max_size=5), st.integers(0, 9), st.dictionaries(st.text(max_size=3), st.text(max_size=3)))


@settings(max_examples=tries(50), deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(CORE)), values))
def test_there_and_back_is_where_we_were(event: dict[str, Any]) -> None:
    if "apiVersion" in event:
        event["apiVersion"] = "v1"
    assert from_events_v1(to_events_v1(event)) == event
