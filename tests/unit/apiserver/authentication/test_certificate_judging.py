"""Which certificates prove something: those that an authority of ours signed for clients, in their time."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID, ObjectIdentifier

from tonnage.apiserver.authentication.client_certificates import ClientCertificates
from tonnage.serving import server_tls
from tonnage.serving.certificate_judging import InvalidCertificate, judged, subject_of
from tonnage.serving.server_tls import ask_for_any

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


class Party:
    """A certificate and its key; without an issuer it has signed itself."""

    def __init__(
        self,
        name: str,
        issuer: Party | None = None,
        *,
        is_ca: bool | None = None,
        most_below: int | None = None,
        extension: x509.ExtensionType | None = None,
        lasts: timedelta = DAY,
        uids: tuple[str, ...] = (),
    ) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        attributes = [(NameOID.COMMON_NAME, name), *((ObjectIdentifier("1.3.6.1.4.1.57683.2"), uid) for uid in uids)]
        self.name = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
        builder = (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(issuer.name if issuer else self.name)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - DAY)
            .not_valid_after(NOW + lasts)
        )
        if is_ca is not None:
            builder = builder.add_extension(x509.BasicConstraints(is_ca, most_below), critical=True)
        if extension is not None:
            builder = builder.add_extension(extension, critical=True)
        self.certificate = builder.sign(issuer.key if issuer else self.key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)


CA = Party("ca", is_ca=True)


def judge(pem: bytes = CA.pem, now: datetime = NOW) -> ClientCertificates:
    return ClientCertificates(pem, lambda: now)


def name_in(found: Party, judging: ClientCertificates | None = None) -> str:
    user = (judging or judge()).authenticate(found.der)
    assert user is not None
    return user.name


def test_a_certificate_names_one_uid_or_none() -> None:
    assert [subject_of(Party("jo", uids=uids).certificate).uid for uids in ((), ("u-1",))] == ["", "u-1"]
    with pytest.raises(InvalidCertificate, match=r"^expected 1 UID, but found multiple: \[a b\]$"):
        subject_of(Party("jo", uids=("a", "b")).certificate)


def test_a_certificate_of_ours_names_its_user() -> None:
    assert name_in(Party("jo", CA)) == "jo"


def test_one_of_two_authorities_of_one_name_is_enough() -> None:
    twin = Party("ca", is_ca=True)
    assert name_in(Party("jo", twin), judge(CA.pem + twin.pem)) == "jo"


@pytest.mark.parametrize(
    "forged",
    [
        Party("boss"),
        Party("boss", is_ca=True),
        Party("boss", Party("ca", is_ca=True)),
        Party("boss", Party("another", is_ca=True)),
        Party("boss", Party("jo", CA)),
        Party("boss", Party("between", CA, is_ca=True)),
    ],
    ids=["itself", "itself as authority", "a twin", "another authority", "a client of ours", "one between"],
)
def test_what_no_authority_of_ours_signed_proves_nothing(forged: Party) -> None:
    with pytest.raises(InvalidCertificate, match="signed by unknown authority"):
        judge().authenticate(forged.der)


def test_one_in_between_is_an_authority_when_it_is_named() -> None:
    between = Party("between", CA, is_ca=True)
    assert name_in(Party("jo", between), judge(between.pem)) == "jo"


@pytest.mark.parametrize("is_ca", [None, False])
def test_a_file_of_authorities_may_name_one_that_is_none(is_ca: bool | None) -> None:
    none = Party("none", is_ca=is_ca)
    with pytest.raises(InvalidCertificate, match="signed by unknown authority"):
        judge(none.pem).authenticate(Party("jo", none).der)


def test_an_authority_with_limits_that_nobody_looks_at_is_not_believed() -> None:
    limited = Party("limited", is_ca=True, extension=x509.NameConstraints([x509.DNSName("a.example")], None))
    with pytest.raises(InvalidCertificate):
        judge(limited.pem).authenticate(Party("jo", limited).der)


def test_a_limit_that_nobody_knows_is_a_refusal() -> None:
    odd = x509.UnrecognizedExtension(ObjectIdentifier("1.2.3.4"), b"\x05\x00")
    with pytest.raises(InvalidCertificate, match="unhandled critical extension"):
        judge().authenticate(Party("jo", CA, extension=odd).der)


@pytest.mark.parametrize("at", [NOW - 2 * DAY, NOW + 2 * DAY])
def test_time_is_looked_at_each_time(at: datetime) -> None:
    clock = [NOW]
    judging, jo = ClientCertificates(CA.pem, lambda: clock[0]), Party("jo", CA)
    assert name_in(jo, judging) == "jo"
    clock[0] = at
    with pytest.raises(InvalidCertificate, match="has expired or is not yet valid"):
        judging.authenticate(jo.der)


def test_a_certificate_ends_with_its_authority() -> None:
    short = Party("short", is_ca=True, lasts=DAY)
    with pytest.raises(InvalidCertificate, match="has expired"):
        judge(short.pem, NOW + 2 * DAY).authenticate(Party("jo", short, lasts=10 * DAY).der)


@pytest.mark.parametrize("der", [b"", b"x", b"\x30\x80", CA.der[:-1], CA.der + b"x"])
def test_what_is_no_certificate_is_refused(der: bytes) -> None:
    with pytest.raises(InvalidCertificate):
        judge().authenticate(der)


def test_where_openssl_cannot_be_told_tls_judges_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_tls, "take_any_certificate", lambda context: False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ask_for_any(context, judge().ca_pem)
    assert context.verify_mode == ssl.CERT_OPTIONAL
    assert [each["subject"] for each in context.get_ca_certs()] == [((("commonName", "ca"),),)]


def shown_with(found: Party, *beside: Party, authority: Party = CA) -> None:
    """Raises InvalidCertificate unless the certificates shown beside it lead up to the authority."""
    shown = [each.certificate for each in beside]
    judged(found.certificate, [authority.certificate], shown_beside=shown).check(NOW)


def test_certificates_shown_beside_it_lead_to_an_authority() -> None:
    upper = Party("upper", CA, is_ca=True)
    lower = Party("lower", upper, is_ca=True)
    jo = Party("jo", lower)
    shown_with(jo, lower, upper)
    shown_with(jo, upper, lower)
    shown_with(Party("jo", upper), upper, Party("unrelated", is_ca=True))
    for beside in [(), (lower,), (upper,)]:
        with pytest.raises(InvalidCertificate, match="signed by unknown authority"):
            shown_with(jo, *beside)


SERVERS_ALONE = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])
FORGED = {
    "the authority itself is shown": lambda: (Party("boss", Party("ca", is_ca=True)), CA),
    "a twin is shown": lambda: (Party("boss", twin := Party("ca", is_ca=True)), twin),
    "one between that no authority signed": lambda: (
        Party("boss", forged := Party("between", Party("ca", is_ca=True), is_ca=True)),
        forged,
        CA,
    ),
    "one between that may not sign": lambda: (Party("boss", client := Party("jo", CA)), client),
    "one between that says it is none": lambda: (Party("boss", client := Party("jo", CA, is_ca=False)), client),
    "one that is there twice": lambda: (Party("boss", own := Party("own", is_ca=True)), own, own),
    "one between for servers alone": lambda: (
        Party("boss", servers := Party("servers", CA, is_ca=True, extension=SERVERS_ALONE)),
        servers,
    ),
    "one between that has expired": lambda: (
        Party("boss", late := Party("late", CA, is_ca=True, lasts=-DAY / 2)),
        late,
    ),
    "more between than one may have below": lambda: (
        Party("boss", lower := Party("lower", upper := Party("upper", CA, is_ca=True, most_below=0), is_ca=True)),
        lower,
        upper,
    ),
}


@pytest.mark.parametrize("shown", FORGED.values(), ids=FORGED.keys())
def test_what_is_shown_beside_proves_nothing_by_itself(shown) -> None:
    with pytest.raises(InvalidCertificate):
        shown_with(*shown())


def test_so_many_between_are_looked_at_and_no_more() -> None:
    chain = [CA]
    for number in range(6):
        chain.append(Party(f"a{number}", chain[-1], is_ca=True))
    with pytest.raises(InvalidCertificate):
        shown_with(Party("jo", chain[-1]), *reversed(chain[1:]))
