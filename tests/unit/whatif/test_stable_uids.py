"""Uids made from names."""

from __future__ import annotations

import uuid

import pytest

from tonnage.whatif.creation import stable_uid


@pytest.mark.parametrize("name", ["", "Pod/shop/db-0/1", "PersistentVolumeClaim/shop/data-ü/2", "x" * 300])
def test_a_uid_is_that_of_uuid5(name):
    assert stable_uid(name) == str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def test_different_names_have_different_uids():
    assert len({stable_uid(f"Pod/shop/db-{number}/1") for number in range(1000)}) == 1000
