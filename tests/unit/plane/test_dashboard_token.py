"""The token of a cluster's dashboard: kept from start to start, for its owner alone."""

from __future__ import annotations

import stat

import pytest

from tonnage.plane.settings import ensure_token, token_in
from tonnage.private_files import NotOurs


def test_a_token_is_made_once_and_kept(tmp_path):
    path = tmp_path / "dashboard.token"
    assert token_in(path) == ""
    ensure_token(path)
    first = token_in(path)
    ensure_token(path)
    assert token_in(path) == first and len(first) == 32  # 24 random bytes
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_that_somebody_planted_is_not_used(tmp_path):
    path = tmp_path / "dashboard.token"
    (tmp_path / "theirs").write_text("known-to-somebody-else")
    path.symlink_to(tmp_path / "theirs")
    with pytest.raises(NotOurs):
        ensure_token(path)
