"""Open watches whose token or certificate ends: each watch ends with it, and tells nothing that happens afterwards."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from support.eventually import eventually
from support.processes import ApiServerProcess
from tonnage.apiserver.authentication.service_account_tokens import ensure_signing_key

CORE = "/api/v1/namespaces/default"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ISSUER = "https://kubernetes.default.svc.cluster.local"
SOON_S = 8


class OpenWatch:
    """A watch of the ConfigMaps of a namespace, by whoever holds a token or a certificate."""

    def __init__(self, cluster: ApiServerProcess, token: str = "", certificate: Path | None = None) -> None:
        tls = ssl.create_default_context(cafile=str(cluster.folder / "pki" / "ca.crt"))
        if certificate is not None:
            tls.load_cert_chain(certificate)
        at = cluster.url.removeprefix("https://")
        self._connection = http.client.HTTPSConnection(at, timeout=20, context=tls)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection.request("GET", f"{CORE}/configmaps?watch=1", headers=headers)
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()

    def name_of_next(self) -> str:
        return str(json.loads(self._answer.readline())["object"]["metadata"]["name"])

    def rest(self) -> str:
        """Everything until the server ends the stream, in good order; fails by time-out if it does not."""
        came = self._answer.read().decode()
        self.close()
        return came

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


def account(cluster: ApiServerProcess, name: str) -> str:
    """A ServiceAccount that may do everything in the namespace."""
    assert cluster.post(f"{CORE}/serviceaccounts", {"metadata": {"name": name}}).code == 201
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }
    assert cluster.post(f"{RBAC}/namespaces/default/rolebindings", binding).code == 201
    return name


def token_of(cluster: ApiServerProcess, name: str, bound: dict[str, Any] | None = None) -> str:
    spec = {"spec": {"boundObjectRef": bound} if bound else {}}
    made = cluster.post(f"{CORE}/serviceaccounts/{name}/token", spec)
    assert made.code == 201, made
    return str(made["status"]["token"])


def bound_to(cluster: ApiServerProcess, name: str, kind: str, collection: str, body: dict[str, Any]) -> str:
    made = cluster.post(collection, body)
    assert made.code == 201, made
    return token_of(
        cluster, name, {"kind": kind, "apiVersion": "v1", "name": made.meta["name"], "uid": made.meta["uid"]}
    )


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def short_token(cluster: ApiServerProcess, name: str) -> str:
    """A token that ends in some seconds; the server itself makes none under ten minutes."""
    at, uid = int(time.time()), cluster.get(f"{CORE}/serviceaccounts/{name}").meta["uid"]
    about = {"namespace": "default", "serviceaccount": {"name": name, "uid": uid}}
    said = {"aud": [ISSUER], "exp": at + SOON_S, "iat": at, "nbf": at, "iss": ISSUER, "kubernetes.io": about}
    said["sub"] = f"system:serviceaccount:default:{name}"
    return ensure_signing_key(cluster.folder / "pki" / "sa.key").signed(json.dumps(said).encode())


def short_certificate(cluster: ApiServerProcess, to: Path) -> Path:
    pki, now = cluster.folder / "pki", datetime.now(UTC)
    ca = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
    ca_key = serialization.load_pem_private_key((pki / "ca.key").read_bytes(), password=None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [(NameOID.COMMON_NAME, "jane"), (NameOID.ORGANIZATION_NAME, "system:masters")]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(oid, value) for oid, value in names]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(seconds=SOON_S))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = to / "client.pem"
    path.write_bytes(builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM) + pem)
    return path


def test_a_watch_ends_with_what_its_credentials_stand_for(cluster: ApiServerProcess) -> None:
    for name in ("deleted", "made-anew", "bound", "old-secret", "stripped"):
        account(cluster, name)
    secret = {
        "metadata": {"name": "old", "annotations": {"kubernetes.io/service-account.name": "old-secret"}},
        "type": "kubernetes.io/service-account-token",
    }
    assert cluster.post(f"{CORE}/secrets", secret).code == 201
    eventually(lambda: "token" in cluster.get(f"{CORE}/secrets/old").body.get("data", {}), "the Secret to have a token")
    of_pod = bound_to(cluster, "bound", "Pod", f"{CORE}/pods", pod("p", serviceAccountName="bound"))
    going = pod("going", serviceAccountName="bound", nodeName="n")
    going["metadata"]["finalizers"] = ["example.org/stay"]
    tokens = {
        "account deleted": token_of(cluster, "deleted"),
        "account deleted and made anew": token_of(cluster, "made-anew"),
        "pod deleted": of_pod,
        "secret deleted": bound_to(cluster, "bound", "Secret", f"{CORE}/secrets", {"metadata": {"name": "s"}}),
        "node deleted": bound_to(cluster, "bound", "Node", "/api/v1/nodes", {"metadata": {"name": "n"}}),
        "token's own secret deleted": base64.b64decode(cluster.get(f"{CORE}/secrets/old")["data"]["token"]).decode(),
    }
    ending = {why: OpenWatch(cluster, token) for why, token in tokens.items()}
    staying = {
        "administrator": OpenWatch(cluster, cluster.token),
        "rights taken away": OpenWatch(cluster, stripped := token_of(cluster, "stripped")),  # as upstream
        "pod on its way out": OpenWatch(cluster, bound_to(cluster, "bound", "Pod", f"{CORE}/pods", going)),
    }
    cluster.create(f"{CORE}/configmaps", {"metadata": {"name": "before"}})
    for why, watch in (ending | staying).items():
        names = [watch.name_of_next()]
        while names[-1] != "before":  # a state that is sent first may hold others
            names.append(watch.name_of_next())
        assert names[-1] == "before", why

    for path in (
        "serviceaccounts/deleted", "serviceaccounts/made-anew", "pods/p?gracePeriodSeconds=0", "pods/going",
        "secrets/s", "secrets/old",
    ):  # fmt: skip
        assert cluster.delete(f"{CORE}/{path}").code in (200, 202), path
    assert cluster.post(f"{CORE}/serviceaccounts", {"metadata": {"name": "made-anew"}}).code == 201
    assert cluster.delete("/api/v1/nodes/n").code == 200
    assert cluster.delete(f"{RBAC}/namespaces/default/rolebindings/stripped").code == 200
    cluster.create(f"{CORE}/configmaps", {"metadata": {"name": "after"}})

    assert {why: watch.rest() for why, watch in ending.items()} == dict.fromkeys(ending, "")
    assert {why: watch.name_of_next() for why, watch in staying.items()} == dict.fromkeys(staying, "after")
    assert cluster.get(f"{CORE}/configmaps", token=stripped).code == 403
    for watch in staying.values():
        watch.close()


def test_a_quiet_watch_ends_too(cluster: ApiServerProcess) -> None:
    watch = OpenWatch(cluster, token_of(cluster, account(cluster, "quiet")))
    cluster.delete(f"{CORE}/serviceaccounts/quiet")
    assert "quiet" not in watch.rest()


@pytest.mark.slow
def test_a_watch_ends_when_its_token_or_certificate_expires(cluster: ApiServerProcess, tmp_path: Path) -> None:
    with_token = OpenWatch(cluster, short_token(cluster, account(cluster, "short")))
    with_certificate = OpenWatch(cluster, certificate=short_certificate(cluster, tmp_path))
    for watch in (with_token, with_certificate):
        assert "late" not in watch.rest()
