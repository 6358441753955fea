"""Checks of CSI drivers: registration, CSIDriver settings, capacity, and attach limits that are missing, zero, never
corrected or exceeded. Their classes: `class_checks.py`.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping

from tonnage.objects.storage_v1 import CHECK_CAPACITY, CSIDriver, CSINode, StorageClass
from tonnage.scheduling.volumes.capacity.pools import rebuilds_volumes
from tonnage.whatif.doctor.capacity_checks import SOURCES_OF_POOLS, CapacityLayout, DriverFigures
from tonnage.whatif.doctor.facts import CATALOGUE, NOTHING, WEAKER, Facts, Finding
from tonnage.whatif.page import named

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_NOT_CSI = frozenset(
    (
        "cluster.local/nfs-subdir-external-provisioner",
        "docker.io/hostpath",
        "k8s-sigs.io/nfs-subdir-external-provisioner",
        "k8s.io/minikube-hostpath",
        "kubernetes.io/host-path",
        "microk8s.io/hostpath",
        "openebs.io/local",
        "rancher.io/local-path",
    )
)
"""Provisioners known not to be CSI drivers; other provisioners are recognised by their volumes."""
_LAYOUTS = {
    CapacityLayout.NONE: "no capacity objects that reach a node",
    CapacityLayout.NODE: "capacity per node",
    CapacityLayout.SHARED: "capacity shared by several nodes (zones)",
    CapacityLayout.CLUSTER: "one capacity for all nodes",
    CapacityLayout.MIXED: "capacity for nodes and for groups of nodes",
}


def driver_findings(facts: Facts, figures: Mapping[str, DriverFigures]) -> Iterator[Finding]:
    is_off = facts.server is not None and facts.server.is_on("MutablePVNodeAffinity") is False
    for name, driver in facts.drivers.items():
        yield CATALOGUE["driver-summary"].about(driver, _summary(facts, driver, figures[name]), NOTHING)
        yield from registration_findings(facts, driver)
        if is_off and rebuilds_volumes(driver):
            yield CATALOGUE["rebuilding-needs-gate"].about(
                driver,
                "it can rebuild volumes, but the API server does not let a volume's node affinity change: no volume"
                " can leave its node",
                "start the API server with --feature-gates=MutablePVNodeAffinity=true",
            )
        yield from _capacity(facts, driver)
    yield from unpublished_findings(facts)
    yield from _without_driver(facts)


def _summary(facts: Facts, driver: CSIDriver, figures: DriverFigures) -> str:
    nodes = facts.nodes_of.get(driver.name, ())
    told = [f"on {len(nodes)} of {len(facts.nodes)} nodes" if facts.knows(CSINode) else "on nodes that are not known"]
    told.append(_LAYOUTS[figures.layout] if figures.objects else "publishes no capacity")
    if figures.objects:
        told.append(f"pools are listed (up to {figures.most_pools})" if figures.most_pools else "no pools are listed")
        told.append({"unknown": "thin or thick: not known"}.get(figures.provisioning, figures.provisioning.value))
    told.append("rebuilds volumes elsewhere" if rebuilds_volumes(driver) else "does not rebuild volumes")
    counts = [limit for limit in _limits(facts, driver.name).values() if limit is not None]
    if counts:
        least, most = min(counts), max(counts)
        told.append(f"attach limit {least}" if least == most else f"attach limits {least} to {most}")
    else:
        told.append("no attach limit" if driver.spec.attach_required else "nothing is attached")
    period = driver.spec.node_allocatable_update_period_seconds
    if counts and period:
        told.append(f"refreshed every {period} s")
    return "; ".join(told)


def registration_findings(facts: Facts, driver: CSIDriver) -> Iterator[Finding]:
    if not facts.knows(CSINode) or not facts.nodes or "Persistent" not in driver.spec.volume_lifecycle_modes:
        return
    there = set(facts.nodes_of.get(driver.name, ()))
    missing = sorted(facts.nodes.keys() - there)
    if not there:
        yield CATALOGUE["driver-unregistered"].about(
            driver,
            "no CSINode lists it: no node can mount its volumes",
            "start its node plugin, or delete the CSIDriver if the driver was removed",
        )
    elif missing:
        held = driver.spec.prevent_pod_scheduling_if_missing
        yield CATALOGUE["driver-on-some-nodes"].about(
            driver,
            f"it is not on {len(missing)} of {len(facts.nodes)} nodes: {named(missing)}"
            + ("; they take no pods that need it" if held else "; pods with its volumes may still be sent there"),
            NOTHING
            if held
            else "run its node plugin there, or set preventPodSchedulingIfMissing: true on its CSIDriver (KEP-5030)",
        )


def _capacity(facts: Facts, driver: CSIDriver) -> Iterator[Finding]:
    """Compare the CSIDriver's storageCapacity with the existing capacity objects."""
    objects = [capacity for capacity in facts.capacities_of.get(driver.name, ()) if not facts.is_checked(capacity)]
    if objects:
        yield CATALOGUE["capacity-not-checked"].about(
            driver,
            f"there are {len(objects)} capacity objects of it, but storageCapacity is false, so schedulers ignore them",
            f"kubectl patch csidriver {shlex.quote(driver.name)} --type merge "
            '-p \'{"spec":{"storageCapacity":true}}\'',
        )


