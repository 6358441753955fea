"""Classes whose capacity counts although their CSIDriver says that it has none, or does not exist."""

from __future__ import annotations

import pytest
from volume_rig import FULL, VolumeRig, refused

from tonnage.objects.storage_v1 import CHECK_CAPACITY, VOLUME_COPIES
from tonnage.scheduling.volumes.explain.account_entries import NodeAccount
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, driver, storage_class

OPTED_IN = storage_class(annotations={CHECK_CAPACITY: "true"})


@pytest.fixture(params=[{}, {"reservation": "Object"}], ids=["Ledger", "Object"])
def rig(request: pytest.FixtureRequest) -> VolumeRig:
    """A node with 100Gi, of a driver with storageCapacity: false."""
    return VolumeRig(node("a"), capacity("fast", "a", "100Gi"), driver(capacity=False), **request.param)


def test_a_driver_without_capacity_is_believed(rig: VolumeRig) -> None:
    assert rig.nodes(rig.pod("web", "900Gi")) == ["a"]


def test_a_class_that_opts_in_is_checked(rig: VolumeRig) -> None:
    rig.put(OPTED_IN)
    assert rig.message(rig.pod("web", "101Gi")) == refused({FULL: 1}, 1)
    assert rig.nodes(rig.pod("ok", "100Gi")) == ["a"]


@pytest.mark.parametrize("text", ["false", "", "yes", "True"])
def test_other_values_opt_into_nothing(rig: VolumeRig, text: str) -> None:
    rig.put(storage_class(annotations={CHECK_CAPACITY: text}))
    assert rig.nodes(rig.pod("web", "900Gi")) == ["a"]


def test_a_driver_that_does_not_exist_makes_no_difference(rig: VolumeRig) -> None:
    of_none = storage_class("of-none", provisioner="gone.example", annotations={CHECK_CAPACITY: "true"})
    rig.put(of_none, capacity("of-none", "a", "100Gi"))
    assert rig.message(rig.pod("web", "101Gi", class_name="of-none")) == refused({FULL: 1}, 1)


def test_a_class_that_opts_in_and_has_no_object_gets_no_pods(rig: VolumeRig) -> None:
    rig.put(storage_class("bare", annotations={CHECK_CAPACITY: "true"}))
    assert rig.message(rig.pod("web", "1Gi", class_name="bare")) == refused({FULL: 1}, 1)


def test_what_is_promised_is_counted() -> None:
    rig = VolumeRig(node("a"), capacity("fast", "a", "100Gi"), driver(capacity=False), OPTED_IN)
    assert rig.place(rig.pod("one", "60Gi")) == "a"
    assert rig.message(rig.pod("two", "60Gi")) == refused({FULL: 1}, 1)


def test_an_explanation_says_on_how_many_nodes_a_volume_takes_room() -> None:
    rig = VolumeRig(node("a"), capacity("fast", "a", "100Gi"), storage_class(annotations={VOLUME_COPIES: "3"}))
    found = rig.engine.explain(rig.pod("web", "60Gi")).volumes["a"]
    assert isinstance(found, NodeAccount)
    assert [each["copies"] for each in found.document()] == [3]
