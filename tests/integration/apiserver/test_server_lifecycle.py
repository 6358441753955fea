"""Starting, stopping and surviving: one folder, one process, TLS and a token, and what was acknowledged stays."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.processes import ApiServerProcess, start_cluster
from tonnage_command import tonnage


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"k": "v"}}


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def test_without_the_token_every_path_but_health_is_401(cluster):
    for path in ("/api/v1/pods", "/version", "/metrics", "/openapi/v3", "/apis"):
        for token in ("", "wrong"):
            reply = cluster.get(path, token=token)
            assert (reply.code, reply.body["reason"]) == (401, "Unauthorized"), path
    assert [cluster.get(path, token="").body for path in ("/healthz", "/livez", "/readyz")] == ["ok", "ok", "ok"]


def test_the_server_listens_on_loopback_with_a_certificate_of_its_own_ca(cluster):
    assert cluster.url.startswith("https://127.0.0.1:")
    host, port = cluster.url.removeprefix("https://").split(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as plain,
        cluster.tls.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        assert secured.version() in ("TLSv1.2", "TLSv1.3")


def test_secrets_are_readable_by_their_owner_alone(cluster):
    secret = [cluster.folder / name for name in ("kubeconfig", "token", "pki/ca.key", "pki/apiserver.key")]
    secret += list((cluster.folder / "store").iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}


def test_sigterm_ends_watches_and_exits_with_0(tmp_path):
    cluster = start_cluster(tmp_path)
    ended: list[str] = []
    watching = threading.Thread(target=lambda: ended.append(cluster.get(f"{CONFIG_MAPS}?watch=true").body))
    watching.start()
    cluster.post(CONFIG_MAPS, config_map("seen"))
    assert cluster.stop(signal.SIGTERM) == 0
    watching.join(timeout=20)
    assert not watching.is_alive()


def test_a_killed_server_starts_again_with_all_that_was_acknowledged(tmp_path):
    cluster = start_cluster(tmp_path)
    acknowledged: dict[str, str] = {}
    for round_number in range(4):
        stop_writing = threading.Event()

        def write(
            thread: int,
            cluster: ApiServerProcess = cluster,
            stop: threading.Event = stop_writing,
            n: int = round_number,
        ) -> None:
            for i in range(10_000):
                if stop.is_set():
                    return
                name = f"r{n}-t{thread}-{i}"
                try:
                    reply = cluster.post(CONFIG_MAPS, config_map(name))
                except OSError:
                    return  # the server is dead: this one was never acknowledged
                assert reply.code == 201
                acknowledged[name] = reply.body["metadata"]["resourceVersion"]

        writers = [threading.Thread(target=write, args=(thread,)) for thread in range(4)]
        for writer in writers:
            writer.start()
        before = len(acknowledged)
        while len(acknowledged) < before + 60:
            writers[0].join(timeout=0.01)
        cluster.stop(signal.SIGKILL)
        stop_writing.set()
        for writer in writers:
            writer.join(timeout=30)
        cluster = start_cluster(tmp_path)
        listed = cluster.get(CONFIG_MAPS).body
        kept = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]}
        assert acknowledged.items() <= kept.items()
        assert int(listed["metadata"]["resourceVersion"]) >= max(map(int, acknowledged.values()))
    cluster.stop()


def test_a_kubeconfig_works_after_a_restart_on_another_port(tmp_path):
    first = start_cluster(tmp_path)
    token, authority = first.token, (tmp_path / "pki" / "ca.crt").read_bytes()
    first.stop()
    second = start_cluster(tmp_path)
    assert (second.token, (tmp_path / "pki" / "ca.crt").read_bytes()) == (token, authority)
    assert second.get("/api/v1/namespaces").code == 200
    second.stop()


def test_a_second_server_on_the_same_folder_is_told_who_holds_it(cluster):
    done = tonnage("apiserver", "--data-dir", str(cluster.folder), "--secure-port", "0")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: ") and f"{cluster.process.pid}" in done.stderr


def test_a_port_in_use_is_a_clear_error(cluster, tmp_path):
    port = cluster.url.rpartition(":")[2]
    done = tonnage("apiserver", "--data-dir", str(tmp_path), "--secure-port", port)
    assert done.returncode == 1
    assert f"error: cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "hint: choose another --secure-port, or 0 for a free one" in done.stderr


def test_a_file_of_another_program_is_left_alone(tmp_path):
    foreign = tmp_path / "store" / "log.sqlite3"
    foreign.parent.mkdir()
    foreign.write_bytes(b"this is not a database, it is a letter" * 100)
    done = tonnage("apiserver", "--data-dir", str(tmp_path), "--secure-port", "0")
    assert done.returncode == 1 and done.stderr.startswith("error: ") and str(foreign) in done.stderr
    assert foreign.read_bytes().startswith(b"this is not a database")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--feature-gates", "CSIStorageCapacityV3=true"], "CSIStorageCapacityV3"),
        (["--feature-gates", "CSIStorageCapacityV2=maybe"], "maybe"),
        (["--secure-prt", "1"], "--secure-prt"),
        (["--secure-port", "99999"], "99999"),
    ],
)
def test_wrong_usage_exits_with_2_and_names_the_flag(tmp_path, flags, told):
    done = tonnage("apiserver", "--data-dir", str(tmp_path), *flags)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: ") and told in done.stderr
    assert list(tmp_path.iterdir()) == []


TOKENS = ("first-token", "second-token", "third-token")


def test_a_token_file_lets_its_tokens_in_and_no_others(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text('second-token,someone,1\nfirst-token\nthird-token,boss,2,"ops,system:masters"\n')
    cluster = start_cluster(tmp_path / "data", "--token-file", str(tokens))
    asked = {token: cluster.get("/api/v1/pods", token=token).code for token in (*TOKENS, "someone")}
    admin = yaml.safe_load((tmp_path / "data" / "kubeconfig").read_text())["users"][0]["user"]["token"]
    cluster.stop()
    # A bare token is an administrator's; a user without groups is known and may do next to nothing.
    assert asked == {"first-token": 200, "second-token": 403, "third-token": 200, "someone": 401}
    assert admin == "first-token"


def test_metrics_count_requests_by_resource_verb_and_code(cluster):
    cluster.put("/apis/storage.k8s.io/v1/csinodes/none", {"metadata": {"name": "none"}, "spec": {"drivers": []}})
    text = cluster.get("/metrics", accept="text/plain").body
    line = next(
        line
        for line in text.splitlines()
        if 'resource="csinodes"' in line and line.startswith("apiserver_request_total")
    )
    for label in ('code="404"', 'group="storage.k8s.io"', 'verb="PUT"', 'version="v1"', 'scope="resource"'):
        assert label in line
    for name in (
        "apiserver_request_duration_seconds_bucket",
        "apiserver_current_inflight_requests",
        "apiserver_storage_objects",
    ):
        assert f"\n{name}{{" in text


def test_a_body_over_three_mebibytes_is_413(cluster):
    reply = cluster.post(CONFIG_MAPS, b'{"metadata":{"name":"big"},"data":{"k":"' + b"x" * (3 << 20) + b'"}}')
    assert (reply.code, reply.message) == (413, "Request entity too large: limit is 3145728")


def test_nothing_is_written_outside_the_data_folder(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "tonnage", "--help"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=home,
        check=True,
    )
    assert "apiserver" in done.stdout and list(Path(home).iterdir()) == []
