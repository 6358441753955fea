"""Rules about storage: volumes that are refused, lost or too slow, figures that are old, classes that are nearly full.

Where `doctor` or a row already judges, its judgement counts: stale figures are those of `CapacityRow.stale`, a nearly
full class that of the alert TonnageClassNearlyFull, and `DOCTORS` are findings of `doctor`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Final

from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.dashboard.status.sight import Sight, Trouble, capital, describe, trouble
from tonnage.dashboard.wire import CapacityRow, VolumeRow
from tonnage.keyed import grouped
from tonnage.objects.meta import Key, Object
from tonnage.scheduler.storage_totals import ClassTotals
from tonnage.whatif.doctor import capacity_checks, class_checks, driver_checks
from tonnage.whatif.doctor.facts import Facts, Finding
from tonnage.whatif.page import bytes_text, count_text, named

MADE_S: Final = 120.0
"""How long a volume may be on its way to be made."""
ATTACHED_S: Final = 120.0
MOVED_S: Final = 1800.0
"""How long a volume may be on its way to another node: its contents are copied."""
DELETED_S: Final = 300.0

DOCTORS: Final = (
    *("capacity-missing", "capacity-missing-on-node", "driver-unregistered", "volume-left-behind", "rebuild-stuck"),
    *("attach-refused", "attach-limit-exceeded", "selected-node-gone", "claim-of-missing-class"),
)
"""Findings of `doctor` that are something wrong now."""
_FROM_THE_START: Final = ("attach-refused", "claim-of-missing-class")
"""Findings that are as old as their objects."""
_CLAIM: Final = "PersistentVolumeClaim"
_SOON: Final = "Pods with new volumes of this class will soon wait."


def volume_troubles(sight: Sight) -> Iterator[Trouble]:
    for key, row in sight.rows.of(VolumeRow).items():
        if row.state == "lost":
            yield trouble("claim-lost", _CLAIM, key, f"{capital(row.why)} Pods cannot use the claim any more.")
        elif row.terminating or row.state == "released":
            yield from _not_deleted(sight, key, row)
        elif row.state == "making" or row.error:
            yield from _not_made(sight, key, row)
        elif row.state == "moving" and sight.is_over(row.since, MOVED_S):
            meaning = f"{bytes_text(row.bytes)} are to be rebuilt there. {_waiting_pods(row)}"
            what = f"The volume of {key} is still on its way to {row.target}"
            yield trouble("volume-slow", _CLAIM, key, meaning, since=row.since, what=what)


def _not_made(sight: Sight, key: Key, row: VolumeRow) -> Iterator[Trouble]:
    refusal = sight.refusal_of(key)
    where = f" on {row.node}" if row.node else ""
    if row.error and refusal is not None:
        if not refusal.is_silence:  # a driver that is silent is a trouble of its own, with all its claims
            meaning = f"The provisioner says: {capital(row.error, at_start=False)} {_waiting_pods(row)}"
            yield trouble("volume-refused", _CLAIM, key, meaning, since=refusal.since, where=where)
    elif sight.is_over(row.since, MADE_S):
        meaning = (
            f"{_provisioner(row)} was asked for {bytes_text(row.bytes)} and has said nothing. {_waiting_pods(row)}"
        )
        yield trouble(
            "volume-slow", _CLAIM, key, meaning, since=row.since, what=f"The volume of {key} is not made{where}"
        )


def _not_deleted(sight: Sight, key: Key, row: VolumeRow) -> Iterator[Trouble]:
    """A claim or volume that is to be deleted, and that no pod keeps."""
    found: Object | None = sight.objects.claims.get(row.claim) if row.claim else sight.objects.volumes.get(row.volume)
    if found is None or row.pods:
        return
    volume = sight.objects.volumes.get(row.volume)
    since: datetime | None = found.metadata.deletion_timestamp
    if since is None and volume is not None and volume.spec.persistent_volume_reclaim_policy == "Delete":
        since = row.since
    if sight.is_over(since, DELETED_S):
        kind, what = type(found).__name__, "Claim" if row.claim else "Volume"
        why = f"{_provisioner(row)} does not delete it, or a finalizer holds it."
        meaning = f"Its {bytes_text(row.bytes)} stay used. {why}"
        yield trouble("volume-not-deleted", kind, key, meaning, since=since, what=what)


def _provisioner(row: VolumeRow) -> str:
    return f"The provisioner of {row.driver or 'its class'}"


def _waiting_pods(row: VolumeRow) -> str:
    return f"Waiting for it: {named(row.pods)}." if row.pods else ""


def attach_troubles(sight: Sight) -> Iterator[Trouble]:
    """Volumes that are being attached for too long. Those with an error are findings of `doctor`."""
    for attachment in sight.objects.attachments.values():
        at, volume = attachment.metadata.creation_timestamp, attachment.spec.source.persistent_volume_name
        if not attachment.status.attached and attachment.status.attach_error is None and sight.is_over(at, ATTACHED_S):
            driver, what = attachment.spec.attacher, f"Volume {volume} is not attached to {attachment.spec.node_name}"
            meaning = f"The driver {driver} was asked and has said nothing. Its pod cannot start."
            yield trouble("volume-slow", "VolumeAttachment", attachment.name, meaning, since=at, what=what)


def capacity_troubles(sight: Sight, totals: Mapping[str, ClassTotals]) -> Iterator[Trouble]:
    rows = sorted(sight.rows.of(CapacityRow).items())
    stale = grouped((row.storage_class, (key, row)) for key, row in rows if row.stale)
    for name, found in stale.items():
        key, row = found[0]
        nodes = sorted({node for _, each in found for node in each.nodes})
        where = f" on {named(nodes, most=3, examples=2)}" if nodes else ""
        more = f" Figures of {count_text(len(found) - 1, 'more object')} may be wrong too." if len(found) > 1 else ""
        meaning = f"{capital(row.stale)}{more}"
        command = describe("CSIStorageCapacity", key) if not more else "kubectl get csistoragecapacities -A"
        since = min((at for _, each in found if (at := each.told_at) is not None), default=None)
        count = len(found)
        yield trouble(
            "figures-stale", "StorageClass", name, meaning, command=command, since=since, count=count, where=where
        )
    for name, each in sorted(totals.items()):
        if each.is_nearly_full:
            free = f"{bytes_text(each.free)} of {bytes_text(each.total)} are free"
            meaning = f"{free}, and the largest free pool has {bytes_text(each.largest)}. {_SOON}"
            yield trouble("class-nearly-full", "StorageClass", name, meaning)


def doctors_troubles(sight: Sight, told: Collection[str]) -> Iterator[Trouble]:
    """What `doctor` finds that is wrong now. `told`: attachments and claims that are reported already."""
    known = sight.objects
    kinds: tuple[Mapping[Key, Object], ...] = (
        *(known.nodes, known.volumes, known.claims, known.classes, known.drivers),
        *(known.csi_nodes, known.capacities, known.attachments),
    )
    objects = [each for of_kind in kinds for each in of_kind.values()]
    facts = Facts(objects, sight.now, is_live=True, unlisted=sight.unlisted)
    checks = (
        *(driver_checks.registration_findings(facts, driver) for driver in facts.drivers.values()),
        driver_checks.unpublished_findings(facts),
        *(capacity_checks.missing_node_findings(facts, name) for name in facts.drivers),
        driver_checks.attach_findings(facts),
        class_checks.leftover_findings(facts),
    )
    for findings in checks:
        for finding in findings:
            if finding.name in DOCTORS and finding.object not in told:
                yield _of_finding(known, finding)


def _of_finding(known: KnownObjects, found: Finding) -> Trouble:
    kind, _, key = found.object.partition(" ")
    about: Object | None = known.attachments.get(key) or known.claims.get(key)
    since = about.metadata.creation_timestamp if about is not None and found.name in _FROM_THE_START else None
    return trouble(found.name, kind, key, f"{capital(found.message)} {capital(found.remedy)}", since=since)
