"""What `fit` and `drain-preview` say is what then happens: random clusters are asked, then scaled, drained and helped.

    make truth N=20           twenty clusters
    make truth N=20 FROM=40   twenty others

`make test` asks one cluster for its count, quiet and in a burst; all else is `make truth`, a minute a cluster.

A cluster is asked when it is quiet and again in the middle of a burst; as many replicas run in the end as both said.
Where the claims of a replica are equal, the count is one number. Otherwise it is the least that is certain and the most
that may be: the provisioner makes volumes in any order, and some drivers pick at random. Then a node is drained: every
pod goes where the preview has it, or to a node that was equally good. At last the cluster gets the pool that `fit`
calls the least, and one more replica runs; a search of its own finds no smaller one. With TRUTH_REPORT=FILE a line of
JSON tells how each cluster went.
"""

from __future__ import annotations

import copy
import json
import os
import tempfile
import time
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from random_clusters import RandomCluster, random_cluster

from support.processes import Up, start_up
from tonnage.objects.document import Doc
from tonnage.quantity import Quantity
from tonnage_command import tonnage

FROM, N = int(os.environ.get("TRUTH_FROM", "0")), int(os.environ.get("TRUTH_N", "1"))
IS_WHOLE = "TRUTH_N" in os.environ
QUIET_S = 8.0 if IS_WHOLE else 5.0
"""A cluster in which nothing has changed for so long is settled: figures are published once a second."""
WITHIN_S = 180.0
MORE = 2
"""Replicas that are asked for beyond the count: they have to wait."""
GI = 1 << 30


@pytest.mark.parametrize("seed", range(FROM, FROM + N))
def test_what_is_told_is_what_happens(seed: int):
    cluster = random_cluster(seed)
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        asked = AskedCluster(cluster, Path(folder))
        try:
            asked.count()
            if IS_WHOLE:
                asked.drain()
                asked.help()
        except Exception as exc:
            asked.report["wrong"].append(str(exc)[:500])
            raise
        finally:
            asked.up.stop()
            if report := os.environ.get("TRUTH_REPORT"):
                with Path(report).open("a") as file:
                    file.write(json.dumps({"seed": seed, "policy": cluster.policy, **asked.report}) + "\n")
    assert not asked.report["wrong"], (asked.report, cluster)


