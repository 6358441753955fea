"""Claims count with the size that their driver makes of them (`tonnage.dev/size-rules`)."""

from __future__ import annotations

import pytest
from volume_rig import ALL_OFF, FULL, VolumeRig, refused

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.volumes.explain.account_entries import NodeAccount
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import CLASS, capacity, claim, driver, pod_with, storage_class, volume

WHOLE_GI = storage_class(size_rules="step=1Mi,step=1Gi,above=1Gi")
STRICT = storage_class(size_rules="step=1Gi,strict")
MODES = pytest.mark.parametrize("reservation", ["Object", "Ledger", "None"])
GI = 1 << 30


def account_of(rig: VolumeRig, pod: Pod) -> NodeAccount:
    account = rig.engine.explain(pod).volumes["a"]
    assert isinstance(account, NodeAccount)
    return account


@MODES
def test_a_claim_that_is_rounded_up_beyond_its_pool_does_not_fit(reservation: str):
    rig = VolumeRig(node("a"), WHOLE_GI, capacity(CLASS, "a", pools=["10200Mi"]), reservation=reservation)
    assert rig.message(rig.pod("web", "10200Mi")) == refused({FULL: 1}, 1)
    rig.put(capacity(CLASS, "a", pools=["10240Mi"]))
    assert rig.place(rig.pod("db", "10200Mi")) == "a"


def test_rounded_claims_are_packed_together():
    # each 1536Mi is 2Gi: seven in 15Gi
    rig = VolumeRig(node("a"), WHOLE_GI, capacity(CLASS, "a", pools=["15Gi"]))
    assert rig.nodes(rig.pod("web", *["1536Mi"] * 7)) == ["a"]
    assert rig.nodes(rig.pod("db", *["1536Mi"] * 8)) == []


def test_what_is_promised_is_the_drivers_size():
    rig = VolumeRig(node("a"), WHOLE_GI, capacity(CLASS, "a", pools=["15Gi"]), reservation="Ledger")
    placed = [rig.place(rig.pod(f"web-{number}", "1536Mi")) for number in range(7)]
    assert placed == ["a"] * 7
    assert {hold.bytes for hold in rig.cluster.index(Ledger).holds()} == {2 * GI}
    assert rig.nodes(rig.pod("late", "1025Mi")) == []
    assert rig.nodes(rig.pod("small", "1Gi")) == ["a"]


def test_without_the_gate_a_single_claim_counts_with_the_drivers_size_too():
    rig = VolumeRig(node("a"), WHOLE_GI, capacity(CLASS, "a", "10200Mi"), gates=ALL_OFF)
    assert rig.nodes(rig.pod("web", "10200Mi")) == []


@pytest.mark.parametrize(("pools", "fit"), [(["10Gi"], []), (["10737418241"], ["a"])])
def test_a_strict_driver_wants_a_byte_more(pools: list[str], fit: list[str]):
    rig = VolumeRig(node("a"), STRICT, capacity(CLASS, "a", pools=pools))
    assert rig.nodes(rig.pod("one", "10Gi")) == fit
    assert rig.nodes(rig.pod("two", "4Gi", "6Gi")) == fit  # one byte for both: 10Gi + 1 - 4Gi is more than 6Gi


def test_a_strict_driver_wants_a_byte_more_of_one_number():
    rig = VolumeRig(node("a"), STRICT, capacity(CLASS, "a", "10Gi"))
    assert rig.nodes(rig.pod("one", "10Gi")) == []
    rig = VolumeRig(node("a"), STRICT, capacity(CLASS, "a", "10Gi"), gates=ALL_OFF)
    assert rig.nodes(rig.pod("one", "10Gi")) == []
    assert rig.nodes(rig.pod("less", "9Gi")) == ["a"]


def test_a_rebuild_takes_the_volumes_size_as_it_is():
    rig = VolumeRig(node("a"), WHOLE_GI, capacity(CLASS, "a", pools=["10200Mi"]))
    rig.put(driver(rebuilding=True), volume("pv", "10200Mi", claim="default/data"))
    rig.put(claim("data", "10200Mi", volume="pv", selected_node="gone"))
    assert rig.nodes(pod_with("web", "data")) == ["a"]


@pytest.mark.parametrize(("pool", "fit"), [("10240Mi", []), ("10447Mi", []), ("10448Mi", ["a"])])
def test_a_rebuild_takes_the_drivers_overhead_and_whole_extents_on_top(pool: str, fit: list[str]):
    # 10240Mi and 2% are 10444.8Mi, in extents of 8Mi 10448Mi
    rig = VolumeRig(node("a"), storage_class(size_rules="step=1Gi,overhead=2%,extent=8Mi"))
    rig.put(driver(rebuilding=True), volume("pv", "10Gi", claim="default/data"), capacity(CLASS, "a", pools=[pool]))
    rig.put(claim("data", "10Gi", volume="pv", selected_node="gone"))
    assert rig.nodes(pod_with("web", "data")) == fit


def test_rules_that_come_later_are_judged_by_at_once():
    rig = VolumeRig(node("a"), capacity(CLASS, "a", pools=["10200Mi"]))
    pod = rig.pod("web", "10200Mi")
    assert rig.nodes(pod) == ["a"]
    rig.put(WHOLE_GI)
    assert rig.nodes(pod) == []
    rig.put(storage_class(size_rules="extent=1Mi,strict"))
    assert rig.nodes(pod) == []
    rig.put(storage_class(size_rules="steps=1Gi"))  # ignored as a whole
    assert rig.nodes(pod) == ["a"]


def test_the_account_says_what_is_asked_and_what_is_taken():
    rig = VolumeRig(node("a"), WHOLE_GI, capacity(CLASS, "a", pools=["10200Mi"]))
    account = account_of(rig, rig.pod("web", "10200Mi"))
    (told,) = account.document()
    assert told["size"] == "10Gi"
    assert told["sized"] == "10200Mi asked, the driver rounds up to whole Gi"
    assert told["miss"] == ("largest free pool 10200Mi, needs 10Gi (10200Mi asked, the driver rounds up to whole Gi)")


def test_the_account_says_that_a_strict_driver_wants_more():
    rig = VolumeRig(node("a"), STRICT, capacity(CLASS, "a", pools=["10Gi", "4Gi"]))
    account = account_of(rig, rig.pod("web", "10Gi"))
    assert account.document()[0]["pools"] == ["10Gi", "4Gi"]
    assert account.document()[0]["miss"] == "largest free pool 10Gi, needs more than 10Gi"


def test_the_account_says_that_rules_are_ignored():
    rig = VolumeRig(node("a"), storage_class(size_rules="steps=1Gi"), capacity(CLASS, "a", pools=["10Gi"]))
    account = account_of(rig, rig.pod("web", "1536Mi"))
    assert account.document()[0]["size"] == "1536Mi"
    assert account.document()[0]["sized"].startswith(
        "the size rules of class fast are ignored: tonnage.dev/size-rules="
    )
