"""History that is gone: 410 for lists and pages, and an ERROR event in a stream that had begun well.

Both servers remember for minutes, so here they run with a short memory.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
from contract_documents import config_map

from support.api_servers import ServerApi, embedded, kube_apiserver
from support.eventually import eventually


@pytest.fixture(scope="module", params=["embedded", pytest.param("kube-apiserver", marks=pytest.mark.envtest)])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerApi]:
    """A server that has forgotten its first revision."""
    folder = tmp_path_factory.mktemp("forgetful")
    if request.param == "kube-apiserver":
        starting = kube_apiserver(folder, request.getfixturevalue("assets"), is_forgetful=True)
    else:
        starting = embedded(folder, is_forgetful=True)
    with starting as server:
        path = "/api/v1/namespaces/default/configmaps"
        for number in range(10):
            server.create(path, config_map(f"c{number}"))
        eventually(
            lambda: server.get(f"{path}?resourceVersion=1&resourceVersionMatch=Exact"),
            holds=lambda reply: reply.code == 410,
        )
        yield server


def test_a_list_of_a_moment_that_is_gone_has_expired(api: ServerApi, maps: str) -> None:
    refused = api.get(f"{maps}?resourceVersion=1&resourceVersionMatch=Exact")
    assert (refused.code, refused.reason) == (410, "Expired")
    assert refused.message == "The resourceVersion for the provided list is too old."


def test_a_page_of_a_moment_that_is_gone_leads_on_to_what_there_is(api: ServerApi, maps: str) -> None:
    for name in ("a", "b", "c"):
        api.create(maps, config_map(name))
    raw = json.dumps({"v": "meta.k8s.io/v1", "rv": 1, "start": "a\0"}, separators=(",", ":")).encode()
    token = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    refused = api.get(f"{maps}?limit=5&continue={token}")
    assert (refused.code, refused.reason) == (410, "Expired")
    assert refused.message.startswith(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder"
    )
    assert api.get(f"{maps}?limit=5&continue={refused.meta['continue']}").names == ["b", "c"]


def test_a_watch_from_a_moment_that_is_gone_begins_well_and_ends_with_an_error(api: ServerApi, maps: str) -> None:
    if not api.is_embedded:
        pytest.skip("upstream's watch cache remembers what there was since it started, for a minute and more")
    [event] = api.watch(f"{maps}?watch=1&resourceVersion=1", 1)
    assert event.type == "ERROR"
    assert (event.object["kind"], event.object["code"], event.object["reason"]) == ("Status", 410, "Expired")
    assert event.object["message"].startswith("too old resource version: 1 (")
