"""What simulating costs by the size of the cluster: a pod with a claim each, ten pods a node, from files to the answer.

    python perf/simulate.py                    1,000 nodes and 10,000 pods, up to 5,000 and 50,000
    python perf/simulate.py --nodes 5000       one size
    python perf/simulate.py --profile          where the time goes, for the smallest size

Each size runs in a process of its own, so that memory is its own too. CPU time is counted, because other work on the
machine changes it less than the time that passes, which is shown beside it: where that is many times as much, cores and
their caches were shared, and the CPU time of the same work is up to twice what it is alone. The budget: 5,000 nodes and
50,000 pods in at most 75 s and 1 GB, and linear.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from typing import Any

from budgets import figure

from tonnage.gates import Gates
from tonnage.objects import codec
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.whatif.creation import Creation
from tonnage.whatif.manifest_errors import Origin
from tonnage.whatif.manifests import Manifest
from tonnage.whatif.simulate.disks import StorageSettings
from tonnage.whatif.simulate.measures import run_document
from tonnage.whatif.simulate.play import Player, Run
from tonnage.whatif.simulate.scenario import Arrive, Scenario
from tonnage.whatif.sources import ClusterState, clock_of

SIZES = (1000, 2000, 5000)
PODS_PER_NODE = 10
SECONDS, MEGABYTES = 75.0, 1024
ARRIVALS_PER_S = 50


def cluster_of(nodes: int) -> list[dict[str, Any]]:
    driver, label = "pools.tonnage.dev", "topology.tonnage.dev/node"
    meta = {"metadata": {"name": driver}}
    docs: list[dict[str, Any]] = [
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", **meta, "spec": {"storageCapacity": True}},
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "pools"},
            "provisioner": driver,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ]
    for number in range(nodes):
        name = f"node-{number}"
        labels = {label: name, "kubernetes.io/hostname": name}
        allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110"}
        docs.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {"allocatable": allocatable},
            }
        )
        docs.append(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIStorageCapacity",
                "metadata": {"name": f"pools-{number}", "namespace": "kube-system"},
                "storageClassName": "pools",
                "nodeTopology": {"matchLabels": {label: name}},
                "capacity": "300Gi",
                "availableCapacities": ["100Gi"] * 3,
            }
        )
    return docs


def database(replicas: int) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "128Mi"}
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "pools"}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "db", "image": "db", "resources": {"requests": requests}}]},
            },
            "volumeClaimTemplates": [
                {"metadata": {"name": "data"}, "spec": {**claim, "resources": {"requests": {"storage": "10Gi"}}}}
            ],
        },
    }


def state_of(nodes: int, pods: int) -> ClusterState:
    creation, origin = Creation(Gates()), Origin("perf", 0)
    objects: list[Object] = [codec.decode_doc(doc) for doc in cluster_of(nodes)]
    doc = database(pods)
    doc["metadata"]["uid"] = "db"
    from tonnage.objects.apps_v1 import StatefulSet
    from tonnage.objects.codec import resource_of

    objects.append(creation.of(Manifest(origin, resource_of(StatefulSet), doc, is_from_server=False), []))
    return ClusterState(objects, "perf", clock_of(objects))


def measured(nodes: int, *, profile: bool = False) -> dict[str, Any]:
    gc.set_threshold(50_000, 20, 20)  # as every command does
    pods = nodes * PODS_PER_NODE
    state = state_of(nodes, pods)
    events = (Arrive("StatefulSet/shop/db", 0.0, every_s=1 / ARRIVALS_PER_S),)
    began_s, began_at = time.process_time(), time.monotonic()
    player = Player(state, Scenario("perf", events, StorageSettings()), lambda: Creation(Gates()))
    run = Run("default", default_configuration(gates=Gates()).profiles)
    if profile:
        import cProfile

        with cProfile.Profile() as taken:
            player.play(run)
        import pstats

        pstats.Stats(taken).sort_stats("tottime").print_stats(40)
        return {}
    document = run_document(player.play(run))
    seconds, passed_s = time.process_time() - began_s, time.monotonic() - began_at
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    placed = document["placed"]
    counts = {"nodes": nodes, "pods": pods, "placed": placed}
    return {**counts, "seconds": seconds, "passed_s": passed_s, "megabytes": megabytes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, action="append")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one or given.profile:
        print(json.dumps(measured(given.one or (given.nodes or SIZES)[0], profile=given.profile)))
        return
    print(f"{'nodes':>7} {'pods':>8} {'placed':>8} {'CPU s':>8} {'ms a pod':>9} {'MB':>6} {'passed s':>9}")
    for nodes in given.nodes or SIZES:
        out = subprocess.run([sys.executable, __file__, "--one", str(nodes)], check=True, capture_output=True).stdout
        found = json.loads(out)
        cost = 1000 * found["seconds"] / found["pods"]
        print(
            f"{found['nodes']:>7,} {found['pods']:>8,} {found['placed']:>8,} {found['seconds']:>8.1f} {cost:>9.2f} "
            f"{found['megabytes']:>6.0f} {found['passed_s']:>9.1f}",
            flush=True,
        )
        if nodes == SIZES[-1]:
            figure("simulate-seconds", found["seconds"])
            figure("simulate-memory", found["megabytes"])
            is_kept = found["seconds"] <= SECONDS and found["megabytes"] <= MEGABYTES
            print(f"budget of {SECONDS:.0f} s and {MEGABYTES:,} MB: {'kept' if is_kept else 'NOT KEPT'}")


if __name__ == "__main__":
    main()
