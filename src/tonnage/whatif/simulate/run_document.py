"""A run as JSON: what `tonnage simulate -o json` writes of it, and what reports are drawn from (docs/whatif.md)."""

from __future__ import annotations

from typing import Any, Final

from tonnage.whatif.simulate.disk_documents import disk_documents
from tonnage.whatif.simulate.measures import Measures, WaitingGroup, percentile

SHOWN_PODS: Final = 20
"""Of a group of waiting pods, so many are named."""
PERCENTS: Final = (0, *range(5, 100, 5), 99, 100)
"""Of how many pods it is told within what time they ran."""


def run_document(measured: Measures) -> dict[str, Any]:
    """One run; the fields are a contract."""
    world, took_s = measured.world, sorted(measured.running_after_s)
    counts = world.storage.counts
    refused = measured.node_events.refused if measured.node_events is not None else {}
    return {
        "placed": measured.placed,
        "waiting": len(measured.waiting_pods()),
        "refusedVolumes": measured.refused_volumes,
        "timeToRunning": {f"p{percent}": percentile(took_s, percent) for percent in (50, 90, 99)},
        "bytesRebuilt": counts.bytes_rebuilt,
        "runningWithin": [{"percent": each, "seconds": percentile(took_s, each)} for each in PERCENTS if took_s],
        "arrived": measured.arrived,
        "notMade": world.controllers.not_made,
        "running": measured.samples[-1].running if measured.samples else 0,
        "seconds": round(world.agenda.now_s, 3),
        "partial": measured.is_partial,
        "volumesMade": counts.made,
        "attempts": len(measured.decisions),
        "decisions": [
            {"at": round(each.at_s, 3), "pod": each.pod, "node": each.node or None} for each in measured.decisions
        ],
        "failedBindings": len(measured.failures),
        "rejectedPods": measured.rejected,
        "waitingPods": [_group(each) for each in measured.waiting_groups()],
        "lost": [{"pod": pod, "why": why} for pod, why in measured.lost],
        "blockedEvictions": [{"pod": pod, "why": why} for pod, why in sorted(refused.items())],
        "rebuilds": [
            {"at": round(at_s, 3), "volume": volume, "from": source, "to": target, "bytes": size_bytes}
            for at_s, volume, source, target, size_bytes in counts.rebuilt
        ],
        "samples": [
            {
                "at": round(each.at_s, 3),
                "usedBytes": each.used_bytes,
                "totalBytes": each.total_bytes,
                "utilisation": round(each.utilisation, 4),
                "fragmentation": round(each.fragmentation, 4),
                "running": each.running,
                "waiting": each.waiting,
                "refusedVolumes": each.refused,
            }
            for each in measured.samples
        ],
        "disks": disk_documents(world.storage, world.engine.held),
    }


def _group(group: WaitingGroup) -> dict[str, Any]:
    return {"reason": group.reason, "count": len(group.pods), "pods": list(group.pods[:SHOWN_PODS])}
