"""Users by client certificate, over real TLS: who is let in, and who is not."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from support.eventually import eventually
from support.http import ApiClient, Reply
from support.processes import ApiServerProcess, start_cluster
from tonnage.certificates import ensure_identity
from tonnage.serving.server_tls import take_any_certificate

pytestmark = pytest.mark.filterwarnings("ignore:Attribute's length must be")
NOW = datetime.now(UTC)
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
NEEDS_ANY_CERTIFICATE = pytest.mark.skipif(
    not take_any_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)),
    reason="of this Python TLS breaks off the handshake by itself",
)
UID = ObjectIdentifier("1.3.6.1.4.1.57683.2")
Attributes = list[tuple[ObjectIdentifier, str]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    running = start_cluster(tmp_path_factory.mktemp("certificates"))
    yield running
    assert running.stop() == 0


def named(common_name: str, *groups: str) -> Attributes:
    return [(NameOID.COMMON_NAME, common_name), *((NameOID.ORGANIZATION_NAME, group) for group in groups)]


def client_certificate(
    pki: Path,
    to: Path,
    subject: Attributes,
    *,
    begins_at: datetime = NOW - timedelta(hours=1),
    ends_at: datetime = NOW + timedelta(days=1),
    usage: ObjectIdentifier | None = ExtendedKeyUsageOID.CLIENT_AUTH,
) -> Path:
    """A certificate and its key in one file, signed by the authority of a folder."""
    ca = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
    ca_key = serialization.load_pem_private_key((pki / "ca.key").read_bytes(), password=None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(oid, value, _validate=False) for oid, value in subject]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins_at)
        .not_valid_after(ends_at)
    )
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = to / "client.pem"
    path.write_bytes(builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM) + pem)
    return path


def whoami(server: ApiServerProcess, certificate: Path | None, token: str = "") -> Reply:
    tls = ssl.create_default_context(cafile=str(server.folder / "pki" / "ca.crt"))
    if certificate is not None:
        tls.load_cert_chain(certificate)
    asking = ApiClient(server.url, token, tls=tls)
    return asking.post(SELF, {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"})


def test_the_common_name_is_the_user_and_the_organisations_are_the_groups(
    server: ApiServerProcess, tmp_path: Path
) -> None:
    subject = [*named("jo", "dev", "ops"), (UID, "u-1")]
    found = whoami(server, client_certificate(server.folder / "pki", tmp_path, subject))
    user = found["status"]["userInfo"]
    assert (user["username"], user["uid"], user["groups"]) == ("jo", "u-1", ["dev", "ops", "system:authenticated"])
    (shown,) = user["extra"]["authentication.kubernetes.io/credential-id"]
    assert shown.startswith("X509SHA256=") and len(shown) == len("X509SHA256=") + 64


def test_masters_may_do_everything(server: ApiServerProcess, tmp_path: Path) -> None:
    certificate = client_certificate(server.folder / "pki", tmp_path, named("boss", "system:masters"))
    tls = ssl.create_default_context(cafile=str(server.folder / "pki" / "ca.crt"))
    tls.load_cert_chain(certificate)
    assert ApiClient(server.url, "", tls=tls).get("/api/v1/secrets").code == 200


@pytest.mark.parametrize("name", ["a/b", "<b>&", "jö", "system:anonymous", "x" * 300, "tab\tnewline\n", "null\x00"])
def test_a_common_name_may_be_anything(server: ApiServerProcess, tmp_path: Path, name: str) -> None:
    found = whoami(server, client_certificate(server.folder / "pki", tmp_path, named(name)))
    assert (found.code, found["status"]["userInfo"]["username"]) == (201, name)


def test_of_several_common_names_the_last_one_counts(server: ApiServerProcess, tmp_path: Path) -> None:
    subject = [(NameOID.COMMON_NAME, "first"), (NameOID.COMMON_NAME, "last")]
    found = whoami(server, client_certificate(server.folder / "pki", tmp_path, subject))
    assert found["status"]["userInfo"]["username"] == "last"


@pytest.mark.parametrize("subject", [named("", "system:masters"), [(NameOID.ORGANIZATION_NAME, "system:masters")]])
def test_a_certificate_without_a_name_is_nobodys(server: ApiServerProcess, tmp_path: Path, subject: Attributes) -> None:
    certificate = client_certificate(server.folder / "pki", tmp_path, subject)
    assert whoami(server, certificate).code == 401
    assert whoami(server, certificate, server.token)["status"]["userInfo"]["username"] == "admin"


def test_two_uids_are_none(server: ApiServerProcess, tmp_path: Path) -> None:
    subject = [*named("jo"), (UID, "a"), (UID, "b")]
    assert whoami(server, client_certificate(server.folder / "pki", tmp_path, subject)).code == 401


@NEEDS_ANY_CERTIFICATE
@pytest.mark.parametrize(
    ("begins_at", "ends_at"),
    [(NOW - timedelta(days=2), NOW - timedelta(days=1)), (NOW + timedelta(days=1), NOW + timedelta(days=2))],
)
def test_before_and_after_its_time_it_proves_nothing(
    server: ApiServerProcess, tmp_path: Path, begins_at: datetime, ends_at: datetime
) -> None:
    subject = named("boss", "system:masters")
    certificate = client_certificate(server.folder / "pki", tmp_path, subject, begins_at=begins_at, ends_at=ends_at)
    refused = whoami(server, certificate)
    assert (refused.code, refused.message) == (401, "Unauthorized")
    assert whoami(server, certificate, server.token)["status"]["userInfo"]["username"] == "admin"


def test_a_good_certificate_needs_no_token(server: ApiServerProcess, tmp_path: Path) -> None:
    certificate = client_certificate(server.folder / "pki", tmp_path, named("jo"))
    assert whoami(server, certificate, "wrong")["status"]["userInfo"]["username"] == "jo"


@pytest.mark.parametrize("usage", [None, ExtendedKeyUsageOID.CLIENT_AUTH])
def test_a_certificate_for_clients_or_for_anything(
    server: ApiServerProcess, tmp_path: Path, usage: ObjectIdentifier | None
) -> None:
    assert whoami(server, client_certificate(server.folder / "pki", tmp_path, named("jo"), usage=usage)).code == 201


@NEEDS_ANY_CERTIFICATE
def test_one_of_another_authority_or_for_servers_gets_nowhere(server: ApiServerProcess, tmp_path: Path) -> None:
    ensure_identity(tmp_path / "foreign", ("localhost",), NOW)
    foreign = client_certificate(tmp_path / "foreign", tmp_path, named("boss", "system:masters"))
    assert whoami(server, foreign).code == 401
    serving = client_certificate(
        server.folder / "pki", tmp_path, named("boss", "system:masters"), usage=ExtendedKeyUsageOID.SERVER_AUTH
    )
    assert whoami(server, serving).code == 401
    assert whoami(server, foreign, server.token).code == 201


@NEEDS_ANY_CERTIFICATE
def test_a_client_authority_of_ones_own(tmp_path: Path) -> None:
    ensure_identity(tmp_path / "clients", ("localhost",), NOW)
    running = start_cluster(tmp_path / "data", "--client-ca-file", str(tmp_path / "clients" / "ca.crt"))
    try:
        theirs = client_certificate(tmp_path / "clients", tmp_path, named("jo"))
        assert whoami(running, theirs)["status"]["userInfo"]["username"] == "jo"
        assert whoami(running, client_certificate(running.folder / "pki", tmp_path, named("jo"))).code == 401
        told = running.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
        assert told["data"]["client-ca-file"] == (tmp_path / "clients" / "ca.crt").read_text()
    finally:
        running.stop()


@NEEDS_ANY_CERTIFICATE
def test_another_client_authority_is_believed_without_a_restart(tmp_path: Path) -> None:
    for name in ("first", "second"):
        ensure_identity(tmp_path / name, ("localhost",), NOW)
        (tmp_path / f"by-{name}").mkdir()
    file = tmp_path / "clients.crt"
    file.write_bytes((tmp_path / "first" / "ca.crt").read_bytes())
    old = client_certificate(tmp_path / "first", tmp_path / "by-first", named("jo"))
    new = client_certificate(tmp_path / "second", tmp_path / "by-second", named("jo"))
    running = start_cluster(tmp_path / "data", "--client-ca-file", str(file))
    try:
        assert (whoami(running, old).code, whoami(running, new).code) == (201, 401)
        file.write_text("no certificate")  # half a change leaves what was
        assert whoami(running, old).code == 201
        file.write_bytes((tmp_path / "second" / "ca.crt").read_bytes())
        eventually(lambda: whoami(running, new).code == 201, "the new authority to be believed")
        assert whoami(running, old).code == 401
        path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
        eventually(lambda: running.get(path)["data"]["client-ca-file"] == file.read_text(), "programs to be told")
    finally:
        running.stop()
