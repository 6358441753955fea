"""Checks of CSI drivers and their StorageClasses.

Drivers: registration, CSIDriver settings, classes, and attach limits that are missing, zero, never corrected or
exceeded. Classes: those that seem to share disks, groups without effect, and volumes that are created too early.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tonnage.objects.storage_v1 import (
    POOL_POLICIES,
    CSIDriver,
    CSINode,
    StorageClass,
)
from tonnage.scheduling.volumes.capacity.pools import (
    Topology,
    canonical,
    free_bytes,
    listed_pools,
    problem_with_policy,
    rebuilds_volumes,
    volume_limit,
)
from tonnage.whatif.doctor.capacity_checks import CapacityLayout, DriverFigures
from tonnage.whatif.doctor.facts import FactAnswer, Facts
from tonnage.whatif.doctor.findings import Finding, finding

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
    for name in facts.driver_names:
        driver = facts.drivers[name]
        yield finding("driver-summary", driver, told=_summary(facts, driver, figures[name]))
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


def _registration(facts: Facts, driver: CSIDriver) -> Iterator[Finding]:
    if not facts.knows(CSINode) or not facts.nodes or "Persistent" not in driver.spec.volume_lifecycle_modes:
        return
    there = set(facts.nodes_of.get(driver.name, ()))
    missing = sorted(facts.nodes.keys() - there)
    if not there:
        yield finding("driver-unregistered", driver)
    elif missing:
        yield finding(
            "driver-on-some-nodes",
            driver,
            variant="held" if driver.spec.prevent_pod_scheduling_if_missing else "",
            count=len(missing),
            all_nodes=len(facts.nodes),
            missing=missing,
        )


def _rebuilding(facts: Facts, driver: CSIDriver) -> Iterator[Finding]:
    if rebuilds_volumes(driver) and facts.is_on("MutablePVNodeAffinity") is FactAnswer.NO:
        yield finding("rebuilding-needs-gate", driver)


def _capacity(facts: Facts, driver: CSIDriver) -> Iterator[Finding]:
    """Compare the CSIDriver's storageCapacity with the existing capacity objects."""
    objects = facts.capacities_of.get(driver.name, ())
    if objects and not driver.spec.storage_capacity:
        yield finding("capacity-not-checked", driver, count=len(objects))
    if not driver.spec.storage_capacity or "CSIStorageCapacity" in facts.unlisted:
        return
    published = {each.storage_class_name for each in objects}
    for each in facts.classes_of.get(driver.name, ()):
        if each.waits_for_consumer and each.name not in published:
            yield finding("capacity-missing", each, driver=driver.name)


def _without_driver(facts: Facts) -> Iterator[Finding]:
    of_csi = {each.class_name for each in facts.volumes.values() if each.spec.csi is not None}
    of_others = {each.class_name for each in facts.volumes.values() if each.spec.csi is None}
    for each in facts.classes.values() if "CSIDriver" not in facts.unlisted else ():
        name = facts.driver_of_class(each.name)
        if each.provisioner == _NO_PROVISIONER or name in facts.drivers:
            continue
        if each.name not in of_csi and (each.name in of_others or name in _NOT_CSI):
            yield finding("provisioner-not-csi", each, driver=name)
        else:
            yield finding("class-without-driver", each, driver=name)


def attach_findings(facts: Facts) -> Iterator[Finding]:
    attached = Counter((each.spec.attacher, each.spec.node_name) for each in facts.attachments.values())
    for name in facts.driver_names:
        limits = _limits(facts, name)
        yield from _told(facts.drivers[name], limits)
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
            yield finding("attach-limit-unknown", driver, driver=driver.name)
        return
    if silent:
        yield finding("attach-limit-on-some-nodes", driver, told=len(limits) - len(silent), silent=silent)
    if limits and driver.spec.node_allocatable_update_period_seconds is None:
        yield finding("attach-limit-not-refreshed", driver)


def _on_node(driver: str, node: str, limit: int | None, attached: int) -> Iterator[Finding]:
    if limit == 0:
        yield finding("attach-limit-zero", f"CSINode {node}", driver=driver)
    elif limit is not None and attached > limit:
        yield finding("attach-limit-exceeded", f"CSINode {node}", driver=driver, attached=attached, limit=limit)


def _refused(facts: Facts) -> Iterator[Finding]:
    for each in facts.attachments.values():
        error = each.status.attach_error
        if error is not None and not each.status.attached:
            volume = each.spec.source.persistent_volume_name or "an inline volume"
            why = error.message or "the driver does not say why"
            yield finding("attach-refused", each, driver=each.spec.attacher, volume=volume, why=why)


class _Figures(NamedTuple):
    pools: tuple[int, ...]
    free: int | None
    largest_volume: int | None
    is_kept: bool


