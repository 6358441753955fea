"""A serving certificate stays valid while its server runs, and follows its files."""

from __future__ import annotations

import asyncio
import logging
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509

from support.virtual_clock import VirtualClock
from tonnage.certificates import ensure_identity
from tonnage.errors import TonnageError
from tonnage.listener import listening
from tonnage.serving.server_tls import ServerTls, ServingCertificate

DAY_S = 86_400.0
HOSTS = ("127.0.0.1", "localhost")
START = datetime(2030, 1, 1, tzinfo=UTC)


def made(folder: Path, clock: VirtualClock) -> ServingCertificate:
    return ServingCertificate(folder, HOSTS, clock)


def expiry(folder: Path) -> datetime:
    return x509.load_pem_x509_certificate((folder / "apiserver.crt").read_bytes()).not_valid_after_utc


def test_it_is_renewed_in_its_last_month_by_the_same_authority(tmp_path: Path):
    clock = VirtualClock(START)
    certificate = made(tmp_path, clock)
    authority, first = (tmp_path / "ca.crt").read_bytes(), certificate.content
    clock.advance(334 * DAY_S)  # 31 days are left of 365
    certificate.refresh()
    assert certificate.content is first
    clock.advance(2 * DAY_S)
    certificate.refresh()
    assert certificate.content is not first
    assert expiry(tmp_path) == START + timedelta(days=336 + 365)
    assert (tmp_path / "ca.crt").read_bytes() == authority


@pytest.mark.parametrize("days", [-1, -29])
def test_a_clock_that_is_set_back_makes_no_certificate_too_early(tmp_path: Path, days: int):
    clock = VirtualClock(START)
    certificate = made(tmp_path, clock)
    clock.set_time_of_day(days * DAY_S)
    first = certificate.content
    certificate.refresh()
    assert certificate.content is first
    for name in ("ca.crt", "apiserver.crt"):
        assert x509.load_pem_x509_certificate((tmp_path / name).read_bytes()).not_valid_before_utc < clock.now()


def test_one_that_was_renewed_while_the_clock_was_far_ahead_is_made_anew(tmp_path: Path):
    clock = VirtualClock(START)
    certificate = made(tmp_path, clock)
    for days in (400, -400):
        before = certificate.content
        clock.set_time_of_day(days * DAY_S)
        certificate.refresh()
        assert certificate.content is not before
    assert expiry(tmp_path) == START + timedelta(days=365)


def test_an_authority_from_the_future_says_so(tmp_path: Path):
    made(tmp_path, VirtualClock(START))
    with pytest.raises(TonnageError, match=r"is valid from 2029-12-02 on, and today is 2028-01-01") as refused:
        made(tmp_path, VirtualClock(datetime(2028, 1, 1, tzinfo=UTC)))
    assert refused.value.hint == "set the machine's clock"


async def test_it_is_looked_after_while_the_server_runs(tmp_path: Path):
    clock = VirtualClock(START)
    certificate = made(tmp_path, clock)
    first = certificate.content
    async with certificate.renewed():
        await asyncio.sleep(0)
        clock.advance(340 * DAY_S)
        await clock.run_for(60)
        assert certificate.content is not first


async def test_the_next_connection_is_shown_the_new_one(tmp_path: Path):
    clock = VirtualClock(datetime.now(UTC))  # OpenSSL reads the machine's own clock
    certificate = made(tmp_path, clock)

    async def never(request: web.BaseRequest) -> web.StreamResponse:
        raise AssertionError("nobody asks")

    async def shown(port: int) -> bytes | None:
        trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        return found

    async with listening(never, host="127.0.0.1", port=0, tls=ServerTls(certificate).context) as listener:
        before = await shown(listener.port)
        (tmp_path / "apiserver.crt").unlink()
        certificate.refresh()
        after = await shown(listener.port)
    assert before is not None and after is not None and before != after


def test_files_that_somebody_else_put_there_are_shown(tmp_path: Path):
    clock = VirtualClock(START)
    certificate = made(tmp_path, clock)
    first = certificate.content
    (tmp_path / "apiserver.crt").unlink()
    ensure_identity(tmp_path, HOSTS, clock.now() + timedelta(days=1))
    certificate.refresh()
    assert certificate.content is not first


@pytest.mark.parametrize("name", ["apiserver.crt", "apiserver.key"])
def test_half_a_pair_is_made_anew(tmp_path: Path, name: str):
    clock = VirtualClock(START)
    other = tmp_path / "other"
    made(other, clock)
    made(tmp_path, clock)
    (tmp_path / name).write_bytes((other / name).read_bytes())  # as after an end between two writes
    made(tmp_path, clock)
    (tmp_path / name).write_bytes(b"nothing of the kind")
    made(tmp_path, clock)


@pytest.mark.parametrize("found", [b"broken", None])
def test_what_cannot_be_renewed_leaves_the_old_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, found: bytes | None
):
    clock = VirtualClock(START)
    certificate = made(tmp_path, clock)
    first = certificate.content
    (tmp_path / "apiserver.crt").unlink()
    if found is None:
        (tmp_path / "ca.crt").unlink()
    else:
        (tmp_path / "ca.crt").write_bytes(found)
    with caplog.at_level(logging.ERROR):
        certificate.refresh()
    assert certificate.content is first
    assert "cannot be renewed, the old one is kept" in caplog.text


def test_an_authority_that_is_about_to_expire_is_told_of_once_a_day(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    clock = VirtualClock(START)
    certificate = made(tmp_path, clock)
    clock.advance((3650 - 89) * DAY_S)
    for _ in range(3):
        certificate.refresh()
    clock.advance(DAY_S)
    certificate.refresh()
    told = [
        record.getMessage() for record in caplog.records if record.getMessage().startswith("The certificate authority")
    ]
    assert len(told) == 2
    assert "expires on 2039-12-30" in told[0]


def test_a_certificate_does_not_outlive_its_authority_nor_is_it_made_again_and_again(tmp_path: Path):
    clock = VirtualClock(START)
    certificate = made(tmp_path, clock)
    clock.advance((3650 - 20) * DAY_S)
    certificate.refresh()
    assert expiry(tmp_path) == START + timedelta(days=3650)
    last = certificate.content
    certificate.refresh()
    assert certificate.content is last


def test_an_expired_authority_is_an_error_with_a_remedy(tmp_path: Path):
    made(tmp_path, VirtualClock(START))
    with pytest.raises(TonnageError, match="has expired on 2039-12-30") as failed:
        made(tmp_path, VirtualClock(START + timedelta(days=3651)))
    assert "every kubeconfig has to be handed out again" in (failed.value.hint or "")
