"""CSI drivers: where they are registered, what they promise, which classes use them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from tonnage.objects.storage_v1 import CSIDriver, CSINode, StorageClass
from tonnage.scheduling.volumes.capacity.pools import rebuilds_volumes
from tonnage.whatif.doctor.facts import FactAnswer, Facts
from tonnage.whatif.doctor.figures import CapacityLayout, DriverFigures
from tonnage.whatif.doctor.findings import CATALOGUE, Finding
from tonnage.whatif.page import named

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_LAYOUTS = {
    CapacityLayout.NONE: "no capacity objects that reach a node",
    CapacityLayout.NODE: "capacity per node",
    CapacityLayout.SHARED: "capacity shared by several nodes (zones)",
    CapacityLayout.CLUSTER: "one capacity for all nodes",
    CapacityLayout.MIXED: "capacity for nodes and for groups of nodes",
}


def driver_findings(facts: Facts, figures: Mapping[str, DriverFigures]) -> Iterator[Finding]:
    for name in facts.driver_names:
        driver = facts.drivers[name]
        yield CATALOGUE["driver-summary"].about(
            driver, _summary(facts, driver, figures[name]), "nothing has to be done", driver=name
        )
        yield from _registration(facts, driver)
        yield from _rebuilding(facts, driver)
        yield from _capacity(facts, driver)
    yield from _without_driver(facts)


def _summary(facts: Facts, driver: CSIDriver, figures: DriverFigures) -> str:
    nodes = facts.nodes_of.get(driver.name, ())
    told = [f"on {len(nodes)} of {len(facts.nodes)} nodes" if facts.knows(CSINode) else "on nodes that are not known"]
    told.append(_LAYOUTS[figures.layout] if figures.objects else "publishes no capacity")
    if figures.objects:
        told.append(f"pools are listed (up to {figures.most_pools})" if figures.most_pools else "no pools are listed")
        told.append({"unknown": "thin or thick: not to be told"}.get(figures.provisioning, figures.provisioning.value))
    told.append("rebuilds volumes elsewhere" if rebuilds_volumes(driver) else "does not rebuild volumes")
    counts = [count for node in nodes if (count := _count(facts, node, driver.name)) is not None]
    if counts:
        least, most = min(counts), max(counts)
        told.append(f"attach limit {least}" if least == most else f"attach limits {least} to {most}")
    else:
        told.append("no attach limit" if driver.spec.attach_required else "nothing is attached")
    period = driver.spec.node_allocatable_update_period_seconds
    if counts and period:
        told.append(f"refreshed every {period} s")
    return "; ".join(told)


def _count(facts: Facts, node: str, driver: str) -> int | None:
    found = facts.csi_nodes[node].driver(driver)
    return None if found is None else found.allocatable.count


def _registration(facts: Facts, driver: CSIDriver) -> Iterator[Finding]:
    if not facts.knows(CSINode) or not facts.nodes or "Persistent" not in driver.spec.volume_lifecycle_modes:
        return
    there = set(facts.nodes_of.get(driver.name, ()))
    missing = sorted(facts.nodes.keys() - there)
    if not there:
        yield CATALOGUE["driver-unregistered"].about(
            driver,
            "no CSINode has it: no node can mount its volumes",
            "start its node plugin, or delete the CSIDriver if the driver was removed",
            driver=driver.name,
        )
    elif missing:
        held = driver.spec.prevent_pod_scheduling_if_missing
        yield CATALOGUE["driver-on-some-nodes"].about(
            driver,
            f"it is not on {len(missing)} of {len(facts.nodes)} nodes: {named(missing)}"
            + ("; they take no pods that need it" if held else "; pods with its volumes may still be sent there"),
            "nothing has to be done"
            if held
            else "run its node plugin there, or set preventPodSchedulingIfMissing: true on its CSIDriver (KEP-5030)",
            driver=driver.name,
        )


def _rebuilding(facts: Facts, driver: CSIDriver) -> Iterator[Finding]:
    if rebuilds_volumes(driver) and facts.is_on("MutablePVNodeAffinity") is FactAnswer.NO:
        yield CATALOGUE["rebuilding-needs-gate"].about(
            driver,
            "it rebuilds volumes, and the API server lets no volume's node affinity change: none can leave its node",
            "start the API server with --feature-gates=MutablePVNodeAffinity=true",
            driver=driver.name,
        )


def _capacity(facts: Facts, driver: CSIDriver) -> Iterator[Finding]:
    """What is promised of capacity, against the objects there are."""
    objects = facts.capacities_of.get(driver.name, ())
    if objects and not driver.spec.storage_capacity:
        yield CATALOGUE["capacity-not-checked"].about(
            driver,
            f"there are {len(objects)} capacity objects of it, and storageCapacity is false: nobody looks at them",
            f"kubectl patch csidriver {shlex.quote(driver.name)} --type merge "
            '-p \'{"spec":{"storageCapacity":true}}\'',
            driver=driver.name,
        )
    if not driver.spec.storage_capacity or "CSIStorageCapacity" in facts.unlisted:
        return
    published = {each.storage_class_name for each in objects}
    for each in facts.classes_of.get(driver.name, ()):
        if each.waits_for_consumer and each.name not in published:
            yield CATALOGUE["capacity-missing"].about(
                each,
                f"{driver.name} has storageCapacity: true and no capacity object for this class: "
                "no pod with a new claim of it can be placed",
                "start its provisioner with --enable-capacity (`tonnage provisioner` needs no flag), "
                "or set storageCapacity: false on the CSIDriver",
                driver=driver.name,
            )


def _without_driver(facts: Facts) -> Iterator[Finding]:
    if "CSIDriver" in facts.unlisted:
        return
    for each in facts.classes.values():
        name = facts.driver_of_class(each.name)
        if each.provisioner != _NO_PROVISIONER and name not in facts.drivers:
            yield _class_without_driver(each, name)


def _class_without_driver(found: StorageClass, driver: str) -> Finding:
    return CATALOGUE["class-without-driver"].about(
        found,
        f"its provisioner {driver} has no CSIDriver: no capacity and no attach limit is checked for its claims",
        f"install the driver with its CSIDriver object {driver}, or delete the class if nothing provisions for it",
        driver=driver,
    )
