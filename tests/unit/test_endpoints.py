"""Where programs serve, kept in a folder."""

from __future__ import annotations

import json

import pytest

from tonnage.endpoints import Endpoint, read_endpoints, write_endpoints
from tonnage.errors import TonnageError


def test_they_are_written_for_their_owner_alone_and_read_with_whom_to_trust(tmp_path):
    (tmp_path / "ca.crt").write_bytes(b"PEM")
    urls = {"scheduler": "https://127.0.0.1:20001", "node": "http://127.0.0.1:20002"}
    write_endpoints(tmp_path, urls, {"scheduler": "ca.crt", "controllers": "not/there"})
    file = tmp_path / "endpoints.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text()) == {
        "scheduler": {"url": "https://127.0.0.1:20001", "certificateAuthority": "ca.crt"},
        "node": {"url": "http://127.0.0.1:20002"},
    }
    assert read_endpoints(tmp_path) == {
        "scheduler": Endpoint("https://127.0.0.1:20001", b"PEM"),
        "node": Endpoint("http://127.0.0.1:20002"),
    }


def test_a_folder_without_them_has_none(tmp_path):
    assert read_endpoints(tmp_path) == {}


@pytest.mark.parametrize("text", ["", "[]", '{"scheduler": 7}', '{"scheduler": {"url": 7}}', '{"scheduler": {}}'])
def test_a_broken_file_is_named(tmp_path, text):
    (tmp_path / "endpoints.json").write_text(text)
    with pytest.raises(TonnageError, match=r"endpoints\.json does not say where programs are served"):
        read_endpoints(tmp_path)