def class_findings(facts: Facts) -> Iterator[Finding]:
    for driver, classes in sorted(facts.classes_of.items()):
        yield from _shared(facts, driver, classes)
        for each in classes:
            if not each.waits_for_consumer and _is_local(facts, driver):
                yield finding("immediate-binding", each, driver=driver)
    yield from _groups(facts)
    yield from _policies(facts)


def _shared(facts: Facts, driver: str, classes: Sequence[StorageClass]) -> Iterator[Finding]:
    """Sets of classes with equal figures wherever two of them have any, unless they already form a group."""
    told = {each.name: _figures(facts, driver, each.name) for each in classes}
    sets: list[list[StorageClass]] = []
    for each in classes:
        for others in sets:
            if all(_are_alike(told[each.name], told[other.name]) for other in others):
                others.append(each)
                break
        else:
            sets.append([each])
    taken = {each.capacity_group for each in classes}
    for alike in sets:
        groups = {each.capacity_group for each in alike}
        if len(alike) < 2 or groups == {alike[0].capacity_group} != {""}:
            continue
        group = next((name for name in sorted(groups) if name), "") or _free_name(driver, taken)
        taken.add(group)
        names = [each.name for each in alike]
        lacking = [each.name for each in alike if each.capacity_group != group]
        places = len(set.intersection(*({*told[name]} for name in names)))
        yield finding(
            "classes-share-disks",
            f"StorageClass {', '.join(names)}",
            driver=driver,
            where=f"all {places} topologies" if places > 1 else "the one topology they share",
            lacking=" ".join(map(shlex.quote, lacking)),
            group=shlex.quote(group),
        )


def _figures(facts: Facts, driver: str, class_name: str) -> Mapping[Topology, _Figures]:
    return {
        canonical(each.node_topology): _Figures(
            listed_pools(each), free_bytes(each), volume_limit(each), is_kept=each.has_kept_pools
        )
        for each in facts.capacities_of.get(driver, ())
        if each.storage_class_name == class_name and each.node_topology is not None
    }


def _are_alike(one: Mapping[Topology, _Figures], other: Mapping[Topology, _Figures]) -> bool:
    """True if the figures are equal wherever both classes have any, and not all zero. For pools of `tonnage pools`,
    which are exact, a subset is enough: a class may use fewer pools."""
    common = one.keys() & other.keys()
    is_something = any(one[each].free and other[each].free for each in common)
    return is_something and all(_is_same_room(one[each], other[each]) for each in common)


def _is_same_room(one: _Figures, other: _Figures) -> bool:
    if one.is_kept and other.is_kept:
        few, many = sorted((Counter(one.pools), Counter(other.pools)), key=Counter.total)
        return few <= many
    return one == other


def _free_name(driver: str, taken: set[str]) -> str:
    base = driver.split(".")[0] or "disks"
    return next(
        name
        for number in range(1, len(taken) + 2)
        if (name := base if number == 1 else f"{base}-{number}") not in taken
    )


def _groups(facts: Facts) -> Iterator[Finding]:
    by_name: dict[str, list[StorageClass]] = {}
    for each in facts.classes.values():
        if each.capacity_group:
            by_name.setdefault(each.capacity_group, []).append(each)
    for group, members in sorted(by_name.items()):
        drivers = {each.provisioner for each in members}
        alone = [each for each in members if sum(other.provisioner == each.provisioner for other in members) == 1]
        for each in alone:
            told = (
                "classes of different drivers share no disks" if len(drivers) > 1 else "no other class has that group"
            )
            yield finding("capacity-group-alone", each, driver=each.provisioner, group=group, told=told)


def _policies(facts: Facts) -> Iterator[Finding]:
    annotated: list[tuple[str, str, StorageClass | CSIDriver]] = [
        *(("storageclass", each.provisioner, each) for _, each in sorted(facts.classes.items())),
        *(("csidriver", name, each) for name, each in sorted(facts.drivers.items())),
    ]
    for resource, driver, each in annotated:
        if problem := problem_with_policy(each):
            yield finding(
                "pool-policy-unreadable",
                each,
                driver=driver,
                problem=problem,
                resource=resource,
                policies=", ".join(POOL_POLICIES),
            )


def _is_local(facts: Facts, driver: str) -> bool:
    """True if only some nodes reach a volume: by capacity topology, or because each node is its own topology."""
    reaches = [facts.reach[each.key] for each in facts.capacities_of.get(driver, ())]
    if any(0 < len(each) < len(facts.nodes) for each in reaches):
        return True
    nodes = facts.nodes_of.get(driver, ())
    keys = {key for node in nodes if (on := facts.csi_nodes[node].driver(driver)) for key in on.topology_keys}
    for key in keys:
        values = [facts.nodes[node].metadata.labels.get(key) for node in nodes]
        if len(nodes) > 1 and len(set(values)) == len(values) and None not in values:
            return True
    return False
