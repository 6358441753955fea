"""Ownership after ordinary writes: who owns what, when entries appear, merge and vanish."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.apply import field_set
from tonnage.documents.apply.managed_fields import FieldWrite, check_entries, reset_fields_of, track_update
from tonnage.documents.schema import schema_of
from tonnage.objects.document import Doc, copy
from tonnage.objects.resources import BY_KIND

CONFIG_MAP = schema_of("", "v1", "ConfigMap")
ACCOUNT = schema_of("", "v1", "ServiceAccount")
T1, T2, T3 = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z"


def config_map(entries: Any = None, **data: str) -> Doc:
    metadata: Doc = {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    if entries is not None:
        metadata["managedFields"] = entries
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **({"data": data} if data else {})}


def entry(manager: str, tree: Doc, time: str = T1, operation: str = "Update", **more: str) -> Doc:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        **({"time": time} if time else {}),
        "fieldsType": "FieldsV1",
        "fieldsV1": tree,
        **more,
    }


def data(*names: str, whole: bool = False) -> Doc:
    return {"f:data": {**({".": {}} if whole else {}), **{f"f:{name}": {} for name in names}}}


def write(old: Doc | None, new: Doc, manager: str, now: str = T2, **more: Any) -> list[Doc]:
    """Track one write and give back the entries; the old document must not be touched."""
    before = copy(old)
    track_update(FieldWrite(CONFIG_MAP, manager=manager, api_version="v1", now=now, **more), old=old, new=new)
    assert old == before
    entries = new["metadata"].get("managedFields", [])
    assert isinstance(entries, list)
    return entries


# -- creations and updates ---------------------------------------------------------------------------------------------


def test_a_creation_owns_all_it_sets_but_no_identity() -> None:
    new = config_map(a="1")
    new["metadata"] |= {"labels": {"x": "y"}, "generation": 1, "creationTimestamp": T1, "selfLink": "/x"}
    tree = {"f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}}
    assert write(None, new, "kubectl", T1) == [entry("kubectl", tree)]


def test_a_creation_that_sets_nothing_has_no_owner() -> None:
    new = config_map()
    assert write(None, new, "kubectl") == []
    assert "managedFields" not in new["metadata"]


def test_an_update_takes_what_it_changes_and_leaves_the_rest() -> None:
    old = config_map([entry("alice", data("a", "b", whole=True))], a="1", b="1")
    assert write(old, config_map(a="2", b="1", c="1"), "bob") == [
        entry("alice", data("b", whole=True)),
        entry("bob", data("a", "c"), T2),
    ]


def test_what_is_removed_is_owned_by_nobody() -> None:
    old = config_map([entry("alice", data("a", "b"))], a="1", b="1")
    # Bob sets nothing, so he gets no entry; alice's time stays, for she did not write.
    assert write(old, config_map(b="1"), "bob") == [entry("alice", data("b"))]


def test_an_entry_that_loses_everything_vanishes() -> None:
    old = config_map([entry("alice", data("a")), entry("carol", data("b"))], a="1", b="1")
    assert write(old, config_map(a="2", b="1"), "bob") == [entry("carol", data("b")), entry("bob", data("a"), T2)]


def test_writes_of_one_manager_share_an_entry_and_its_time_moves() -> None:
    old = config_map([entry("bob", data("a"))], a="1")
    assert write(old, config_map(a="1", b="1"), "bob") == [entry("bob", data("a", "b"), T2)]


def test_a_write_that_changes_nothing_moves_no_time() -> None:
    old = config_map([entry("bob", data("a"))], a="1")
    new = config_map(a="1")
    new["metadata"]["resourceVersion"] = "99"
    assert write(old, new, "bob") == [entry("bob", data("a"))]
    assert write(old, config_map(a="1"), "stranger") == [entry("bob", data("a"))]


def test_operation_and_subresource_make_other_owners() -> None:
    old = config_map([entry("bob", data("a"), operation="Apply")], a="1", b="1")
    first = write(old, config_map(a="1", b="2"), "bob")
    assert first == [entry("bob", data("a"), operation="Apply"), entry("bob", data("b"), T2)]
    old = config_map(first, a="1", b="2")
    assert write(old, config_map(a="1", b="3"), "bob", T3, subresource="status") == [
        entry("bob", data("a"), operation="Apply"),
        entry("bob", data("b"), T3, subresource="status"),
    ]


def test_a_manager_without_a_name_is_unknown() -> None:
    assert [found["manager"] for found in write(None, config_map(a="1"), "")] == ["unknown"]


def test_appliers_come_first_then_entries_by_time_and_name() -> None:
    entries = [
        entry("zoe", data("a"), T3),
        entry("yan", data("b"), T1),
        entry("abe", data("b"), T1),
        entry("timeless", data("b"), ""),
        entry("wes", data("c"), T3, operation="Apply"),
    ]
    old = config_map(entries, a="1", b="1", c="1")
    found = write(old, config_map(a="1", b="1", c="1", d="1"), "new", T2)
    assert [one["manager"] for one in found] == ["wes", "timeless", "abe", "yan", "new", "zoe"]


def test_an_endpoint_owns_nothing_it_does_not_write() -> None:
    pod, pods = schema_of("", "v1", "Pod"), BY_KIND["v1", "Pod"]

    def written(subresource: str) -> Any:
        new: Doc = {"metadata": {"ownerReferences": [{"uid": "o"}], "labels": {"a": "b"}}}
        new |= {"spec": {"hostname": "h"}, "status": {"phase": "Running"}}
        reset = reset_fields_of(pods, subresource)
        track_update(
            FieldWrite(pod, manager="m", api_version="v1", subresource=subresource, now=T1, reset_fields=reset),
            old=None,
            new=new,
        )
        return new["metadata"]["managedFields"][0]["fieldsV1"]

    labels: Doc = {"f:labels": {".": {}, "f:a": {}}}
    owners: Doc = {"f:ownerReferences": {".": {}, 'k:{"uid":"o"}': {}}}
    assert written("") == {"f:metadata": {**labels, **owners}, "f:spec": {"f:hostname": {}}}
    assert written("status") == {"f:metadata": labels, "f:status": {"f:phase": {}}}


def test_a_status_written_through_the_main_endpoint_is_taken_from_nobody() -> None:
    node = schema_of("", "v1", "Node")
    kubelet = entry("kubelet", {"f:status": {"f:phase": {}}}, subresource="status")
    old: Doc = {"metadata": {"managedFields": [kubelet]}, "status": {"phase": "Running"}}
    new: Doc = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Other"}}
    track_update(
        FieldWrite(node, manager="m", api_version="v1", now=T2, reset_fields=field_set.of(("status",))),
        old=old,
        new=new,
    )
    labels: Doc = {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}
    assert new["metadata"]["managedFields"] == [kubelet, entry("m", labels, T2)]


def test_every_kind_with_a_status_resets_it_and_the_others_reset_nothing() -> None:
    status, spec = field_set.of(("status",)), field_set.of(("spec",))
    assert reset_fields_of(BY_KIND["v1", "Node"]) == status
    assert reset_fields_of(BY_KIND["v1", "Node"], "status") == spec
    assert reset_fields_of(BY_KIND["v1", "Namespace"], "finalize") == status
    assert reset_fields_of(BY_KIND["apps/v1", "Deployment"], "status") == field_set.of(
        ("spec",), ("metadata", "labels")
    )
    assert reset_fields_of(BY_KIND["apps/v1", "Deployment"], "scale") == {}
    assert reset_fields_of(BY_KIND["v1", "ConfigMap"]) == {}


# -- entries a client sends --------------------------------------------------------------------------------------------


def test_valid_entries_from_the_client_are_the_starting_point() -> None:
    old = config_map([entry("alice", data("a"))], a="1")
    sent = [entry("given", data("a"), T1)]
    assert write(old, config_map(sent, a="1", b="1"), "bob") == [
        entry("given", data("a"), T1),
        entry("bob", data("b"), T2),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operation": "Frob"}, "operation must be `Apply` or `Update`"),
        ({"apiVersion": ""}, "apiVersion must not be empty"),
        ({"fieldsType": ""}, "missing fieldsType in managed fields entry 0"),
        ({"fieldsType": "V2"}, 'invalid fieldsType "V2" in managed fields entry 0'),
        ({"fieldsV1": {"f:data": {"nonsense": {}}}}, "missing colon: nonsense"),
    ],
)
def test_invalid_entries_from_the_client_are_ignored(change: Doc, message: str) -> None:
    alice, broken = entry("alice", data("a")), {**entry("given", data("a")), **change}
    found = write(config_map([alice], a="1"), config_map([broken], a="1", b="1"), "bob")
    assert found == [alice, entry("bob", data("b"), T2)]
    with pytest.raises(ValueError) as refused:
        check_entries([broken])
    assert str(refused.value) == message


def test_entries_sent_through_a_subresource_are_ignored() -> None:
    alice = entry("alice", data("a"))
    new = config_map([entry("given", data("a"))], a="1", b="1")
    found = write(config_map([alice], a="1"), new, "bob", subresource="status")
    assert found == [alice, entry("bob", data("b"), T2, subresource="status")]


def test_entries_of_another_version_are_dropped() -> None:
    old = config_map([{**entry("old", data("z")), "apiVersion": "v1beta1"}, entry("alice", data("a"))], a="1")
    assert write(old, config_map(a="1", b="1"), "bob") == [entry("alice", data("a")), entry("bob", data("b"), T2)]


@pytest.mark.parametrize("reset", [[{}], []])
def test_owners_can_be_forgotten_and_stay_forgotten(reset: list[Doc]) -> None:
    old = config_map([entry("alice", data("a"))], a="1")
    forgotten = config_map(reset, a="2")
    assert write(old, forgotten, "bob") == []
    assert write(forgotten, config_map(a="3"), "bob") == []


def test_a_creation_is_tracked_whatever_entries_it_brings() -> None:
    brought: list[list[Doc]] = [[{}], [entry("given", data("a"))], [{"operation": "Frob"}]]
    for sent in brought:
        assert write(None, config_map(sent, a="1"), "bob", T1) == [entry("bob", data("a", whole=True))]


def test_an_object_whose_items_cannot_be_named_is_left_without_owners() -> None:
    new = {"metadata": {"labels": {"a": "b"}}, "secrets": [{"namespace": "n"}]}
    track_update(FieldWrite(ACCOUNT, manager="m", api_version="v1", now=T1), old=None, new=new)
    assert new == {"metadata": {"labels": {"a": "b"}}, "secrets": [{"namespace": "n"}]}


# -- no more than ten --------------------------------------------------------------------------------------------------


def test_the_oldest_updates_beyond_ten_are_folded_into_one() -> None:
    names = [f"k{i:02}" for i in range(10)]
    entries = [entry(f"m{i:02}", data(names[i]), f"2026-01-01T00:00:{i:02}Z") for i in range(10)]
    old = config_map([*entries, entry("applier", data("x"), operation="Apply")], x="1", **dict.fromkeys(names, "1"))
    found = write(old, config_map(x="1", new="1", **dict.fromkeys(names, "1")), "eleventh", "2026-01-01T00:01:00Z")
    # Eleven updates: the two oldest become one, with the younger one's time. Appliers do not count.
    assert [one["manager"] for one in found] == [
        "applier",
        "ancient-changes",
        *(f"m{i:02}" for i in range(2, 10)),
        "eleventh",
    ]
    assert found[1] == entry("ancient-changes", data("k00", "k01"), "2026-01-01T00:00:01Z")


def test_the_fold_grows_by_one_with_every_manager_more() -> None:
    doc = config_map(k00="1")
    write(None, doc, "m00", "2026-01-01T00:00:00Z")
    for i in range(1, 14):
        new = config_map(**doc["data"], **{f"k{i:02}": "1"})
        write(doc, new, f"m{i:02}", f"2026-01-01T00:00:{i:02}Z")
        doc = new
    # 14 managers: m05 to m13 have entries of their own, the first five are ancient.
    entries = doc["metadata"]["managedFields"]
    assert [one["manager"] for one in entries] == ["ancient-changes", *(f"m{i:02}" for i in range(5, 14))]
    assert entries[0]["fieldsV1"] == data("k00", "k01", "k02", "k03", "k04", whole=True)
    assert entries[0]["time"] == "2026-01-01T00:00:04Z"
