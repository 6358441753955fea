"""Watches: from which moment they tell, what they tell of objects that come and go, and how they end."""

from __future__ import annotations

import pytest
from contract_documents import METADATA, TABLE, config_map, pod

from support.api_servers import ServerApi
from support.http import WatchEvent


def told(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(event.type, event.name) for event in events]


def test_every_event_after_a_version_in_order(api: ServerApi, maps: str) -> None:
    start = api.create(maps, config_map("a")).version
    api.put(f"{maps}/a", config_map("a", {"k": "v"}))
    api.create(maps, config_map("b"))
    api.delete(f"{maps}/a")
    events = api.watch(f"{maps}?watch=1&resourceVersion={start}", 3)
    assert told(events) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert [int(event.version) for event in events] == sorted(int(event.version) for event in events)
    assert events[0].object["kind"] == "ConfigMap" and events[0].object["apiVersion"] == "v1"


def test_a_deletion_shows_the_last_state_under_a_new_version(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a", {"k": "v"}))
    api.delete(f"{maps}/a")
    [event] = api.watch(f"{maps}?watch=1&resourceVersion={made.version}", 1)
    assert (event.type, event.object["data"]) == ("DELETED", {"k": "v"})
    assert int(event.version) > int(made.version)


def test_what_leaves_a_selection_is_deleted_in_its_old_state_under_the_new_version(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a", labels={"in": "yes"}))
    left = api.patch(f"{maps}/a", {"metadata": {"labels": {"in": "no"}}})
    [event] = api.watch(f"{maps}?watch=1&labelSelector=in%3Dyes&resourceVersion={made.version}", 1)
    assert (event.type, event.version) == ("DELETED", left.version)
    assert event.object["metadata"]["labels"] == {"in": "yes"}


def test_what_enters_a_selection_is_added(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a", labels={"in": "no"}))
    api.patch(f"{maps}/a", {"metadata": {"labels": {"in": "yes"}}})
    api.patch(f"{maps}/a", {"data": {"k": "v"}})
    events = api.watch(f"{maps}?watch=1&labelSelector=in%3Dyes&resourceVersion={made.version}", 2)
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a")]


def test_what_is_deleted_outside_a_selection_is_not_told(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a", labels={"in": "no"}))
    api.create(maps, config_map("b", labels={"in": "yes"}))
    api.delete(f"{maps}/a")
    api.delete(f"{maps}/b")
    events = api.watch(f"{maps}?watch=1&labelSelector=in%3Dyes&resourceVersion={made.version}", 2)
    assert told(events) == [("ADDED", "b"), ("DELETED", "b")]


def test_a_bound_pod_leaves_the_unscheduled_and_comes_to_its_node(api: ServerApi, pods: str) -> None:
    made = api.create(pods, pod("a"))
    target = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    api.create(f"{pods}/a/binding", target)
    [left] = api.watch(f"{pods}?watch=1&fieldSelector=spec.nodeName%3D&resourceVersion={made.version}", 1)
    assert left.type == "DELETED" and "nodeName" not in left.object["spec"]
    [came] = api.watch(f"{pods}?watch=1&fieldSelector=spec.nodeName%3Dn1&resourceVersion={made.version}", 1)
    assert (came.type, came.object["spec"]["nodeName"]) == ("ADDED", "n1")


def test_a_bound_pod_killed_at_once_is_modified_then_deleted(api: ServerApi, pods: str) -> None:
    made = api.create(pods, pod("a", nodeName="n1"))
    api.delete(f"{pods}/a?gracePeriodSeconds=0")
    events = api.watch(f"{pods}?watch=1&resourceVersion={made.version}", 2)
    assert told(events) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert events[0].object["metadata"]["deletionGracePeriodSeconds"] == 0
    assert int(events[1].version) > int(events[0].version)


def test_the_last_finalizer_gone_shows_the_state_that_was_stored(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a", finalizers=["example.com/f"]))
    marked = api.delete(f"{maps}/a")
    done = api.patch(f"{maps}/a", {"metadata": {"finalizers": None}})
    assert "finalizers" not in done.meta and done.version == marked.version
    events = api.watch(f"{maps}?watch=1&resourceVersion={made.version}", 2)
    assert told(events) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert events[1].object["metadata"]["finalizers"] == ["example.com/f"]
    assert int(events[1].version) > int(marked.version)


def test_a_watch_from_any_version_begins_with_what_there_is(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a"))
    newest = api.create(maps, config_map("b")).version
    assert api.get(f"{maps}?resourceVersion={newest}").code == 200  # a cache has heard of them
    events = api.watch(f"{maps}?watch=1&resourceVersion=0", 2)
    assert told(events) == [("ADDED", "a"), ("ADDED", "b")]


@pytest.mark.parametrize("word", ["1", "true", "", "yes"])
def test_anything_but_false_asks_for_a_watch(api: ServerApi, maps: str, word: str) -> None:
    start = api.create(maps, config_map("a")).version
    api.create(maps, config_map("b"))
    [event] = api.watch(f"{maps}?watch={word}&resourceVersion={start}", 1)
    assert (event.type, event.name) == ("ADDED", "b")


@pytest.mark.parametrize("word", ["0", "false", "False"])
def test_false_asks_for_a_list(api: ServerApi, maps: str, word: str) -> None:
    assert api.get(f"{maps}?watch={word}")["kind"] == "ConfigMapList"


def test_one_object_is_watched_by_the_old_path_and_only_read_by_the_new_one(api: ServerApi, ns: str, maps: str) -> None:
    start = api.create(maps, config_map("a")).version
    api.create(maps, config_map("b"))
    api.delete(f"{maps}/a")
    old = f"/api/v1/watch/namespaces/{ns}/configmaps"
    [event] = api.watch(f"{old}/a?resourceVersion={start}", 1)
    assert (event.type, event.name) == ("DELETED", "a")
    assert told(api.watch(f"{old}?resourceVersion={start}", 2)) == [("ADDED", "b"), ("DELETED", "a")]
    assert api.get(f"{maps}/b?watch=true")["kind"] == "ConfigMap"
    assert api.get(f"{maps}/a?watch=true").code == 404


def test_a_watch_ends_when_its_time_is_over(api: ServerApi, maps: str) -> None:
    start = api.create(maps, config_map("a")).version
    assert api.watch_to_the_end(f"{maps}?watch=1&allowWatchBookmarks=true&resourceVersion={start}") == []


def test_a_bookmark_comes_two_seconds_before_the_end(api: ServerApi, maps: str) -> None:
    if not api.is_embedded:
        pytest.skip("upstream promises no bookmarks, and without RequestWatchProgress in etcd sends none here")
    start = api.create(maps, config_map("a")).version
    query = f"watch=1&allowWatchBookmarks=true&resourceVersion={start}&timeoutSeconds=3"
    [event] = api.watch(f"{maps}?{query}", 1)
    assert event.type == "BOOKMARK" and int(event.version) >= int(start)
    assert (event.object["kind"], event.name) == ("ConfigMap", "")


def test_a_version_that_is_no_number_is_refused_before_the_stream(api: ServerApi, maps: str) -> None:
    refused = api.get(f"{maps}?watch=1&resourceVersion=abc")
    assert (refused.code, refused.reason) == (500, "")
    assert refused.message == (
        'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'
    )


@pytest.mark.parametrize(
    ("query", "causes"),
    [
        (
            "resourceVersionMatch=NotOlderThan",
            ["Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"],
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=5",
            [
                "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                'Unsupported value: "Exact": supported values: "NotOlderThan"',
            ],
        ),
        (
            "sendInitialEvents=true",
            ["Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"],
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
            ["Forbidden: resourceVersionMatch is forbidden when continue is provided"],
        ),
        (
            "resourceVersion=0&continue=x",
            ["Forbidden: resourceVersionMatch is forbidden when continue is provided"],
        ),
    ],
)
def test_how_a_watch_starts_has_rules(api: ServerApi, maps: str, query: str, causes: list[str]) -> None:
    refused = api.get(f"{maps}?watch=1&{query}")
    assert refused.code == 422
    assert refused.causes == [("resourceVersionMatch", cause) for cause in causes]


def test_selectors_are_judged_before_the_stream(api: ServerApi, maps: str) -> None:
    assert api.get(f"{maps}?watch=1&fieldSelector=bogus%3D1").code == 400
    assert api.get(f"{maps}?watch=1&labelSelector=a%20b").code == 400
    assert api.get(f"{maps}?watch=1&timeoutSeconds=abc").code == 400


def test_the_state_and_its_end_are_told_first_when_asked_for(api: ServerApi, maps: str) -> None:
    if not api.is_embedded:
        pytest.skip("kube-apiserver needs RequestWatchProgress for this, which etcd has from 3.5.8 and 3.4.25 on")
    api.create(maps, config_map("a"))
    api.create(maps, config_map("b"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = api.watch(f"{maps}?{query}", 3)
    assert told(events) == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]
    assert events[2].object["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(events[2].version) >= int(events[1].version)


def test_a_table_names_its_columns_in_the_first_frame_only(api: ServerApi, maps: str) -> None:
    start = api.create(maps, config_map("a")).version
    api.create(maps, config_map("b", {"k": "v"}))
    api.delete(f"{maps}/a")
    events = api.watch(f"{maps}?watch=1&resourceVersion={start}", 2, accept=TABLE)
    assert [event.type for event in events] == ["ADDED", "DELETED"]
    assert [event.object["kind"] for event in events] == ["Table", "Table"]
    assert [column["name"] for column in events[0].object["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert not events[1].object.get("columnDefinitions")
    [row] = events[0].object["rows"]
    assert row["cells"][:2] == ["b", 1]
    assert (row["object"]["kind"], row["object"]["metadata"]["name"]) == ("PartialObjectMetadata", "b")


def test_metadata_alone_can_be_watched(api: ServerApi, maps: str) -> None:
    start = api.create(maps, config_map("a")).version
    api.create(maps, config_map("b", {"k": "v"}))
    [event] = api.watch(f"{maps}?watch=1&resourceVersion={start}", 1, accept=METADATA)
    assert event.object.keys() == {"kind", "apiVersion", "metadata"}
    assert (event.object["kind"], event.object["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")


def test_a_stream_is_json(api: ServerApi, maps: str) -> None:
    refused = api.get(f"{maps}?watch=1", accept="application/yaml")
    assert refused.code == 406
    start = api.create(maps, config_map("a")).version
    api.create(maps, config_map("b"))
    for accept in ("*/*", "application/json;stream=watch"):
        [event] = api.watch(f"{maps}?watch=1&resourceVersion={start}", 1, accept=accept)
        assert event.name == "b"
