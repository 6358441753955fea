"""What a pod with a claim costs from apply to Running: requests, CPU by process, and where its time goes.

    python perf/chain_writes.py [--nodes 3] [--pods 100] [--reservation Object|Ledger]

One run of `tonnage up` with an audit log, from which the requests and the stages of each pod are read; CPU is what
/proc says of each process. CPU and requests hold on a busy machine too, times do not. Events that are still to be
written when the last pod runs are counted as well: the run waits until nothing is asked any more.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec
from cluster import run_pods, settings_for
from rich.console import Console
from rich.table import Table

from tonnage.clock import SystemClock
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.document import Doc
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.plane.cluster import Plane

STAGES = (
    *("created", "node selected", "asked for", "held", "volume made", "volume bound", "claim bound", "pod bound"),
    *("attaching", "attached", "Running"),
)
"""In the order in which a pod comes to them."""
_QUIET_S = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Ledger:
    """What one run cost. `requests` are by program, verb and resource; `cpu_s` by program."""

    pods: int
    seconds: float
    requests: Counter[tuple[str, str, str]]
    refused: Counter[tuple[str, str, str]]
    cpu_s: Mapping[str, float]
    cpu_until_run_s: Mapping[str, float]
    stages_s: Mapping[str, list[float]] = field(default_factory=dict)


async def measure(nodes: int, pods: int, reservation: str, folder: Path) -> Ledger:
    """Start a cluster, run the pods, and add up."""
    clock = SystemClock()
    audit = folder / "audit.log"
    settings = settings_for(nodes, reservation, folder, audit_log_path=str(audit))
    async with Plane(settings, clock=clock, rng=random.Random(1)) as plane:
        await _quiet(audit, clock)
        before, skip = _cpu_s(plane), await asyncio.to_thread(lambda: audit.stat().st_size)
        created = clock.now()
        started_at = clock.monotonic()
        await run_pods(plane.client, pods, clock)
        seconds = clock.monotonic() - started_at
        at_run = _cpu_s(plane)
        await _quiet(audit, clock)
        after = _cpu_s(plane)
        claims = (await plane.client.list(PersistentVolumeClaim, namespace="default")).items
        attachments = (await plane.client.list(VolumeAttachment)).items
        lines = [msgspec.json.decode(each) for each in (await asyncio.to_thread(audit.read_bytes))[skip:].splitlines()]
    volume_of = {claim.spec.volume_name: claim.name for claim in claims}
    names = {claim.name: claim.name for claim in claims} | volume_of
    names |= {each.name: volume_of.get(each.spec.source.persistent_volume_name, "") for each in attachments}
    asked = [each for each in lines if each["stage"] == "ResponseComplete" and not _is_steady(each)]
    return Ledger(
        pods,
        seconds,
        Counter(map(_what, asked)),
        Counter(_what(each) for each in asked if each["responseStatus"]["code"] >= 400),
        {name: after[name] - before[name] for name in after},
        {name: at_run[name] - before[name] for name in after},
        _stages(asked, names, created),
    )


async def _quiet(audit: Path, clock: SystemClock) -> None:
    """Return when nothing but heartbeats was asked for a while."""
    read = 0
    since = clock.monotonic()
    while clock.monotonic() - since < _QUIET_S:
        lines = (await asyncio.to_thread(audit.read_bytes))[read:].splitlines(keepends=True)
        whole = [each for each in lines if each.endswith(b"\n")]
        read += sum(map(len, whole))
        if any(not _is_steady(msgspec.json.decode(each)) for each in whole):
            since = clock.monotonic()
        await clock.sleep(0.1)


def _cpu_s(plane: Plane) -> dict[str, float]:
    return {
        name: _process_cpu_s(plane.supervisor[name].pid)
        for name in ("apiserver", "scheduler", "controllers", "provisioner", "node", "csi-driver")
    } | {"this script": sum(os.times()[:2])}


def _process_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _is_steady(line: Doc) -> bool:
    """What is asked whether or not pods come: heartbeats, and this script's own look at the pods."""
    return line["verb"] == "watch" or line.get("objectRef", {}).get("resource") in ("leases", None)


def _what(line: Doc) -> tuple[str, str, str]:
    about = line["objectRef"]
    resource = about["resource"] + (f"/{about['subresource']}" if about.get("subresource") else "")
    return _program(line), line["verb"], resource