class AskedCluster:
    """One cluster, what was said of it and what came."""

    def __init__(self, cluster: RandomCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.report: dict[str, Any] = {"wrong": []}
        self.up = start_up(folder / "c", *cluster.flags)
        create(self.up, *cluster.present)
        settled(self.up)

    def count(self) -> None:
        template = self.folder / "template.yaml"
        template.write_text(yaml.safe_dump(self.cluster.asked))
        first = self.ask("fit", "--template", str(template))
        create(self.up, sized(self.cluster.asked, min(2, first["count"])))
        burst = self.ask("fit", "--workload", self.workload)
        self.scale(first["atMost"] + MORE)
        settled(self.up)
        runs, present = self.running(), burst["replicas"]["present"]
        self.report |= {
            "count": first["count"],
            "atMost": first["atMost"],
            "burst": [present + burst["count"], present + burst["atMost"]],
            "burstStops": burst["stops"],
            "runs": runs,
            "preempting": len(first["preempting"]),
        }
        if not self.cluster.has_pools:
            self.check(bool(first["notes"]) and first["grades"]["count"] == "possible", "it is said to be certain")
            return
        self.check(first["count"] <= runs <= first["atMost"], "count")
        # Where more are asked for than run, those that wait are present too, and nobody else fits.
        least, most = present + burst["count"], present + burst["atMost"]
        self.check(least <= runs <= most or (runs < present and not burst["atMost"]), "burst")
        if len(claim_kinds(self.cluster.asked)) == 1:
            self.check(first["count"] == first["atMost"], "equal claims have a range")

    def drain(self) -> None:
        self.scale(self.report["runs"])  # nobody waits: whoever moves later was not there before
        settled(self.up)
        nodes = sorted({pod["spec"].get("nodeName", "") for pod in pods(self.up)})
        if len(nodes) < 2 or not nodes[0]:
            return
        told = self.ask("drain-preview", nodes[0])
        places = {f"default/{pod['metadata']['name']}": pod["spec"]["nodeName"] for pod in pods(self.up)}
        managed = {move["pod"]: move for move in told["moves"]}
        stuck, daemons = ({each["pod"] for each in told[what]} for what in ("stuck", "daemons"))
        drained(self.up, nodes[0])
        settled(self.up)
        # Who is stuck waits, or is not made again before others run.
        now = Counter(pod["spec"]["nodeName"] for pod in pods(self.up) if pod["spec"].get("nodeName"))
        said = Counter(
            managed[key]["to"] if key in managed else node
            for key, node in places.items()
            if key not in stuck and (key in managed or key in daemons or node != nodes[0])
        )
        is_lot = any(move.get("equallyGood") for move in told["moves"])
        self.report |= {"drain": dict(said), "drained": dict(now), "lots": is_lot}
        is_same = now == said or (is_lot and now.total() == said.total())
        self.check(is_same, "drain")
        uncordoned(self.up, nodes[0])
        settled(self.up)

    def help(self) -> None:
        if self.is_daemon or not self.cluster.has_pools:
            return
        self.scale(self.running() + MORE)
        settled(self.up)
        runs = self.running()
        told = self.ask("fit", "--workload", self.workload)
        pools = [each for each in told["remedies"] if each["kind"] == "pool"]
        if told["count"] or not pools:
            return
        remedy = pools[0]
        node, size = remedy["nodes"][0], remedy["amount"]
        smallest = self.smallest_pool(node)
        self.report |= {"pool": size // GI, "smallest": smallest}
        self.check(size == smallest * GI, "a smaller pool would do")
        self.scale(runs + MORE)  # one waits for it, also if the drain has made room for those that waited before
        self.up.stop()
        self.up = start_up(self.folder / "c", *self.cluster.with_pool(node, f"{size // GI}Gi"))
        ends_at = time.monotonic() + WITHIN_S  # programs that start again take their time on a busy machine
        while self.running() <= runs and time.monotonic() < ends_at:
            time.sleep(1)
        self.report |= {"before": runs, "helped": self.running()}
        self.check(self.running() > runs, "the remedy did not help")

    def smallest_pool(self, node: str) -> int:
        """In GiB, by trying every size and every way to put a replica's claims into the pools."""
        sizes = claim_sizes(self.cluster.asked)
        free = [each for each in self.free_pools(node) if each]
        for size in range(1, sum(sizes) + 1):
            pools = [*free, size]
            for places in product(range(len(pools)), repeat=len(sizes)):
                taken: Counter[int] = Counter()
                for place, each in zip(places, sizes, strict=True):
                    taken[place] += each
                if all(taken[place] <= pool for place, pool in enumerate(pools)):
                    return size
        return sum(sizes)

    def free_pools(self, node: str) -> list[int]:
        for each in self.up.get("/apis/storage.k8s.io/v1/csistoragecapacities").body["items"]:
            if node in each["nodeTopology"].get("matchLabels", {}).values():
                return [Quantity.parse(pool).value() // GI for pool in each.get("availableCapacities", [])]
        return []

    @property
    def workload(self) -> str:
        return f"{self.cluster.asked['kind']}/default/db"

    def ask(self, command: str, *flags: str) -> Doc:
        done = tonnage(command, "--kubeconfig", str(self.up.kubeconfig), *flags, "-o", "json")
        assert done.returncode == 0, done.stderr
        answer: Doc = json.loads(done.stdout)
        return answer

    def check(self, is_right: bool, what: str) -> None:
        if not is_right:
            self.report["wrong"].append(what)

    @property
    def is_daemon(self) -> bool:
        return bool(self.cluster.asked["kind"] == "DaemonSet")

    def scale(self, replicas: int) -> None:
        """A DaemonSet has a pod for every node, however many are asked for."""
        if self.is_daemon:
            return
        kind = self.cluster.asked["kind"].lower()
        body = {"spec": {"replicas": replicas}}
        reply = self.up.patch(f"/apis/apps/v1/namespaces/default/{kind}s/db", body)
        assert reply.code == 200, reply

    def running(self) -> int:
        found = pods(self.up, "?labelSelector=app%3Ddb")
        return len([pod for pod in found if pod["status"].get("phase") == "Running"])


def sized(workload: Doc, replicas: int) -> Doc:
    found = copy.deepcopy(workload)
    if found["kind"] != "DaemonSet":
        found["spec"]["replicas"] = replicas
    return found


def claim_specs(workload: Doc) -> list[Doc]:
    volumes = workload["spec"]["template"]["spec"].get("volumes", [])
    specs = [each["ephemeral"]["volumeClaimTemplate"]["spec"] for each in volumes if "ephemeral" in each]
    return [*specs, *(each["spec"] for each in workload["spec"].get("volumeClaimTemplates", ()))]


def claim_sizes(workload: Doc) -> list[int]:
    """In GiB, the largest first."""
    sizes = (Quantity.parse(each["resources"]["requests"]["storage"]).value() // GI for each in claim_specs(workload))
    return sorted(sizes, reverse=True)


def claim_kinds(workload: Doc) -> set[tuple[str, str]]:
    """The sizes and classes of a replica's claims."""
    specs = claim_specs(workload)
    return {(each["resources"]["requests"]["storage"], each.get("storageClassName", "")) for each in specs}


def create(up: Up, *docs: Doc) -> None:
    for doc in docs:
        prefix = "/api/v1" if doc["apiVersion"] == "v1" else f"/apis/{doc['apiVersion']}"
        plural = doc["kind"].lower() + ("es" if doc["kind"].endswith("s") else "s")
        where = plural if doc["kind"] == "PriorityClass" else f"namespaces/default/{plural}"
        reply = up.post(f"{prefix}/{where}", doc)
        assert reply.code == 201, reply


def drained(up: Up, node: str) -> None:
    """As `kubectl drain --ignore-daemonsets` does it."""
    assert up.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}}).code == 200
    for pod in pods(up):
        owners = [each["kind"] for each in pod["metadata"].get("ownerReferences", ())]
        if pod["spec"].get("nodeName") == node and "DaemonSet" not in owners:
            name = pod["metadata"]["name"]
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            up.post(f"/api/v1/namespaces/default/pods/{name}/eviction", eviction)


def uncordoned(up: Up, node: str) -> None:
    assert up.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}}).code == 200


def settled(up: Up) -> None:
    """Wait until neither pods nor figures have changed for a while."""
    ends_at, seen, since = time.monotonic() + WITHIN_S, "", time.monotonic()
    while time.monotonic() - since < QUIET_S and time.monotonic() < ends_at:
        figures = up.get("/apis/storage.k8s.io/v1/csistoragecapacities").body["items"]
        now = json.dumps([[pod["spec"], pod["status"]] for pod in pods(up)] + figures)
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.5)


def pods(up: Up, query: str = "") -> list[Doc]:
    found: list[Doc] = up.get(f"/api/v1/namespaces/default/pods{query}").body["items"]
    return found
