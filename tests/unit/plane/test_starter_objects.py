"""What a fresh cluster has: a driver, and one class or several that share their pools."""

from __future__ import annotations

from tonnage.driver.volumes.parameters import BLOCK_BYTES, volume_bytes
from tonnage.objects.size_rules import SizeRules, driver_size
from tonnage.objects.storage_v1 import CAPACITY_GROUP, POOL_POLICY, SIZE_RULES
from tonnage.plane.bootstrap import class_names, starter_objects


def test_one_class_is_in_no_group():
    driver, pools = starter_objects(1)
    assert (driver["kind"], pools["metadata"]["name"]) == ("CSIDriver", "pools")
    annotations = pools["metadata"]["annotations"]
    assert annotations["storageclass.kubernetes.io/is-default-class"] == "true" and CAPACITY_GROUP not in annotations


def test_a_class_says_how_the_driver_rounds():
    _, pools = starter_objects(1)
    rules = SizeRules.parse(pools["metadata"]["annotations"][SIZE_RULES])
    for asked in (1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, (10 << 30) + 1):
        assert driver_size(rules, asked) == volume_bytes(asked, 0)


def test_several_classes_are_one_capacity_group_of_one_driver_and_one_of_them_is_the_default():
    driver, *classes = starter_objects(3)
    assert [each["metadata"]["name"] for each in classes] == class_names(3) == ["pools", "pools-2", "pools-3"]
    assert {each["provisioner"] for each in classes} == {driver["metadata"]["name"]}
    assert {each["metadata"]["annotations"][CAPACITY_GROUP] for each in classes} == {"pools"}
    defaults = ["storageclass.kubernetes.io/is-default-class" in each["metadata"]["annotations"] for each in classes]
    assert defaults == [True, False, False]


def test_the_driver_says_how_it_picks_pools():
    driver, _ = starter_objects(1, "most-free")
    assert driver["metadata"]["annotations"] == {POOL_POLICY: "most-free"}
    assert "annotations" not in starter_objects(1)[0]["metadata"]
