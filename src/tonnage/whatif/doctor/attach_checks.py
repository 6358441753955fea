"""Attach limits: missing, zero, never corrected, exceeded; attachments that are refused."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator

from tonnage.objects.storage_v1 import CSIDriver
from tonnage.whatif.doctor.facts import Facts
from tonnage.whatif.doctor.findings import CATALOGUE, Finding
from tonnage.whatif.page import named


def attach_findings(facts: Facts) -> Iterator[Finding]:
    attached = Counter((each.spec.attacher, each.spec.node_name) for each in facts.attachments.values())
    for name in facts.driver_names:
        limits = _limits(facts, name)
        yield from _told(facts.drivers[name], limits)
        for node, limit in limits.items():
            yield from _on_node(name, node, limit, attached[name, node])
    yield from _refused(facts)


def _limits(facts: Facts, driver: str) -> dict[str, int | None]:
    """By node that the driver is on, how many volumes it may attach there; None: it does not say."""
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
                "it attaches volumes and tells no limit on any node: as many as are asked for are sent to each",
                "if its nodes have a limit, have the driver answer max_volumes_per_node in NodeGetInfo",
                driver=driver.name,
            )
        return
    if silent:
        yield CATALOGUE["attach-limit-on-some-nodes"].about(
            driver,
            f"it tells a limit on {len(limits) - len(silent)} nodes and none on {named(silent)}: "
            "those take as many volumes as are asked for",
            "restart its node plugin there, and see that it answers max_volumes_per_node",
            driver=driver.name,
        )
    if limits and driver.spec.node_allocatable_update_period_seconds is None:
        patch = '{"spec":{"nodeAllocatableUpdatePeriodSeconds":60}}'
        yield CATALOGUE["attach-limit-not-refreshed"].about(
            driver,
            "its attach limits are told once, when a node starts, and not corrected after that",
            f"kubectl patch csidriver {shlex.quote(driver.name)} --type merge -p '{patch}' (KEP-4876)",
            driver=driver.name,
        )


def _on_node(driver: str, node: str, limit: int | None, attached: int) -> Iterator[Finding]:
    if limit == 0:
        yield CATALOGUE["attach-limit-zero"].about(
            f"CSINode {node}",
            f"{driver} may attach no volume there: every pod with one is refused",
            "if the node has slots, restart the driver's node plugin there; "
            "nodeAllocatableUpdatePeriodSeconds keeps it true",
            driver=driver,
        )
    elif limit is not None and attached > limit:
        yield CATALOGUE["attach-limit-exceeded"].about(
            f"CSINode {node}",
            f"{attached} volumes of {driver} are attached there, and it allows {limit}",
            "no more pods with such volumes are sent there; move some away, or have the driver tell the right limit",
            driver=driver,
        )


def _refused(facts: Facts) -> Iterator[Finding]:
    for each in facts.attachments.values():
        error = each.status.attach_error
        if error is not None and not each.status.attached:
            volume = each.spec.source.persistent_volume_name or "an inline volume"
            why = error.message or "the driver does not say why"
            yield CATALOGUE["attach-refused"].about(
                each,
                f"{volume} cannot be attached to {each.spec.node_name}: {why}",
                "look at the driver's controller; if the node lacks slots, its CSINode tells too many",
                driver=each.spec.attacher,
            )
