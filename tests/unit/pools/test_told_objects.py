"""What a driver's objects are about, and amounts as strangers write them."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.client.cache import Cache, Indexer
from tonnage.client.discovered_kinds import document_class
from tonnage.objects.codec import convert
from tonnage.objects.meta import Document
from tonnage.pools.reading import bytes_of, newest_by_node, node_of
from tonnage.pools.sources.openebs import ZFS_NODES


def zfs_node(name: str, owner: str = "", **metadata: Any) -> Document:
    owners = [{"apiVersion": "v1", "kind": "Node", "name": owner, "uid": "u"}] if owner else []
    meta = {"name": name, "namespace": "openebs", "ownerReferences": owners, **metadata}
    return convert(document_class(ZFS_NODES), {"apiVersion": "zfs.openebs.io/v1", "kind": "ZFSNode", "metadata": meta})


def test_an_object_is_in_one_place_also_when_its_owner_is_set_later() -> None:
    objects = Cache(document_class(ZFS_NODES))
    about = Indexer(objects, lambda found: (node_of(dict(found.doc)),))
    objects.put(zfs_node("id-1", resourceVersion="1"))
    assert [each.name for each in about("id-1")] == ["id-1"]
    objects.put(zfs_node("id-1", "node-1", resourceVersion="2"))
    assert [each.name for each in about("node-1")] == ["id-1"] and about("id-1") == ()
    objects.remove("openebs/id-1")
    assert about("node-1") == ()


def test_of_two_objects_written_in_one_second_the_later_version_is_newer() -> None:
    at = [{"manager": "agent", "time": "2026-09-01T07:10:00Z"}]
    versions = ("999", "1000", "998")
    docs = [
        dict(zfs_node(f"of-{version}", "node-1", managedFields=at, resourceVersion=version).doc) for version in versions
    ]
    assert newest_by_node(docs, [])["node-1"]["metadata"]["resourceVersion"] == "1000"


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("1020Gi", 1020 << 30),
        ("1095216660480", 1020 << 30),
        (1095216660480, 1020 << 30),
        ("1e12", 10**12),
        (1e12, 10**12),
        ("1.5", 1),  # a byte that is not whole is not there
        ("100Gi ", 100 << 30),
        (0, 0),
        ("0", 0),
        ("9999999999E", (1 << 63) - 1),
        (10**30, (1 << 63) - 1),
        ("-1", None),
        ("-1m", None),
        (-1, None),
        ("", None),
        (" ", None),
        ("much", None),
        (True, None),
        (None, None),
        ([], None),
        (float("nan"), None),
        (float("inf"), None),
        ("1" * 5000, None),
    ],
)
def test_amounts_are_read_as_they_are_meant_or_not_at_all(told: object, found: int | None) -> None:
    assert bytes_of(told) == found
