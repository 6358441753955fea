"""One Event under two APIs: core and events.k8s.io show, select and write the same objects."""

from __future__ import annotations

from typing import Any

import pytest
from contract_documents import owned_by

from support.api_servers import ServerApi


@pytest.fixture
def core(ns: str) -> str:
    return f"/api/v1/namespaces/{ns}/events"


@pytest.fixture
def new(ns: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{ns}/events"


def old_event(ns: str, **fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "old"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": ns, "uid": "u"},
        "reason": "Pulled",
        "message": "an image",
        "type": "Normal",
        "source": {"component": "kubelet", "host": "h"},
        "firstTimestamp": "2020-01-01T00:00:00Z",
        "lastTimestamp": "2020-01-02T00:00:00Z",
        "count": 3,
        **fields,
    }


def new_event(ns: str, **fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "new"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": ns},
        "reason": "Scheduled",
        "note": "a node",
        "type": "Warning",
        "action": "Binding",
        "reportingController": "example.com/scheduler",
        "reportingInstance": "i",
        "eventTime": "2020-01-01T00:00:00.123456Z",
        **fields,
    }


def test_each_shows_what_the_other_made(api: ServerApi, ns: str, core: str, new: str) -> None:
    api.create(core, old_event(ns))
    api.create(new, new_event(ns))
    seen = api.get(f"{new}/old")
    assert (seen["apiVersion"], seen["note"]) == ("events.k8s.io/v1", "an image")
    assert seen["regarding"]["uid"] == "u" and seen["deprecatedCount"] == 3
    assert seen["deprecatedSource"] == {"component": "kubelet", "host": "h"}
    assert seen["deprecatedFirstTimestamp"] == "2020-01-01T00:00:00Z"
    assert "reportingController" not in seen.body
    seen = api.get(f"{core}/new")
    assert (seen["apiVersion"], seen["message"]) == ("v1", "a node")
    assert seen["involvedObject"]["name"] == "p" and seen["reportingComponent"] == "example.com/scheduler"
    assert seen["source"] == {} and seen["eventTime"] == "2020-01-01T00:00:00.123456Z"
    assert api.get(core).names == api.get(new).names == ["new", "old"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("regarding.name%3Dp", ["new", "old"]),
        ("regarding.uid%3Du", ["old"]),
        ("reason%3DScheduled", ["new"]),
        ("type%3DNormal", ["old"]),
        ("reportingController%3Dexample.com/scheduler", ["new"]),
    ],
)
def test_the_new_api_selects_in_its_own_words(
    api: ServerApi, ns: str, core: str, new: str, selector: str, names: list[str]
) -> None:
    api.create(core, old_event(ns))
    api.create(new, new_event(ns))
    assert api.get(f"{new}?fieldSelector={selector}").names == names


def test_both_watch_the_same(api: ServerApi, ns: str, core: str, new: str) -> None:
    start = api.create(core, old_event(ns)).version
    api.create(new, new_event(ns))
    [seen] = api.watch(f"{core}?watch=1&resourceVersion={start}", 1)
    assert (seen.type, seen.object["message"]) == ("ADDED", "a node")
    [seen] = api.watch(f"{new}?watch=1&resourceVersion={start}&fieldSelector=regarding.name%3Dp", 1)
    assert (seen.type, seen.object["note"]) == ("ADDED", "a node")


def test_fields_are_owned_under_the_names_of_the_api_that_wrote_them(
    api: ServerApi, ns: str, core: str, new: str
) -> None:
    made = api.create(new, new_event(ns))
    assert made.meta["managedFields"][0]["apiVersion"] == "events.k8s.io/v1"
    assert "f:note" in owned_by(made.body, "contract")
    patched = api.patch(f"{core}/new?fieldManager=other", {"message": "changed"})
    # Between the two shapes nothing is carried over: the older entry is gone.
    [entry] = patched.meta["managedFields"]
    assert (entry["manager"], entry["apiVersion"], entry["fieldsV1"]) == ("other", "v1", {"f:message": {}})


def test_the_new_api_is_the_stricter_one(api: ServerApi, ns: str, core: str, new: str) -> None:
    refused = api.post(new, new_event(ns, type="Odd", action="", note="x" * 1025))
    assert refused.code == 422 and refused.message.startswith('Event "new" is invalid: [')
    assert {field for field, _ in refused.causes} == {"action", "message", "type"}
    assert api.post(core, old_event(ns, type="Odd", message="x" * 1025)).code == 201


def test_the_new_api_changes_the_series_alone(api: ServerApi, ns: str, new: str) -> None:
    api.create(new, new_event(ns))
    series = {"count": 2, "lastObservedTime": "2020-01-01T00:00:01.000000Z"}
    assert api.patch(f"{new}/new", {"series": series})["series"] == series
    refused = api.patch(f"{new}/new", {"note": "changed"})
    assert (refused.code, refused.message) == (
        422,
        'Event "new" is invalid: message: Invalid value: "changed": field is immutable',
    )


def test_an_event_belongs_where_its_object_is(api: ServerApi, ns: str, core: str) -> None:
    refused = api.post(core, old_event(ns, involvedObject={"kind": "Pod", "namespace": "other"}))
    assert refused.causes == [("involvedObject.namespace", 'Invalid value: "other": does not match event.namespace')]


def test_a_put_creates_one(api: ServerApi, ns: str, new: str) -> None:
    assert api.put(f"{new}/new", new_event(ns)).code == 201


def test_propagation_means_nothing_to_an_event(api: ServerApi, ns: str, core: str) -> None:
    api.create(core, old_event(ns))
    assert api.delete(f"{core}/old?propagationPolicy=Foreground")["kind"] == "Status"
    assert api.get(f"{core}/old").code == 404


def test_times_that_an_event_does_not_have_are_there_as_null(api: ServerApi, ns: str, core: str, new: str) -> None:
    api.post(new, new_event(ns))
    shown = api.get(f"{core}/new").body
    assert [shown[field] for field in ("firstTimestamp", "lastTimestamp")] == [None, None]
    listed = api.get(new).body["items"][0]
    assert [listed[field] for field in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp")] == [None, None]


@pytest.mark.parametrize(
    ("selector", "names"), [("source%3Dkubelet", ["old"]), ("source%3Dexample.com/scheduler", ["new"])]
)
def test_the_source_of_an_event_that_has_none_is_who_reports_it(
    api: ServerApi, ns: str, core: str, new: str, selector: str, names: list[str]
) -> None:
    api.create(core, old_event(ns))
    api.create(new, new_event(ns))
    assert api.get(f"{core}?fieldSelector={selector}").names == names
