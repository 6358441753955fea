"""Lists: what a resourceVersion means, pages that show one moment, and how many are left."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from contract_documents import config_map

from support.api_servers import ServerApi
from support.http import Reply


def filled(api: ServerApi, maps: str, count: int) -> list[Reply]:
    return [api.create(maps, config_map(f"c{number}", labels={"odd": str(number % 2)})) for number in range(count)]


def test_a_list_names_its_kind_and_its_items_do_not(api: ServerApi, maps: str) -> None:
    filled(api, maps, 2)
    listed = api.get(maps)
    assert (listed["kind"], listed["apiVersion"], listed.names) == ("ConfigMapList", "v1", ["c0", "c1"])
    assert all(not {"kind", "apiVersion"} & item.keys() for item in listed["items"])
    assert int(listed.version) >= int(listed["items"][-1]["metadata"]["resourceVersion"])


def test_a_list_of_nothing_has_items_all_the_same(api: ServerApi, maps: str) -> None:
    assert api.get(maps)["items"] == []
    assert api.get("/api/v1/namespaces/no-such-namespace/configmaps")["items"] == []


def test_a_list_over_all_namespaces_is_by_namespace_and_name(api: ServerApi, ns: str, maps: str) -> None:
    filled(api, maps, 2)
    found = api.get("/api/v1/configmaps")["items"]
    places = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in found]
    assert places == sorted(places) and (ns, "c1") in places


@pytest.mark.parametrize("query", ["", "?resourceVersion=0", "?limit=0", "?limit=-1", "?labelSelector=", "?bogus=1"])
def test_these_ask_for_everything(api: ServerApi, maps: str, query: str) -> None:
    made = filled(api, maps, 3)
    newest = f"{maps}?resourceVersion={made[-1].version}"  # so that a cache has heard of them
    assert api.get(newest).names == ["c0", "c1", "c2"]
    assert api.get(maps + query).names == ["c0", "c1", "c2"]


def test_not_older_than_a_version_may_be_newer(api: ServerApi, maps: str) -> None:
    made = filled(api, maps, 3)
    assert api.get(f"{maps}?resourceVersion={made[0].version}").code == 200
    listed = api.get(f"{maps}?resourceVersion={made[2].version}&resourceVersionMatch=NotOlderThan")
    assert listed.names == ["c0", "c1", "c2"]


def test_an_exact_version_shows_that_moment(api: ServerApi, maps: str) -> None:
    made = filled(api, maps, 3)
    api.delete(f"{maps}/c0")
    listed = api.get(f"{maps}?resourceVersion={made[1].version}&resourceVersionMatch=Exact")
    assert (listed.names, listed.version) == (["c0", "c1"], made[1].version)


def test_a_page_at_a_version_has_always_meant_that_very_version(api: ServerApi, maps: str) -> None:
    made = filled(api, maps, 5)
    listed = api.get(f"{maps}?resourceVersion={made[2].version}&limit=2")
    # At c2's version there were three; two are here, one is left.
    assert (listed.names, listed.version) == (["c0", "c1"], made[2].version)
    assert listed.meta["remainingItemCount"] == 1


def test_any_version_is_answered_whole_whatever_the_limit(api: ServerApi, maps: str) -> None:
    made = filled(api, maps, 3)
    assert api.get(f"{maps}?resourceVersion={made[-1].version}").code == 200
    listed = api.get(f"{maps}?resourceVersion=0&limit=2")
    assert listed.names == ["c0", "c1", "c2"] and "continue" not in listed.meta


def test_a_version_that_has_not_come_is_a_timeout_to_try_again(api: ServerApi, maps: str) -> None:
    refused = api.get(f"{maps}?resourceVersion=999999999")
    assert (refused.code, refused.reason) == (504, "Timeout")
    assert refused.message.startswith("Timeout: Too large resource version: 999999999, current: ")
    assert refused.causes == [("", "Too large resource version")]
    assert refused["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert refused["details"]["retryAfterSeconds"] == 1 and refused.headers["Retry-After"] == "1"


def test_an_exact_version_that_has_not_come_is_not_worth_another_try(api: ServerApi, maps: str) -> None:
    refused = api.get(f"{maps}?resourceVersion=999999999&resourceVersionMatch=Exact")
    assert (refused.code, refused.reason) == (504, "Timeout")
    assert "retryAfterSeconds" not in refused["details"] and "Retry-After" not in refused.headers


@pytest.mark.parametrize("version", ["abc", "-1", "1.5"])
def test_a_version_is_a_number(api: ServerApi, maps: str, version: str) -> None:
    problem = f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
    listed = api.get(f"{maps}?resourceVersion={version}")
    assert (listed.code, listed.message) == (400, f"invalid resource version: {problem}")
    # Upstream wraps the error of a list only.
    got = api.get(f"{maps}/a?resourceVersion={version}")
    assert (got.code, got.reason, got.message) == (500, "", problem)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            "resourceVersionMatch=Exact",
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        (
            "resourceVersion=5&resourceVersionMatch=Bogus",
            'Unsupported value: "Bogus": supported values: "Exact", "NotOlderThan", ""',
        ),
        (
            "resourceVersion=5&resourceVersionMatch=Exact&continue=x",
            "Forbidden: resourceVersionMatch is forbidden when continue is provided",
        ),
    ],
)
def test_how_a_version_is_meant_has_rules(api: ServerApi, maps: str, query: str, told: str) -> None:
    refused = api.get(f"{maps}?{query}")
    assert (refused.code, refused.causes) == (422, [("resourceVersionMatch", told)])
    assert refused["details"]["kind"] == "ListOptions" and refused["details"]["group"] == "meta.k8s.io"


def test_initial_events_are_for_watches(api: ServerApi, maps: str) -> None:
    refused = api.get(f"{maps}?sendInitialEvents=true")
    assert refused.causes == [("sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list")]


@pytest.mark.parametrize("query", ["limit=abc", "limit=", "timeoutSeconds=abc"])
def test_a_number_is_a_number(api: ServerApi, maps: str, query: str) -> None:
    text = query.partition("=")[2]
    refused = api.get(f"{maps}?{query}")
    assert (refused.code, refused.message) == (400, f'strconv.ParseInt: parsing "{text}": invalid syntax')


def test_every_page_shows_the_moment_of_the_first(api: ServerApi, maps: str) -> None:
    filled(api, maps, 7)
    first = api.get(f"{maps}?limit=3")
    assert first.names == ["c0", "c1", "c2"] and first.meta["remainingItemCount"] == 4
    api.delete(f"{maps}/c4")
    api.create(maps, config_map("c45"))
    second = api.get(f"{maps}?limit=3&continue={quote(first.meta['continue'])}")
    assert (second.names, second.version) == (["c3", "c4", "c5"], first.version)
    assert second.meta["remainingItemCount"] == 1
    third = api.get(f"{maps}?limit=3&continue={quote(second.meta['continue'])}")
    assert (third.names, third.version) == (["c6"], first.version)
    assert not {"continue", "remainingItemCount"} & third.meta.keys()


def test_the_rest_may_come_at_once(api: ServerApi, maps: str) -> None:
    filled(api, maps, 5)
    first = api.get(f"{maps}?limit=2")
    assert api.get(f"{maps}?continue={quote(first.meta['continue'])}").names == ["c2", "c3", "c4"]


def test_a_page_that_holds_all_is_the_last(api: ServerApi, maps: str) -> None:
    filled(api, maps, 3)
    assert "continue" not in api.get(f"{maps}?limit=3").meta
    assert api.get(f"{maps}?limit=2").meta["remainingItemCount"] == 1


def test_pages_of_a_selection_do_not_guess_what_is_left(api: ServerApi, maps: str) -> None:
    filled(api, maps, 6)
    names, query = [], f"{maps}?limit=1&labelSelector=odd%3D1"
    page = api.get(query)
    while True:
        names += page.names
        assert "remainingItemCount" not in page.meta
        if "continue" not in page.meta:
            break
        page = api.get(f"{query}&continue={quote(page.meta['continue'])}")
    assert names == ["c1", "c3", "c5"]


def test_a_continued_list_takes_no_version(api: ServerApi, maps: str) -> None:
    filled(api, maps, 3)
    first = api.get(f"{maps}?limit=1")
    refused = api.get(f"{maps}?limit=1&continue={quote(first.meta['continue'])}&resourceVersion={first.version}")
    assert (refused.code, refused.message) == (
        400,
        "specifying resource version is not allowed when using continue",
    )


@pytest.mark.parametrize(
    ("token", "told"),
    [
        ({"v": "v2", "rv": 5, "start": "a\0"}, "server does not recognize this encoded version v2"),
        (
            {"v": "meta.k8s.io/v1", "rv": 0, "start": "a\0"},
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        ({"v": "meta.k8s.io/v1", "rv": 5}, "encoded start key empty (version meta.k8s.io/v1)"),
        ({"v": "meta.k8s.io/v1", "rv": 5, "start": "../a\0"}, "../a\0"),
        ("i", "invalid character 'i' looking for beginning of value"),
    ],
)
def test_a_token_is_read_as_upstream_writes_it(api: ServerApi, maps: str, token: object, told: str) -> None:
    raw = token.encode() if isinstance(token, str) else json.dumps(token, separators=(",", ":")).encode()
    text = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    refused = api.get(f"{maps}?limit=1&continue={text}")
    assert (refused.code, refused.message) == (400, f"invalid continue token: continue key is not valid: {told}")


def test_a_token_of_version_minus_one_goes_on_with_what_there_is(api: ServerApi, maps: str) -> None:
    filled(api, maps, 4)
    raw = json.dumps({"v": "meta.k8s.io/v1", "rv": -1, "start": "c1\0"}, separators=(",", ":")).encode()
    text = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    assert api.get(f"{maps}?limit=5&continue={text}").names == ["c2", "c3"]


def test_a_get_takes_a_version_too(api: ServerApi, maps: str) -> None:
    made = filled(api, maps, 1)[0]
    assert api.get(f"{maps}/c0?resourceVersion=0").code in (200, 404)  # any version, also one before it was there
    assert api.get(f"{maps}/c0?resourceVersion={made.version}").body == made.body
    refused = api.get(f"{maps}/c0?resourceVersion=999999999")
    assert (refused.code, refused.reason) == (504, "Timeout")
