"""Checks of StorageClasses: those that seem to share disks, groups without effect, volumes that are created too early,
policies and size rules that are missing or cannot be read, volumes with copies on several nodes.

Also of references to what no longer exists (volumes, claims, rebuilds and nominations without their node), and of
waiting pods, one finding per cause: `explain --pending` in short.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tonnage.keyed import grouped
from tonnage.objects.core_v1 import SELECTED_NODE, Node, PersistentVolume, PersistentVolumeClaim, is_out_of_use
from tonnage.objects.size_rules import known_size_rules, problem_with_size_rules
from tonnage.objects.storage_v1 import CAPACITY_GROUP, POOL_POLICIES, POOL_POLICY, SIZE_RULES, CSIDriver, StorageClass
from tonnage.scheduling.cluster.storage import taken_over_by
from tonnage.scheduling.volumes.capacity import pools
from tonnage.scheduling.volumes.capacity.groups import pool_ids_of
from tonnage.scheduling.volumes.volume_reach import is_on_its_way
from tonnage.whatif.doctor.facts import CATALOGUE, NOTHING, WEAKER, Facts, Finding
from tonnage.whatif.page import named
from tonnage.whatif.pending import causes
from tonnage.whatif.pending.pending import PendingAnswer, PendingGroup


class _Figures(NamedTuple):
    pools: tuple[int, ...]
    free: int | None
    largest_volume: int | None
    is_kept: bool


def class_findings(facts: Facts) -> Iterator[Finding]:
    for driver, classes in sorted(facts.classes_of.items()):
        yield from _shared(facts, driver, classes)
        for storage_class in classes:
            if not storage_class.waits_for_consumer and _is_local(facts, driver):
                yield CATALOGUE["immediate-binding"].about(
                    storage_class,
                    f"volumes of {driver} can be used on some nodes only, but this class creates them before the"
                    f" pod is placed: on any node, even one where the pod does not fit",
                    "create a class like it with volumeBindingMode: WaitForFirstConsumer, and use that (the"
                    " field cannot "
                    "be changed)",
                    driver=driver,
                )
    yield from _groups(facts)
    yield from _copied(facts)
    yield from _policies(facts)
    yield from _size_rules(facts)


def _shared(facts: Facts, driver: str, classes: Sequence[StorageClass]) -> Iterator[Finding]:
    """Sets of classes with equal figures wherever two of them have any, unless they already form a group."""
    told = {storage_class.name: _figures(facts, driver, storage_class.name) for storage_class in classes}
    sets: list[list[StorageClass]] = []
    for storage_class in classes:
        for others in sets:
            if all(_are_alike(told[storage_class.name], told[other.name]) for other in others):
                others.append(storage_class)
                break
        else:
            sets.append([storage_class])
    taken = {storage_class.capacity_group for storage_class in classes}
    for alike in sets:
        groups = {storage_class.capacity_group for storage_class in alike}
        names = [storage_class.name for storage_class in alike]
        capacities = (capacity for capacity in facts.capacities.values() if capacity.storage_class_name in names)
        if len(alike) < 2 or groups == {alike[0].capacity_group} != {""} or all(map(pool_ids_of, capacities)):
            continue  # they are told apart by the ids of their pools, too
        group = next((name for name in sorted(groups) if name), "") or _free_name(driver, taken)
        taken.add(group)
        lacking = [storage_class.name for storage_class in alike if storage_class.capacity_group != group]
        places = len(set.intersection(*({*told[name]} for name in names)))
        yield CATALOGUE["classes-share-disks"].about(
            f"StorageClass {', '.join(names)}",
            f"these classes of {driver} report the same figures for "
            + (f"all {places} topologies" if places > 1 else "the one topology they share")
            + ": they seem to share disks, but what is promised in one class is not counted in the others",
            f"if they do: kubectl annotate storageclass {' '.join(map(shlex.quote, lacking))} "
            f"--overwrite {CAPACITY_GROUP}={shlex.quote(group)}",
            driver=driver,
        )


def _figures(facts: Facts, driver: str, class_name: str) -> Mapping[pools.Topology, _Figures]:
    return {
        pools.canonical(capacity.node_topology): _Figures(
            pools.listed_pools(capacity),
            pools.free_bytes(capacity),
            pools.volume_limit(capacity),
            is_kept=capacity.has_kept_pools,
        )
        for capacity in facts.capacities_of.get(driver, ())
        if capacity.storage_class_name == class_name and capacity.node_topology is not None
    }


def _are_alike(one: Mapping[pools.Topology, _Figures], other: Mapping[pools.Topology, _Figures]) -> bool:
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
    names = (base, *(f"{base}-{number}" for number in range(2, len(taken) + 2)))
    return next(name for name in names if name not in taken)


def _groups(facts: Facts) -> Iterator[Finding]:
    by_name = grouped((each.capacity_group, each) for each in facts.classes.values() if each.capacity_group)
    for group, members in sorted(by_name.items()):
        drivers = {storage_class.provisioner for storage_class in members}
        alone = [member for member in members if sum(other.provisioner == member.provisioner for other in members) == 1]
        for storage_class in alone:
            told = (
                "classes of different drivers share no disks" if len(drivers) > 1 else "no other class has that group"
            )
            yield CATALOGUE["capacity-group-alone"].about(
                storage_class,
                f'its capacity group "{group}" has no effect: {told}',
                f"kubectl annotate storageclass {shlex.quote(storage_class.name)} {CAPACITY_GROUP}-, "
                "or annotate the classes that share its disks",
                driver=storage_class.provisioner,
            )


def _copied(facts: Facts) -> Iterator[Finding]:
    for _, each in sorted(facts.classes.items()):
        if each.volume_copies > 1:
            yield CATALOGUE["volume-copies"].about(
                each,
                f"a claim of it takes room on {each.volume_copies} nodes: a replica of its volume on each",
                NOTHING,
                driver=each.provisioner,
            )


def _policies(facts: Facts) -> Iterator[Finding]:
    annotated: list[tuple[str, str, StorageClass | CSIDriver]] = [
        *(("storageclass", each.provisioner, each) for _, each in sorted(facts.classes.items())),
        *(("csidriver", name, each) for name, each in sorted(facts.drivers.items())),
    ]
    for resource, driver, each in annotated:
        if problem := pools.problem_with_policy(each):
            yield CATALOGUE["pool-policy-unreadable"].about(
                each,
                f"{problem}: it counts as unknown, and fits are less sure than they could be",
                f"kubectl annotate {resource} {shlex.quote(each.name)} --overwrite {POOL_POLICY}=most-free, "
                f"or whatever the driver does: {', '.join(POOL_POLICIES)}. A policy that is not the driver's makes "
                f"fits look surer than they are, {WEAKER}",
                driver=driver,
            )


def _size_rules(facts: Facts) -> Iterator[Finding]:
    lacking: dict[tuple[str, str], list[str]] = {}
    for name, each in sorted(facts.classes.items()):
        known = known_size_rules(each)
        if problem := problem_with_size_rules(each):
            yield CATALOGUE["size-rules-unreadable"].about(
                each,
                f"{problem}: the rules are ignored as a whole, and claims count with the size they ask for",
                f"kubectl annotate storageclass {shlex.quote(name)} --overwrite "
                f'{SIZE_RULES}="{known or "step=1Mi,step=1Gi,above=1Gi"}", or what the driver does',
                driver=each.provisioner,
            )
        elif known and SIZE_RULES not in each.metadata.annotations:
            lacking.setdefault((each.provisioner, known), []).append(name)
    for (driver, known), names in lacking.items():
        yield CATALOGUE["size-rules-missing"].about(
            f"StorageClass {', '.join(names)}",
            f"{driver} makes larger volumes than claims ask for, and no annotation says so: a claim that just fits is "
            "sent to a node where its volume cannot be made",
            "run tonnage pools, which sets it, or kubectl annotate storageclass "
            f'{shlex.join(names)} {SIZE_RULES}="{known}"',
            driver=driver,
        )


def _is_local(facts: Facts, driver: str) -> bool:
    """True if only some nodes reach a volume: by capacity topology, or because each node is its own topology."""
    reaches = [facts.reach[capacity.key] for capacity in facts.capacities_of.get(driver, ())]
    if any(0 < len(reach) < len(facts.nodes) for reach in reaches):
        return True
    nodes = facts.nodes_of.get(driver, ())
    keys = {key for node in nodes if (on := facts.csi_nodes[node].driver(driver)) for key in on.topology_keys}
    for key in keys:
        values = [facts.nodes[node].metadata.labels.get(key) for node in nodes]
        if len(nodes) > 1 and len(set(values)) == len(values) and None not in values:
            return True
    return False


def leftover_findings(facts: Facts) -> Iterator[Finding]:
    if facts.knows(Node):
        for volume in facts.volumes.values():
            yield from _left_behind(facts, volume)
    for claim in facts.claims.values():
        yield from _of_claim(facts, claim)
    if facts.knows(Node):
        yield from _nominations(facts)


def _left_behind(facts: Facts, volume: PersistentVolume) -> Iterator[Finding]:
    """A volume whose node affinity admits no node. Disks of in-tree plugins have labels of their own."""
    if facts.homes.get(volume.name, True) or taken_over_by(volume.spec):
        return
    driver = volume.spec.csi.driver if volume.spec.csi is not None else ""
    owner = volume.spec.claim_ref
    whose = f"of claim {owner.namespace}/{owner.name}" if owner is not None else "of no claim"
    if pools.rebuilds_volumes(facts.drivers.get(driver)):
        yield CATALOGUE["volume-awaits-rebuild"].about(
            volume,
            f"the nodes of this volume {whose} are gone; {driver} rebuilds it where its pod goes",
            "nothing to do; a pod that waits for it needs a node with room for it",
            driver=driver,
        )
        return
    yield CATALOGUE["volume-left-behind"].about(
        volume,
        f"no node is left that can reach this volume {whose}: its data is on the node that is gone, and its pods wait",
        "bring the node back under its old name and labels; if the data may be lost, delete claim and volume",
        driver=driver,
    )


def _of_claim(facts: Facts, claim: PersistentVolumeClaim) -> Iterator[Finding]:
    driver = facts.driver_of_class(claim.class_name)
    selected = claim.selected_node
    is_gone = bool(selected) and facts.knows(Node) and selected not in facts.nodes
    if not claim.is_bound:
        if is_gone and not claim.spec.volume_name:
            yield CATALOGUE["selected-node-gone"].about(
                claim,
                f"its volume is to be created on {selected}, which is gone, so nothing creates it",
                f"kubectl annotate pvc -n {shlex.quote(claim.namespace)} {shlex.quote(claim.name)} {SELECTED_NODE}- "
                "(its pod is then placed again)",
                driver=driver,
            )
        if claim.class_name and not driver and facts.knows(StorageClass) and not claim.spec.volume_name:
            yield CATALOGUE["claim-of-missing-class"].about(
                claim,
                f"it asks for StorageClass {claim.class_name}, which does not exist",
                "create the class, or delete the claim and create it with another storageClassName",
            )
        return
    volume = facts.volumes.get(claim.spec.volume_name)
    if volume is not None and is_on_its_way(claim, volume) and (why := _stuck(facts, volume, selected)):
        yield CATALOGUE["rebuild-stuck"].about(
            claim,
            f"its volume {volume.name} is to be rebuilt on {selected}, and {why}",
            "delete its pod, so that it is placed again: the scheduler chooses another node by its capacity",
            driver=driver,
        )


def _stuck(facts: Facts, volume: PersistentVolume, target: str) -> str:
    """Why a volume's rebuild does not finish; empty when no obstacle is known."""
    node = facts.nodes.get(target)
    if node is None:
        return "that node is gone" if facts.knows(Node) else ""
    if node.spec.unschedulable:
        return "that node is cordoned"
    if is_out_of_use(node):
        return "that node is out of service"
    for attachment in facts.attachments.values():
        error = attachment.status.attach_error
        is_there = attachment.spec.node_name == target and attachment.spec.source.persistent_volume_name == volume.name
        if is_there and error is not None:
            return f"it cannot be attached there: {error.message or 'the driver does not say why'}"
    return ""


