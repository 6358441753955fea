"""Files for their owner alone: written whole, with mode 0600."""

from __future__ import annotations

import stat
from pathlib import Path

from tonnage.private_files import write_private


def test_a_file_is_for_its_owner_alone_and_nothing_is_left_beside_it(tmp_path: Path):
    path = tmp_path / "token"
    write_private(path, b"first")
    write_private(path, b"second")
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["token"]


def test_a_file_that_others_could_read_becomes_private(tmp_path: Path):
    path = tmp_path / "token"
    path.write_bytes(b"open")
    path.chmod(0o644)
    write_private(path, b"closed")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