def unpublished_findings(facts: Facts) -> Iterator[Finding]:
    """Classes without any capacity object: nothing fits, or nothing is checked."""
    if "CSIStorageCapacity" in facts.unlisted:
        return
    published = {capacity.storage_class_name for capacity in facts.capacities.values()}
    for name, classes in sorted(facts.classes_of.items()):
        driver, source = facts.drivers.get(name), SOURCES_OF_POOLS.get(name)
        for storage_class in classes:
            if not storage_class.waits_for_consumer or storage_class.name in published:
                continue
            if storage_class.checks_capacity(driver):
                who, remedy = f"{name} has storageCapacity: true", _PUBLISH
                if storage_class.opts_into_capacity:
                    who, remedy = f"it asks for capacity ({CHECK_CAPACITY})", _opted_out(storage_class, source)
                yield CATALOGUE["capacity-missing"].about(
                    storage_class,
                    f"{who} and has no capacity object: no pod with a new claim of this class can be placed",
                    remedy,
                    driver=name,
                )
            elif source is not None:
                yield CATALOGUE["capacity-not-published"].about(
                    storage_class,
                    f"{name} publishes no capacity: its pods are sent to nodes without room",
                    f"run tonnage pools --source {source} --create-objects: it reads the free space where this "
                    "driver reports it, and has it checked",
                    driver=name,
                )


_PUBLISH = (
    "start its provisioner with --enable-capacity (`tonnage provisioner` needs no flag), or set storageCapacity: false "
    f"on the CSIDriver, {WEAKER}: its capacity is not checked at all then"
)


def _opted_out(found: StorageClass, source: str | None) -> str:
    return (
        f"run tonnage pools --source {source or '…'} --create-objects, or, if it should not run any more, "
        f"kubectl annotate storageclass {shlex.quote(found.name)} {CHECK_CAPACITY}-, {WEAKER}"
    )


def _without_driver(facts: Facts) -> Iterator[Finding]:
    of_csi = {volume.class_name for volume in facts.volumes.values() if volume.spec.csi is not None}
    of_others = {volume.class_name for volume in facts.volumes.values() if volume.spec.csi is None}
    for storage_class in facts.classes.values() if "CSIDriver" not in facts.unlisted else ():
        name = facts.driver_of_class(storage_class.name)
        if storage_class.provisioner == _NO_PROVISIONER or name in facts.drivers or storage_class.opts_into_capacity:
            continue
        if storage_class.name not in of_csi and (storage_class.name in of_others or name in _NOT_CSI):
            yield CATALOGUE["provisioner-not-csi"].about(
                storage_class,
                f"its provisioner {name} is no CSI driver: it reports neither free space nor an attach limit, so"
                f" nothing is checked or promised for its claims; for plain directories not even the size is enforced",
                "nothing to do; where volumes must fit, use a class of a CSI driver that publishes capacity "
                "(for local disks, TopoLVM or OpenEBS LVM)",
                driver=name,
            )
        else:
            yield CATALOGUE["class-without-driver"].about(
                storage_class,
                f"its provisioner {name} has no CSIDriver: no capacity and no attach limit is checked for its claims",
                f"if it is a CSI driver, install it with its CSIDriver object {name}; otherwise its volumes "
                "cannot be counted; if nothing provisions for the class, delete it",
                driver=name,
            )


