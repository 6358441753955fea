"""All rules, one list: what is wrong with a cluster at one moment, worst first.

    for each in troubles(sight):                    # pure: the moment is sight.now
        print(each.severity, each.headline, each.meaning, each.command)

A cause comes before what follows from it: nodes, then programs, then volumes, then pods; of one kind the oldest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from tonnage.dashboard.status import running_rules, storage_rules
from tonnage.dashboard.status.sight import KINDS, Sight, Trouble
from tonnage.dashboard.wire import PodRow, VolumeRow
from tonnage.scheduler.storage_totals import ClassTotals
from tonnage.whatif.doctor.facts import WORST_FIRST, Severity

SHOWN: Final = 5
"""How many troubles of one kind are shown by themselves."""
_RANKS: Final = {kind: rank for rank, kind in enumerate(KINDS)}
_LATEST: Final = datetime.max.replace(tzinfo=UTC)


def troubles(sight: Sight, totals: Mapping[str, ClassTotals]) -> list[Trouble]:
    """Everything that is wrong, worst first. `totals`: bytes by class."""
    found = sorted(_all(sight, totals), key=_order)
    unique = {trouble.key: trouble for trouble in reversed(found)}
    return [trouble for trouble in found if unique[trouble.key] is trouble]


def _all(sight: Sight, totals: Mapping[str, ClassTotals]) -> Iterator[Trouble]:
    yield from running_rules.notice_troubles(sight)
    yield from running_rules.node_troubles(sight)
    silent = dict(running_rules.scheduler_troubles(sight))
    yield from silent.values()
    yield from running_rules.driver_troubles(sight)
    yield from running_rules.lease_troubles(sight)
    yield from storage_rules.capacity_troubles(sight, totals)
    of_volumes = list(storage_rules.volume_troubles(sight))
    yield from of_volumes
    claims = {trouble.object.partition(" ")[2] for trouble in of_volumes}
    claims |= {key for key, row in sight.rows.of(VolumeRow).items() if row.error}
    of_pods = list(running_rules.pod_troubles(sight, claims, silent))
    yield from of_pods
    told = {*(trouble.object for trouble in of_volumes), *_attachments(sight, of_pods)}
    yield from (
        attach_trouble for attach_trouble in storage_rules.attach_troubles(sight) if attach_trouble.object not in told
    )
    yield from storage_rules.doctors_troubles(sight, told)


def _attachments(sight: Sight, of_pods: Iterable[Trouble]) -> Iterator[str]:
    """The attachments of pods that do not start: their trouble is the pod's."""
    pods, volumes = sight.rows.of(PodRow), sight.rows.of(VolumeRow)
    for trouble in of_pods:
        if trouble.kind != "pod-not-starting":
            continue
        for claim in pods[trouble.object.partition(" ")[2]].claims:
            if claim in volumes and volumes[claim].volume:
                names = sight.objects.attachments_of_volume[volumes[claim].volume]
                yield from (f"VolumeAttachment {name}" for name in names)


def _order(found: Trouble) -> tuple[int, datetime, str]:
    return _RANKS[found.kind], found.since or _LATEST, found.object


def worst(found: Iterable[Trouble]) -> Severity:
    severities = {trouble.severity for trouble in found}
    return next((severity for severity in WORST_FIRST if severity.value in severities), Severity.INFO)


def folded(found: Sequence[Trouble]) -> list[tuple[Trouble, int]]:
    """The troubles to show, each with the number of others of its kind that are left out after it."""
    shown = []
    for _, alike in groupby(found, key=lambda each: each.kind):
        of_kind = list(alike)
        more = max(len(of_kind) - SHOWN, 0)
        shown += [(trouble, 0) for trouble in of_kind[: SHOWN - 1]]
        shown += [(trouble, more) for trouble in of_kind[SHOWN - 1 : SHOWN]]
    return shown