def _program(line: Doc) -> str:
    return str(line.get("userAgent", "")).split(" ")[0].removeprefix("tonnage-").partition("/")[0]


def _stages(lines: Iterable[Doc], names: Mapping[str, str], created: datetime) -> dict[str, list[float]]:
    """Seconds from the start until each claim or pod came to each stage, by the time of the answer."""
    found: dict[str, dict[str, float]] = {stage: {} for stage in STAGES}
    for line in lines:
        about, who, what = line["objectRef"], _program(line), _what(line)[2]
        name = about.get("name", "")
        number = (names.get(name) or name).rpartition("-")[2]
        if line["verb"] not in ("create", "patch", "update") or line["responseStatus"]["code"] >= 400:
            continue
        stage = {
            ("up", "pods"): "created",
            ("scheduler", "persistentvolumeclaims"): "node selected",
            ("provisioner", "persistentvolumes"): "volume made",
            ("controllers", "volumeattachments"): "attaching",
            ("controllers", "persistentvolumes/status"): "volume bound",
            ("controllers", "persistentvolumeclaims/status"): "claim bound",
            ("scheduler", "pods/binding"): "pod bound",
            ("controllers", "volumeattachments/status"): "attached",
            ("kubelet", "pods/status"): "Running",
        }.get((who, what))
        at_s = (datetime.fromisoformat(line["stageTimestamp"]) - created).total_seconds()
        if (who, what) == ("controllers", "persistentvolumeclaims") and number not in found["asked for"]:
            stage = "asked for"
        if (who, what) == ("provisioner", "persistentvolumeclaims") and number not in found["held"]:
            stage = "held"
        if stage:
            # What is created is not named in an audit log, and need not be: each comes once.
            number = number or str(len(found[stage]))
            found[stage][number] = at_s  # the last of its kind: a status may be written more than once
    return {stage: sorted(each.values()) for stage, each in found.items()}


def show(ledger: Ledger, console: Console) -> None:
    """Print the ledger, a pod's share of everything."""
    pods = ledger.pods
    programs = sorted({who for who, _, _ in ledger.requests})
    table = Table("requests a pod", *programs, "all", "refused", title=f"{pods} pods ran after {ledger.seconds:.2f} s")
    for verb, resource in sorted({(verb, resource) for _, verb, resource in ledger.requests}):
        counts = [ledger.requests[who, verb, resource] / pods for who in programs]
        refused = sum(ledger.refused[who, verb, resource] for who in programs)
        shown = [f"{count:.2f}" if count else "" for count in counts]
        table.add_row(f"{verb} {resource}", *shown, f"{sum(counts):.2f}", str(refused or ""))
    sums = [sum(count for (who, _, _), count in ledger.requests.items() if who == name) / pods for name in programs]
    table.add_section()
    table.add_row("all", *(f"{each:.2f}" for each in sums), f"{sum(sums):.2f}", str(sum(ledger.refused.values())))
    console.print(table)
    cpu = Table("CPU, ms a pod", "until the last runs", "and until all is told")
    for name, seconds in sorted(ledger.cpu_s.items(), key=lambda each: -each[1]):
        cpu.add_row(name, f"{1000 * ledger.cpu_until_run_s[name] / pods:.1f}", f"{1000 * seconds / pods:.1f}")
    until_run, in_all = sum(ledger.cpu_until_run_s.values()), sum(ledger.cpu_s.values())
    cpu.add_row("all", f"{1000 * until_run / pods:.1f}", f"{1000 * in_all / pods:.1f}")
    console.print(cpu)
    stages = Table("stage, s from the start", "first", "median", "p99", "last")
    for name, times in ledger.stages_s.items():
        if times:
            p99 = times[min(len(times) - 1, round(0.99 * len(times)))]
            stages.add_row(name, *(f"{each:.2f}" for each in (times[0], statistics.median(times), p99, times[-1])))
    console.print(stages)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, default=3)
    options.add_argument("--pods", type=int, default=100, help="pods with one claim each")
    options.add_argument("--reservation", action="append", choices=("Object", "Ledger"), help="Object, unless told")
    given = options.parse_args()
    for reservation in given.reservation or ["Object"]:
        with tempfile.TemporaryDirectory(prefix="t") as name:
            ledger = asyncio.run(measure(given.nodes, given.pods, reservation, Path(name)))
        console = Console(width=150)
        console.rule(f"{given.nodes} nodes, {reservation}")
        show(ledger, console)


if __name__ == "__main__":
    main()
