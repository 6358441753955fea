"""The audit log of a server: a line a request, kube-apiserver's fields, nothing secret, nothing when it is off."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.processes import start_cluster

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def events_of(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_every_request_is_a_line_with_who_what_and_the_answer(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    cluster = start_cluster(tmp_path / "data", "--audit-log-path", str(log))
    try:
        secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}}
        cluster.post("/api/v1/namespaces/default/secrets", secret)
        reply = cluster.get(f"{CONFIG_MAPS}/nothing?x=1")
        cluster.get("/version")
        cluster.get(CONFIG_MAPS, token="wrong")
        shown = cluster.get("/metrics").body
    finally:
        cluster.stop()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    created, missing, version, refused = (
        next(each for each in events_of(log) if (each["verb"], each["responseStatus"]["code"]) == key)
        for key in (("create", 201), ("get", 404), ("get", 200), ("get", 401))
    )
    assert created["objectRef"] == {"resource": "secrets", "namespace": "default", "apiVersion": "v1"}
    assert (created["stage"], created["level"]) == ("ResponseComplete", "Metadata")
    assert created["user"]["groups"] == ["system:masters", "system:authenticated"]
    assert created["sourceIPs"] == ["127.0.0.1"]
    assert created["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert missing["objectRef"]["name"] == "nothing"
    assert missing["responseStatus"]["reason"] == "NotFound"
    assert missing["auditID"] == reply.headers["Audit-Id"]
    assert (version["requestURI"], "objectRef" in version) == ("/version", False)
    assert refused["user"] == {}
    text = log.read_text()
    assert "hunter2" not in text
    assert cluster.token not in text
    assert "wrong" not in text
    lines = dict(line.rsplit(" ", 1) for line in shown.splitlines() if not line.startswith("#"))
    assert lines['authentication_attempts{result="error"}'] == "1.0"
    assert float(lines["apiserver_audit_event_total"]) >= 4
    assert float(lines['apiserver_audit_level_total{level="Metadata"}']) >= 5  # its own line is still to be written
    assert lines['apiserver_audit_error_total{plugin="log"}'] == "0.0"


def test_a_watch_is_told_when_it_begins_and_when_it_ends(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    cluster = start_cluster(tmp_path / "data", "--audit-log-path", str(log))
    try:
        cluster.get(f"{CONFIG_MAPS}?watch=true&timeoutSeconds=1")
        eventually(lambda: len([each for each in events_of(log) if each["verb"] == "watch"]) == 2, "both lines")
    finally:
        cluster.stop()
    first, last = (each for each in events_of(log) if each["verb"] == "watch")
    assert (first["stage"], last["stage"]) == ("ResponseStarted", "ResponseComplete")
    assert first["auditID"] == last["auditID"]


def test_without_the_flag_answers_have_no_audit_id(cluster: Any) -> None:
    assert "Audit-Id" not in cluster.get("/version").headers


def test_a_log_that_cannot_be_opened_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        start_cluster(tmp_path / "data", "--audit-log-path", str(tmp_path / "no" / "audit.log"))
    assert "cannot be written" in (tmp_path / "data" / "stderr.log").read_text()
