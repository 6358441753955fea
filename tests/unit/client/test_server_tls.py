"""TLS of a listener: certificates that are given, read again when they change, and rules about what is spoken."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from support.pki import Authority, KeyPair
from support.virtual_clock import VirtualClock
from tonnage.errors import TonnageError
from tonnage.listener import listening
from tonnage.serving.server_tls import GivenCertificate, ServerTls

CA, OTHER = Authority(), Authority("other")


def written(folder: Path, pair: KeyPair) -> tuple[Path, Path]:
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    return folder / "tls.crt", folder / "tls.key"


async def shown_name(tls: ServerTls, **options: object) -> tuple[str, str | None, str]:
    """What a client sees: the certificate's name, the protocol, the cipher."""

    async def handle(request: object) -> object:
        raise AssertionError("nothing is asked")

    async with listening(handle, host="127.0.0.1", port=0, tls=tls.context) as listener:  # type: ignore[arg-type]
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        for name, value in options.items():
            setattr(context, name, value)
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=context)
        tls_object = writer.get_extra_info("ssl_object")
        certificate = x509.load_der_x509_certificate(tls_object.getpeercert(binary_form=True))
        found = certificate.subject.rfc4514_string(), tls_object.version(), tls_object.cipher()[0]
        writer.transport.abort()
        return found


async def test_a_given_certificate_is_shown_and_read_again_when_it_changes(tmp_path):
    clock = VirtualClock(datetime.now(UTC))
    given = GivenCertificate(*written(tmp_path, CA.sign("first", "127.0.0.1")), clock)
    tls = ServerTls(given)
    async with tls.renewed():
        assert (await shown_name(tls))[0] == "CN=first"
        second = CA.sign("second", "127.0.0.1")
        (tmp_path / "tls.crt").write_bytes(second.certificate)
        await clock.run_for(61.0)  # half a pair is not shown
        assert (await shown_name(tls))[0] == "CN=first"
        (tmp_path / "tls.key").write_bytes(second.key)
        await clock.run_for(61.0)
        assert (await shown_name(tls))[0] == "CN=second"
        (tmp_path / "tls.crt").unlink()
        await clock.run_for(61.0)
        assert (await shown_name(tls))[0] == "CN=second"


async def test_rules_say_what_is_spoken(tmp_path):
    given = GivenCertificate(*written(tmp_path, CA.sign("server", "127.0.0.1")), VirtualClock())
    newest = ServerTls(given, minimum=ssl.TLSVersion.TLSv1_3)
    assert (await shown_name(newest))[1] == "TLSv1.3"
    with pytest.raises(OSError):
        await shown_name(newest, maximum_version=ssl.TLSVersion.TLSv1_2)
    suite = ServerTls(given, ciphers=("ECDHE-ECDSA-AES256-GCM-SHA384",))
    older = await shown_name(suite, maximum_version=ssl.TLSVersion.TLSv1_2)
    assert older[1:] == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")


def test_what_cannot_be_served_is_told(tmp_path):
    certificate, key = written(tmp_path, CA.sign("server", "127.0.0.1"))
    with pytest.raises(TonnageError, match="none of the cipher suites NO-SUCH"):
        ServerTls(GivenCertificate(certificate, key, VirtualClock()), ciphers=("NO-SUCH",))
    with pytest.raises(TonnageError, match=r"tls\.crt cannot be served with the key .*missing: no such file"):
        GivenCertificate(certificate, tmp_path / "missing", VirtualClock())
    key.write_bytes(OTHER.sign("other").key)
    with pytest.raises(TonnageError, match="key values mismatch"):
        GivenCertificate(certificate, key, VirtualClock())
    with pytest.raises(TonnageError, match="TLS cannot be served"):
        written(tmp_path, CA.sign("server"))
        given = GivenCertificate(certificate, key, VirtualClock())
        ServerTls(given, client_authorities=lambda: b"no authority")


async def test_authorities_that_break_leave_what_was_good(tmp_path):
    given = GivenCertificate(*written(tmp_path, CA.sign("server", "127.0.0.1")), VirtualClock())
    authorities = [CA.pem]
    tls = ServerTls(given, client_authorities=lambda: authorities[-1])
    good = tls.context()
    authorities.append(b"no authority")
    assert tls.context() is good
    authorities.append(OTHER.pem)
    assert tls.context() is not good
    assert tls.context().verify_mode is ssl.CERT_OPTIONAL
    authorities.append(b"")
    assert tls.context().verify_mode is ssl.CERT_NONE
