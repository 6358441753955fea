"""The file of an audit log: private, bounded, and no reason to stop serving."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tonnage.apiserver.audit_log import AuditLogFile
from tonnage.apiserver.settings import AuditSettings
from tonnage.errors import TonnageError

AT = datetime(2026, 11, 15, 2, 29, 13, 500_000, tzinfo=UTC)


def test_lines_are_added_to_a_file_that_nobody_else_reads(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for line in (b"one", b"two"):
        with AuditLogFile(AuditSettings(str(path))) as file:
            file.write(line, AT)
    assert path.read_text() == "one\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_full_file_is_put_aside_by_the_time_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with AuditLogFile(AuditSettings(str(path), max_bytes=8, max_backups=2)) as file:
        for number in range(4):  # each of 8 bytes with its end
            file.write(b"line %02d" % number, AT + timedelta(seconds=number))
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "audit-2026-11-15T02-29-15.500.log",
        "audit-2026-11-15T02-29-16.500.log",
        "audit.log",
    ]
    assert path.read_text() == "line 03\n"


def test_without_a_bound_nothing_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with AuditLogFile(AuditSettings(str(path), max_bytes=0)) as file:
        for _ in range(3):
            file.write(b"x" * 100, AT)
    assert [each.name for each in tmp_path.iterdir()] == ["audit.log"]


def test_a_path_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(TonnageError, match=r"--audit-log-path .*nowhere/audit.log: cannot be written: No such file"):
        AuditLogFile(AuditSettings(str(tmp_path / "nowhere" / "audit.log")))


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "audit.log").symlink_to(tmp_path / "other")
    with pytest.raises(TonnageError):
        AuditLogFile(AuditSettings(str(tmp_path / "audit.log")))
    assert (tmp_path / "other").read_text() == "theirs"


def test_a_disk_that_takes_no_more_costs_lines_and_nothing_else(tmp_path: Path) -> None:
    with AuditLogFile(AuditSettings(str(tmp_path / "audit.log"))) as file:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, file._fd)
        os.close(full)
        file.write(b"lost", AT)
        assert file.lost == 1
