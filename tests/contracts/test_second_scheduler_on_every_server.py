"""A second scheduler as one would install it: a name and a lease of its own, and pages for whom the server lets in.

Started by flags alone, in kube-scheduler's form, beside whatever serves `default-scheduler`.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from scheduler_program import second

from support.api_servers import ServerApi
from support.eventually import eventually
from support.http import unverified_tls
from support.pki import Authority
from tonnage_command import tonnage

RBAC = "/apis/rbac.authorization.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
AT_ONCE = (
    "--authentication-token-webhook-cache-ttl=0s",
    "--authorization-webhook-cache-authorized-ttl=0s",
    "--authorization-webhook-cache-unauthorized-ttl=0s",
)
"""What the server says counts at once, so that no test waits for an answer to grow old."""


def token_of(api: ServerApi, ns: str, name: str) -> str:
    """A ServiceAccount, and a token that is bound to it."""
    path = f"/api/v1/namespaces/{ns}/serviceaccounts"
    api.create(path, {"metadata": {"name": name}})
    return str(api.create(f"{path}/{name}/token", {"spec": {}}).body["status"]["token"])


def let_read(api: ServerApi, name: str, subject: dict[str, Any], *urls: str) -> None:
    rules = [{"nonResourceURLs": list(urls), "verbs": ["get"]}]
    api.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    api.create(f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})


def account(ns: str, name: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "namespace": ns, "name": name}


def test_it_serves_its_own_pods_under_its_own_lease_and_leaves_the_others(
    api: ServerApi, ns: str, pods: str, tmp_path: Path
) -> None:
    room = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    node = {"metadata": {"name": ns, "labels": {"mine": ns}}, "status": {"capacity": room, "allocatable": room}}
    api.create("/api/v1/nodes", node)

    def pod(name: str, **more: Any) -> dict[str, Any]:
        spec = {"nodeSelector": {"mine": ns}, "containers": [{"name": "c", "image": "i"}], **more}
        return {"metadata": {"name": name}, "spec": spec}

    api.create(pods, pod("default"))
    with second(api, tmp_path, ns) as scheduler:
        api.create(pods, pod("ours", schedulerName=ns))
        eventually(lambda: api.get(f"{pods}/ours").body["spec"].get("nodeName") == ns, details=lambda: scheduler.log)
        # The last pod that came in is placed, so that the first was seen, and left alone.
        assert "nodeName" not in api.get(f"{pods}/default").body["spec"]
        assert api.get(f"{pods}/default").body["status"].get("conditions") is None
        assert api.get(f"{LEASES}/{ns}").body["spec"]["holderIdentity"]
        assert api.get(f"{LEASES}/kube-scheduler").code == 404


def test_a_refusal_is_the_servers_own_word_for_word(api: ServerApi, ns: str, tmp_path: Path) -> None:
    poor = token_of(api, ns, "poor")
    with second(api, tmp_path, ns, *AT_ONCE) as scheduler:
        for token in (poor, "wrong"):
            theirs = refused_by(f"{api.url}/metrics", token)
            assert refused_by(f"https://127.0.0.1:{scheduler.port}/metrics", token) == theirs


def refused_by(url: str, token: str) -> tuple[int, Any, str | None]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, context=unverified_tls(), timeout=30)
    with refused.value as exc:
        return exc.code, json.loads(exc.read()), exc.headers.get("Cache-Control")


def test_metrics_are_for_whom_the_server_lets_in(api: ServerApi, ns: str, tmp_path: Path) -> None:
    good, poor = token_of(api, ns, "prom"), token_of(api, ns, "poor")
    let_read(api, ns, account(ns, "prom"), "/metrics", "/debug/*", "/configz")
    with second(api, tmp_path, ns, *AT_ONCE) as scheduler:
        for path in ("/healthz", "/livez", "/readyz"):
            assert scheduler.get(path) == (200, "ok")
        for path in ("/metrics", "/debug/reservations", "/debug/pprof/profile", "/configz", "/no/such/page"):
            told = f'forbidden: User "system:anonymous" cannot get path "{path}"'
            assert scheduler.refusal(path) == (403, told)
        assert scheduler.refusal("/metrics", "wrong") == (401, "Unauthorized")
        user = f"system:serviceaccount:{ns}:poor"
        assert scheduler.refusal("/metrics", poor) == (403, f'forbidden: User "{user}" cannot get path "/metrics"')
        code, metrics = scheduler.get("/metrics", good)
        assert code == 200
        assert "scheduler_schedule_attempts_total" in metrics
        assert isinstance(json.loads(scheduler.get("/debug/reservations", good)[1]), list)
        configuration = json.loads(scheduler.get("/configz", good)[1])["componentconfig"]
        assert configuration["leaderElection"]["resourceName"] == ns
        assert scheduler.get("/debug/pprof/", good)[0] == 200

        assert api.delete(f"{RBAC}/clusterrolebindings/{ns}").code == 200
        eventually(lambda: scheduler.get("/metrics", good)[0] == 403, "the right to be gone")
        assert api.delete(f"/api/v1/namespaces/{ns}/serviceaccounts/prom").code == 200
        eventually(lambda: scheduler.get("/metrics", good)[0] == 401, "the token to be nobody's")


@pytest.mark.parametrize("place", ["a file", "the cluster's ConfigMap"])
def test_a_client_certificate_is_a_user_too(api: ServerApi, ns: str, tmp_path: Path, place: str) -> None:
    authority = Authority(ns)
    (tmp_path / "users.crt").write_bytes(authority.pem)
    flags = [f"--client-ca-file={tmp_path / 'users.crt'}"] if place == "a file" else []
    if not flags:
        if api.is_embedded:
            pytest.skip("it names its own authority there and no other; see tests/integration/scheduler")
        publish(api, authority)
    certificate, key = tmp_path / "prom.crt", tmp_path / "prom.key"
    pair = authority.sign(f"prom-{ns}")
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    let_read(api, ns, {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": f"prom-{ns}"}, "/metrics")
    own = tmp_path / "kubeconfig"
    asked = (f"--authentication-kubeconfig={own}", f"--authorization-kubeconfig={own}")
    with second(api, tmp_path, ns, *flags, *asked, *AT_ONCE) as scheduler:
        assert scheduler.get("/metrics")[0] == 403
        assert scheduler.get("/metrics", certificate=(certificate, key))[0] == 200
        assert scheduler.get("/configz", certificate=(certificate, key))[0] == 403


def publish(api: ServerApi, authority: Authority) -> None:
    """Name one more authority where programs that delegate look for them; Kubernetes keeps what it finds there."""
    path = "/api/v1/namespaces/kube-system/configmaps"
    name = "extension-apiserver-authentication"
    found = api.get(f"{path}/{name}")
    pem = authority.pem.decode()
    if found.code == 404:  # a server that knows no authority of clients has nothing to publish
        api.create(path, {"metadata": {"name": name}, "data": {"client-ca-file": pem}})
        return
    known = (found.body.get("data") or {}).get("client-ca-file", "")
    changed = {**found.body, "data": {**(found.body.get("data") or {}), "client-ca-file": known + pem}}
    assert api.put(f"{path}/{name}", changed).code == 200


def test_explain_asks_it_as_the_kubeconfigs_user_or_with_a_token(
    api: ServerApi, ns: str, pods: str, tmp_path: Path
) -> None:
    api.create(pods, {"metadata": {"name": "db"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    (tmp_path / "poor").write_text(token_of(api, ns, "poor"))
    with second(api, tmp_path, ns) as scheduler:
        where = (
            f"--scheduler-endpoint=https://127.0.0.1:{scheduler.port}",
            f"--scheduler-ca={tmp_path / 'tls/ca.crt'}",
        )
        ask = ("explain", f"--kubeconfig={tmp_path / 'kubeconfig'}", f"--pod={ns}/db", "-o", "json", *where)
        done = tonnage(*ask)
        assert (done.returncode, "the scheduler" in done.stderr) == (0, False), done.stderr
        done = tonnage(*ask, f"--scheduler-token-file={tmp_path / 'poor'}")
        assert done.returncode == 0
        user = f"system:serviceaccount:{ns}:poor"
        assert f'forbidden: User "{user}" cannot get path "/debug/reservations"' in done.stderr
        assert "give --scheduler-token-file" in done.stderr


def test_with_kube_schedulers_lease_it_says_why_it_does_not_start(api: ServerApi, ns: str, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{schedulerName: {ns}}}]\n"
    )
    done = tonnage("scheduler", "--config", str(config))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"hint: give it a lease of its own: --leader-elect-resource-name={ns}, or leaderElection.resourceName: {ns} in "
        "the configuration"
    )
