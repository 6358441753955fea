"""StorageClasses: which seem to draw from the same disks, groups without effect, volumes that are made too early."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tonnage.objects.storage_v1 import (
    CAPACITY_GROUP,
    POOL_POLICIES,
    POOL_POLICY,
    CSIDriver,
    CSIStorageCapacity,
    StorageClass,
)
from tonnage.scheduling.volumes.capacity.class_annotations import Topology, canonical, problem_with_policy
from tonnage.scheduling.volumes.capacity.pools import free_bytes, listed_pools, volume_limit
from tonnage.whatif.doctor.facts import Facts
from tonnage.whatif.doctor.findings import CATALOGUE, Finding


class _Figures(NamedTuple):
    """What one object of a class says."""

    pools: tuple[int, ...]
    free: int | None
    largest_volume: int | None
    is_kept: bool
    """By `tonnage pools`."""


def class_findings(facts: Facts) -> Iterator[Finding]:
    for driver, classes in sorted(facts.classes_of.items()):
        yield from _shared(facts, driver, classes)
        for each in classes:
            if not each.waits_for_consumer and _is_local(facts, driver):
                yield _immediate(each, driver)
    yield from _groups(facts)
    yield from _policies(facts)


# -- the same disks ---------------------------------------------------------------------------------------------------


def _shared(facts: Facts, driver: str, classes: Sequence[StorageClass]) -> Iterator[Finding]:
    """Sets of classes that tell equal figures wherever two of them tell any, and are not one group already."""
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
        yield CATALOGUE["classes-share-disks"].about(
            f"StorageClass {', '.join(names)}",
            f"these classes of {driver} tell the same figures for "
            + (f"all {places} topologies" if places > 1 else "the one topology they share")
            + ": they seem to draw from the same disks, and what is promised of one is not counted in the others",
            f"if they do: kubectl annotate storageclass {' '.join(map(shlex.quote, lacking))} "
            f"--overwrite {CAPACITY_GROUP}={shlex.quote(group)}",
            driver=driver,
        )


def _figures(facts: Facts, driver: str, class_name: str) -> Mapping[Topology, _Figures]:
    return {
        canonical(each.node_topology): _figures_of(each)
        for each in facts.capacities_of.get(driver, ())
        if each.storage_class_name == class_name and each.node_topology is not None
    }


def _figures_of(capacity: CSIStorageCapacity) -> _Figures:
    return _Figures(
        listed_pools(capacity), free_bytes(capacity), volume_limit(capacity), is_kept=capacity.has_kept_pools
    )


def _are_alike(one: Mapping[Topology, _Figures], other: Mapping[Topology, _Figures]) -> bool:
    """Equal wherever both tell something, and something more than nothing. Of pools that `tonnage pools` keeps, to the
    byte, it is enough that those of one are among those of the other: a class may use fewer of them."""
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


# -- groups -----------------------------------------------------------------------------------------------------------


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
            yield CATALOGUE["capacity-group-alone"].about(
                each,
                f'its capacity group "{group}" has no effect: {told}',
                f"kubectl annotate storageclass {shlex.quote(each.name)} {CAPACITY_GROUP}-, "
                "or annotate the classes that share its disks",
                driver=each.provisioner,
            )


# -- how pools are picked ---------------------------------------------------------------------------------------------


def _policies(facts: Facts) -> Iterator[Finding]:
    annotated: list[tuple[str, str, StorageClass | CSIDriver]] = [
        *(("storageclass", each.provisioner, each) for _, each in sorted(facts.classes.items())),
        *(("csidriver", name, each) for name, each in sorted(facts.drivers.items())),
    ]
    for resource, driver, each in annotated:
        if problem := problem_with_policy(each):
            yield CATALOGUE["pool-policy-unreadable"].about(
                each,
                f"{problem}: it counts as unknown, and fits are less sure than they could be",
                f"kubectl annotate {resource} {shlex.quote(each.name)} --overwrite {POOL_POLICY}=most-free, "
                f"or whatever the driver does: {', '.join(POOL_POLICIES)}",
                driver=driver,
            )


# -- binding ----------------------------------------------------------------------------------------------------------


def _is_local(facts: Facts, driver: str) -> bool:
    """Whether a volume can be reached from some nodes only: capacity is so, or each node is a topology of its own."""
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


def _immediate(found: StorageClass, driver: str) -> Finding:
    return CATALOGUE["immediate-binding"].about(
        found,
        f"volumes of {driver} are confined to nodes, and this class has them made before a pod is placed: on any node, "
        "whether the pod fits there or not",
        "make a class like it with volumeBindingMode: WaitForFirstConsumer, and use that (the field cannot be changed)",
        driver=driver,
    )
