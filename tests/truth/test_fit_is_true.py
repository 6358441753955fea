"""What `fit` says is what then runs: random clusters are asked, then really scaled.

    make truth N=20           twenty clusters
    make truth N=20 FROM=40   twenty others

Where the driver says by which policy it picks a pool, the count is exact. Where it picks at random, `fit` tells the
least that is certain, and the most that it may be.
"""

from __future__ import annotations

import copy
import json
import os
import tempfile
import time
from pathlib import Path

import pytest
import yaml
from random_clusters import RandomCluster, random_cluster

from support.processes import Up, start_up
from tonnage.objects.document import Doc
from tonnage_command import tonnage

FROM, N = int(os.environ.get("TRUTH_FROM", "0")), int(os.environ.get("TRUTH_N", "1"))
QUIET_S = 8.0
"""A cluster in which nothing has changed for so long is settled: figures are published once a second."""
WITHIN_S = 180.0
MORE = 2
"""Replicas that are asked for beyond the count: they have to wait."""


@pytest.mark.parametrize("seed", range(FROM, FROM + N))
def test_as_many_run_as_fit_says(seed: int):
    cluster = random_cluster(seed)
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        up = start_up(Path(folder) / "c", *cluster.flags)
        try:
            create(up, *cluster.present)
            settled(up)
            answer = fit(up, cluster, Path(folder) / "template.yaml")
            scaled = copy.deepcopy(cluster.asked)
            scaled["spec"]["replicas"] = answer["atMost"] + MORE
            create(up, scaled)
            settled(up)
            runs = len([pod for pod in pods(up, "?labelSelector=app%3Ddb") if pod["status"].get("phase") == "Running"])
        finally:
            up.stop()
    assert answer["count"] <= runs <= answer["atMost"], cluster
    if cluster.policy in ("best-fit", "most-free"):
        assert answer["count"] == answer["atMost"]


def fit(up: Up, cluster: RandomCluster, file: Path) -> Doc:
    file.write_text(yaml.safe_dump(cluster.asked))
    done = tonnage("fit", "--kubeconfig", str(up.kubeconfig), "--template", str(file), "-o", "json")
    assert done.returncode == 0, done.stderr
    answer: Doc = json.loads(done.stdout)
    return answer


def create(up: Up, *docs: Doc) -> None:
    for doc in docs:
        prefix = "/api/v1" if doc["apiVersion"] == "v1" else f"/apis/{doc['apiVersion']}"
        reply = up.post(f"{prefix}/namespaces/default/{doc['kind'].lower()}s", doc)
        assert reply.code == 201, reply


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
