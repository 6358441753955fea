"""A server that lets strangers ask: they are system:anonymous, and may what the rules say of that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes import ApiServerProcess, start_cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    running = start_cluster(tmp_path_factory.mktemp("open"), "--anonymous-auth=true", "--api-audiences=here,there")
    yield running
    assert running.stop() == 0


def test_strangers_read_what_is_public_and_nothing_else(server: ApiServerProcess) -> None:
    assert [server.get(path, token="").code for path in ("/version", "/healthz", "/readyz")] == [200, 200, 200]
    refused = server.get("/api/v1/nodes", token="")
    assert (refused.code, refused.message) == (
        403,
        'nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API group "" at the cluster scope',
    )
    refused = server.get("/metrics", token="")
    assert (refused.code, refused.message) == (403, 'forbidden: User "system:anonymous" cannot get path "/metrics"')


def test_a_wrong_token_does_not_make_one_a_stranger(server: ApiServerProcess) -> None:
    assert [server.get(path, token="wrong").code for path in ("/version", "/healthz")] == [401, 401]


def test_tokens_are_for_the_servers_audiences(server: ApiServerProcess) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    server.post(accounts, {"metadata": {"name": "db"}})
    made = server.post(f"{accounts}/db/token", {"spec": {}})
    assert made["spec"]["audiences"] == ["here", "there"]
    for audience, code in (("there", 403), ("https://kubernetes.default.svc.cluster.local", 401)):
        token = server.post(f"{accounts}/db/token", {"spec": {"audiences": [audience]}})["status"]["token"]
        assert server.get("/api/v1/nodes", token=token).code == code


def test_without_the_flag_strangers_are_refused(tmp_path: Path) -> None:
    running = start_cluster(tmp_path)
    codes = {path: running.get(path, token="").code for path in ("/version", "/api/v1/nodes", "/apis", "/healthz")}
    running.stop()
    assert codes == {"/version": 401, "/api/v1/nodes": 401, "/apis": 401, "/healthz": 200}
