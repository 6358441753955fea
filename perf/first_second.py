"""What one waits for before anything is seen: --help, an answer from files, `tonnage up`; and the memory of that.

    python perf/first_second.py [--rounds 5]

Rounds are interleaved, so that a machine that is busy for a while is busy for all; figures are medians. Of `tonnage up`
the time line is told as well, by the files that each step leaves behind, and the proportional set size by process, in
which a page that several share counts once.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from budgets import figure
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
PYTHON = [sys.executable, "-m", "tonnage"]
STEPS = {
    "lock": "folder is ours",
    "run/apiserver.pid": "API server forked",
    "kubeconfig": "certificates made",
    "identities/node.kubeconfig": "API server serves",
    "identities/scheduler.token": "accounts and tokens",
    "run/csi-driver.pid": "first program forked",
    "run/scheduler.pid": "last program forked",
}
"""Files of a data folder by what has just been done when they are written."""


def dump(nodes: int) -> dict[str, Any]:
    """A cluster as `kubectl get -o json` tells it: nodes with one driver and capacity each, and a pod that waits."""
    items = [each for number in range(nodes) for each in of_node(f"node-{number}", number)]
    pools = {"provisioner": "pools.tonnage.dev", "volumeBindingMode": "WaitForFirstConsumer"}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "pools"}
    mounted = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    items += [
        found("storage.k8s.io/v1", "StorageClass", "pools", 1, **pools),
        found("storage.k8s.io/v1", "CSIDriver", "pools.tonnage.dev", 2, spec={"storageCapacity": True}),
        found(
            *("v1", "PersistentVolumeClaim", "data", 3, "default"),
            spec={**spec, "resources": {"requests": {"storage": "50Gi"}}},
            status={"phase": "Pending"},
        ),
        found(
            *("v1", "Pod", "web", 4, "default"),
            spec={"containers": [{"name": "web", "image": "web:1"}], "volumes": [mounted]},
            status={"phase": "Pending"},
        ),
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def of_node(name: str, number: int) -> Iterator[dict[str, Any]]:
    key = "topology.tonnage.dev/node"
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    at = "2026-11-01T10:00:00Z"
    conditions = [
        {"type": each, "status": str(each == "Ready"), "lastHeartbeatTime": at, "reason": "Kubelet", "message": "told"}
        for each in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}", key: name}
    yield found("v1", "Node", name, number, labels=labels, spec={}, status=status)
    driver = {"name": "pools.tonnage.dev", "nodeID": name, "topologyKeys": [key], "allocatable": {"count": 16}}
    yield found("storage.k8s.io/v1", "CSINode", name, number, spec={"drivers": [driver]})
    yield found(
        *("storage.k8s.io/v1", "CSIStorageCapacity", f"capacity-{number}", number, "default"),
        storageClassName="pools",
        capacity="300Gi",
        maximumVolumeSize="100Gi",
        nodeTopology={"matchLabels": {key: name}},
    )


def found(version: str, kind: str, name: str, number: int, namespace: str = "", **rest: Any) -> dict[str, Any]:
    """An object that a server has written."""
    labels = {"labels": rest.pop("labels")} if "labels" in rest else {}
    metadata = {"name": name, "uid": f"{kind}-{number}", "resourceVersion": str(number + 1), **labels}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {**metadata, "namespace": namespace} if namespace else metadata,
        **rest,
    }


def timed(command: list[str]) -> float:
    """Seconds until it has ended."""
    started_at = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, cwd=ROOT)
    return time.perf_counter() - started_at


def up(folder: Path) -> tuple[float, dict[str, float], dict[str, float]]:
    """Start a cluster and stop it: seconds until it was ready, those of each step, and MB of each process (PSS)."""
    started_at, started = time.time(), time.perf_counter()
    process = subprocess.Popen(
        [*PYTHON, "up", "--data-dir", str(folder), "--secure-port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready_s = time.perf_counter() - started
        assert line.startswith(b"ready "), "tonnage up did not get ready"
        steps = {what: (folder / file).stat().st_mtime - started_at for file, what in STEPS.items()}
        time.sleep(1.0)  # memory is that of a cluster at rest
        pss = {f"{name} ({pid})": pss_mb(pid) for pid, name in processes(process.pid)}
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return ready_s, {what: at for what, at in steps.items() if at > 0}, pss


def processes(pid: int) -> Iterator[tuple[int, str]]:
    """A process and all below it, with their names."""
    yield pid, Path(f"/proc/{pid}/comm").read_text().strip()
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from processes(int(child))


def pss_mb(pid: int) -> float:
    told = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert told is not None
    return int(told[1]) / 1024


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="tonnage-perf-") as name:
        folder = Path(name)
        (folder / "dump.json").write_text(json.dumps(dump(1000), indent=4))
        explain = ["explain", "-f", str(folder / "dump.json"), "--pod", "default/web"]
        commands = {
            "tonnage --help": [*PYTHON, "--help"],
            "tonnage explain --help": [*PYTHON, "explain", "--help"],
            "tonnage scheduler --help": [*PYTHON, "scheduler", "--help"],
            "tonnage explain, 1,000 nodes": [*PYTHON, *explain],
            "./tonnage --help": [str(ROOT / "tonnage"), "--help"],
        }
        timed(commands["./tonnage --help"])  # a set-up that is due is not what is measured
        seconds: dict[str, list[float]] = {what: [] for what in commands}
        starts: dict[str, list[float]] = {"fresh": [], "again": []}
        for number in range(rounds):
            for what, command in commands.items():
                seconds[what].append(timed(command))
            if number < min(3, rounds):
                data = folder / f"up-{number}"
                fresh_s, steps, pss = up(data)
                starts["fresh"].append(fresh_s)
                starts["again"].append(up(data)[0])
    show(seconds, starts, steps, pss)


def show(
    seconds: dict[str, list[float]], starts: dict[str, list[float]], steps: dict[str, float], pss: dict[str, float]
) -> None:
    table = Table("what", "median", "all", title="The first second")
    for what, times in {**seconds, **{f"tonnage up ready, {how}": times for how, times in starts.items()}}.items():
        table.add_row(what, f"{statistics.median(times):.3f} s", " ".join(f"{each:.2f}" for each in times))
    table.add_section()
    for what, at in sorted(steps.items(), key=lambda step: step[1]):
        table.add_row(f"tonnage up, fresh: {what}", f"{at:.2f} s")
    table.add_section()
    for what, used_mb in pss.items():
        table.add_row(f"memory of {what}", f"{used_mb:.0f} MB")
    table.add_row("memory of all (PSS)", f"{sum(pss.values()):.0f} MB")
    Console(width=None if sys.stdout.isatty() else 120).print(table)

    median = {what: statistics.median(times) for what, times in seconds.items()}
    figure("help", median["tonnage --help"])
    figure("explain-1000", median["tonnage explain, 1,000 nodes"])
    paired = zip(seconds["./tonnage --help"], seconds["tonnage --help"], strict=True)
    figure("launcher", max(0.0, statistics.median(ours - theirs for ours, theirs in paired)))
    again = f"again on the same folder {statistics.median(starts['again']):.2f} s"
    figure("up-ready", statistics.median(starts["fresh"]), again)
    figure("up-pss", sum(pss.values()))


if __name__ == "__main__":
    main()