def _nominations(facts: Facts) -> Iterator[Finding]:
    for pod in facts.pods.values():
        expected = pod.status.nominated_node_name
        if expected and not pod.spec.node_name and not pod.is_terminal and expected not in facts.nodes:
            yield CATALOGUE["nomination-of-missing-node"].about(
                pod,
                f"status.nominatedNodeName is {expected}, and there is no such node",
                "nothing to do: whoever proposed it (a cluster autoscaler) may still create the node, and other nodes "
                "are tried meanwhile",
            )


_MEANT = (causes.GATED, causes.FOREIGN)
"""Pods that are held back on purpose, or belong to another scheduler."""


def pending_findings(answer: PendingAnswer) -> Iterator[Finding]:
    for group in answer.groups:
        if not group.pods[0].fits and group.cause.kind not in _MEANT:
            yield CATALOGUE["pods-pending"].about(
                f"Pod {named([pod.key for pod in group.pods])}", group.message, _remedy(group)
            )


def _remedy(group: PendingGroup) -> str:
    if group.cause.kind == causes.NOBODY:
        return (
            f"start a scheduler with a profile named {group.cause.about}, or create the pods again with the "
            "schedulerName of one that runs"
        )
    if not group.helps:
        return "`tonnage explain --pending` shows the details; no single change that was tried would help"
    best = group.helps[0]
    return f"{best.text}: that would let {group.whom_helps(best)} in"