def attach_findings(facts: Facts) -> Iterator[Finding]:
    attached = Counter((each.spec.attacher, each.spec.node_name) for each in facts.attachments.values())
    for name, driver in facts.drivers.items():
        limits = _limits(facts, name)
        yield from _told(driver, limits)
        for node, limit in limits.items():
            yield from _on_node(name, node, limit, attached[name, node])
    yield from _refused(facts)


def _limits(facts: Facts, driver: str) -> dict[str, int | None]:
    """By node of the driver: its attach limit; None without one."""
    found = {}
    for node in facts.nodes_of.get(driver, ()):
        entry = facts.csi_nodes[node].driver(driver)
        found[node] = entry.allocatable.count if entry is not None else None
    return found


def _told(driver: CSIDriver, limits: dict[str, int | None]) -> Iterator[Finding]:
    silent = sorted(node for node, limit in limits.items() if limit is None)
    if limits and len(silent) == len(limits):
        if driver.spec.attach_required:
            yield CATALOGUE["attach-limit-unknown"].about(
                driver,
                "it attaches volumes but reports no attach limit on any node: any number of its volumes may be"
                " sent to a node",
                "if its nodes have a limit, make the driver answer max_volumes_per_node in NodeGetInfo",
                driver=driver.name,
            )
        return
    if silent:
        yield CATALOGUE["attach-limit-on-some-nodes"].about(
            driver,
            f"it reports an attach limit on {len(limits) - len(silent)} nodes and none on {named(silent)}: "
            "any number of its volumes may be sent there",
            "restart its node plugin there, and check that it answers max_volumes_per_node",
        )
    if limits and driver.spec.node_allocatable_update_period_seconds is None:
        patch = '{"spec":{"nodeAllocatableUpdatePeriodSeconds":60}}'
        yield CATALOGUE["attach-limit-not-refreshed"].about(
            driver,
            "its attach limits are read once, when a node starts, and not updated after that",
            f"kubectl patch csidriver {shlex.quote(driver.name)} --type merge -p '{patch}' (KEP-4876)",
        )


def _on_node(driver: str, node: str, limit: int | None, attached: int) -> Iterator[Finding]:
    if limit == 0:
        yield CATALOGUE["attach-limit-zero"].about(
            f"CSINode {node}",
            f"{driver} has attach limit 0 there: every pod with one of its volumes is refused",
            "if the node can attach volumes, restart the driver's node plugin there;"
            " nodeAllocatableUpdatePeriodSeconds keeps the limit up to date",
            driver=driver,
        )
    elif limit is not None and attached > limit:
        yield CATALOGUE["attach-limit-exceeded"].about(
            f"CSINode {node}",
            f"{attached} volumes of {driver} are attached there, but its limit is {limit}",
            "no more pods with such volumes are sent there; move some away, or make the driver report the right limit",
            driver=driver,
        )


def _refused(facts: Facts) -> Iterator[Finding]:
    for attachment in facts.attachments.values():
        error = attachment.status.attach_error
        if error is not None and not attachment.status.attached:
            volume = attachment.spec.source.persistent_volume_name or "an inline volume"
            why = error.message or "the driver does not say why"
            yield CATALOGUE["attach-refused"].about(
                attachment,
                f"{volume} cannot be attached to {attachment.spec.node_name}: {why}",
                "check the driver's controller; if the node's attach limit is reached, its CSINode reports too"
                " high a limit",
                driver=attachment.spec.attacher,
            )
