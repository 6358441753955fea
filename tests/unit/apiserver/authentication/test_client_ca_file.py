"""A file of authorities that changes while a server runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tonnage.apiserver.authentication.client_certificates import ClientCaFile, ClientCertificates
from tonnage.certificates import ensure_identity

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def authorities(tmp_path: Path) -> list[bytes]:
    return [ensure_identity(tmp_path / name, ("localhost",), NOW).ca_pem for name in ("one", "two")]


def test_what_is_there_counts_and_what_is_broken_leaves_what_was(
    tmp_path: Path, authorities: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    one, two = authorities
    path, told = tmp_path / "clients.crt", []
    path.write_bytes(one)
    certificates = ClientCertificates(one, lambda: NOW)
    certificates.follow(lambda: told.append(certificates.ca_pem))
    file = ClientCaFile(path, certificates)
    file.refresh()
    assert told == []
    path.write_bytes(one + two)
    file.refresh()
    file.refresh()
    assert told == [one + two]
    path.write_text("nothing of the kind")
    file.refresh()
    file.refresh()
    path.unlink()
    file.refresh()
    assert certificates.ca_pem == one + two
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 2  # one line a cause
    path.write_bytes(two)
    file.refresh()
    assert told == [one + two, two]
