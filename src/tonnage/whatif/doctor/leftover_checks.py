"""References to what no longer exists: volumes, claims, rebuilds and nominations without their node.

Also waiting pods, one finding per cause: `explain --pending` in short.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, is_out_of_use
from tonnage.objects.core_v1.persistent_volume import SELECTED_NODE
from tonnage.objects.storage_v1 import StorageClass
from tonnage.scheduling.volumes.attach.volume_ids import taken_over_by
from tonnage.scheduling.volumes.capacity.pools import rebuilds_volumes
from tonnage.scheduling.volumes.volume_reach import is_on_its_way
from tonnage.whatif.doctor.facts import Facts
from tonnage.whatif.doctor.findings import CATALOGUE, Finding
from tonnage.whatif.page import named
from tonnage.whatif.pending import causes
from tonnage.whatif.pending.pending import PendingAnswer, PendingGroup


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
    if rebuilds_volumes(facts.drivers.get(driver)):
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
    return f"{best.change}: that would let {group.whom_helps(best)} in"
