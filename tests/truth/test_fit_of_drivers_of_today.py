"""What `fit` says of drivers that report one number, round sizes and share pools in part, and what then runs.

    make truth N=20           twenty such clusters too

The driver has volume groups of odd sizes, tells of them in LVMNode objects, and reports one number; `tonnage pools`
writes pools, ids, policy and size rules. Two classes overlap: one draws from all groups, the other from some.
"""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from random_clusters import RandomCluster
from test_fit_is_true import FROM, IS_WHOLE, MORE, AskedCluster, N, claim_kinds, create, settled, sized

from support.eventually import eventually
from support.processes import Up
from support.programs import spawn
from tonnage.objects.document import Doc
from tonnage.objects.storage_v1 import POOL_IDS, SIZE_RULES
from tonnage.stories.story_runner import claim_spec, pod_spec

RULES = (
    "step=1Mi,step=1Gi,above=1Gi",
    "step=1Mi,step=1Gi,above=1Gi,strict",
    "minimum=2Gi,extent=64Mi",
    "overhead=3%,extent=4Mi",
)
POLICIES = ("best-fit", "most-free", "first-fit")
POOLS_MI = (10200, 10240, 15360, 20480, 20000)
SIZES_MI = (900, 1536, 2500, 5100, 10200)
CRD = Path(__file__).parents[2] / "examples/20-one-number/lvmnode-crd.yaml"
DRIVER = "pools.tonnage.dev"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openebs"}}
"""Where the driver's LVMNode objects are."""


def drawn(seed: int, folder: Path) -> tuple[RandomCluster, str]:
    """A cluster, and the size rules of its driver."""
    rng = random.Random(f"truth of today {seed}")
    nodes, rules, policy = rng.randint(1, 3), RULES[seed % len(RULES)], POLICIES[seed % len(POLICIES)]
    flags = ["--nodes", str(nodes), "--pool-policy", policy, "--one-number", rng.choice(("sum", "largest"))]
    for number in range(1, nodes + 1):
        pools = ",".join(f"{rng.choice(POOLS_MI)}Mi" for _ in range(rng.randint(2, 3)))
        flags += ["--pools", f"node-{number}={pools}"]
    classes = [made_class("lvm-all", "^vg-", rules), made_class("lvm-some", "^vg-[23]$", rules)]
    file = folder / "classes.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NAMESPACE, *classes]}))
    sizes = [rng.choice(SIZES_MI) for _ in range(rng.choice((1, 2, 2, 3)))]
    asked = stateful_set([(f"{size}Mi", rng.choice(("lvm-all", "lvm-some"))) for size in sizes])
    return RandomCluster((*flags, "-f", str(CRD), "-f", str(file)), policy, True, (), asked), rules


def made_class(name: str, pattern: str, rules: str) -> Doc:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "parameters": {"vgpattern": pattern, "size-rules": rules},
    }


def stateful_set(claims: list[tuple[str, str]]) -> Doc:
    template = pod_spec()
    names = [f"data{number}" for number in range(len(claims))]
    template["containers"][0]["volumeMounts"] = [{"name": name, "mountPath": f"/{name}"} for name in names]
    template.pop("volumes", None)
    templates = [
        {"metadata": {"name": name}, "spec": {**claim_spec(size), "storageClassName": class_name}}
        for name, (size, class_name) in zip(names, claims, strict=True)
    ]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 1,
            "serviceName": "db",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": template},
            "volumeClaimTemplates": templates,
        },
    }


class AskedDriverOfToday(AskedCluster):
    """Asked before anything runs, in a burst, and when two replicas run and all is quiet again.

    The pools' source tells its time in seconds. In a burst a volume may count twice, as made and as not shown yet: less
    may be said than then runs, never more.
    """

    def count(self) -> None:
        template = self.folder / "template.yaml"
        template.write_text(yaml.safe_dump(self.cluster.asked))
        first = self.ask("fit", "--template", str(template))
        create(self.up, sized(self.cluster.asked, min(2, first["count"])))
        burst = self.ask("fit", "--workload", self.workload)
        settled(self.up)
        quiet = self.ask("fit", "--workload", self.workload)
        self.scale(first["atMost"] + MORE)
        settled(self.up)
        runs = self.running()
        said = {name: told["replicas"]["present"] for name, told in (("burst", burst), ("quiet", quiet))}
        self.report |= {"count": first["count"], "atMost": first["atMost"], "runs": runs}
        self.report |= {"burst": said["burst"] + burst["count"]}
        self.report |= {"quiet": [said["quiet"] + quiet["count"], said["quiet"] + quiet["atMost"]]}
        self.check(first["count"] <= runs <= first["atMost"], "count")
        self.check(said["burst"] + burst["count"] <= runs, "more in a burst than runs")
        least, most = self.report["quiet"]
        self.check(least <= runs <= most, "quiet")
        if len(claim_kinds(self.cluster.asked)) == 1:
            self.check(first["count"] == first["atMost"], "equal claims have a range")


@contextmanager
def pools(up: Up, folder: Path, policy: str, rules: str) -> Iterator[None]:
    """`tonnage pools` beside a cluster, once it has written everything."""
    flags = ("--source", "openebs-lvm", "--driver", DRIVER, "--pool-policy", policy, "--size-rules", rules)
    process = spawn("pools", "--kubeconfig", str(up.kubeconfig), *flags, log=folder / "pools.log")

    def is_written() -> bool:
        objects = up.get("/apis/storage.k8s.io/v1/csistoragecapacities").body["items"]
        classes = up.get("/apis/storage.k8s.io/v1/storageclasses").body["items"]
        return bool(objects) and all(
            key in each["metadata"].get("annotations", {})
            for kind, key in ((objects, POOL_IDS), (classes, SIZE_RULES))
            for each in kind
        )

    try:
        eventually(is_written, "tonnage pools to write", details=lambda: (folder / "pools.log").read_text())
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FROM, FROM + (N if IS_WHOLE else 1)))
def test_what_is_told_of_a_driver_that_rounds_is_what_runs(seed: int):
    with tempfile.TemporaryDirectory(prefix="t") as name:
        folder = Path(name)
        cluster, rules = drawn(seed, folder)
        asked = AskedDriverOfToday(cluster, folder)
        try:
            with pools(asked.up, folder, cluster.policy, rules):
                settled(asked.up)
                asked.count()
        except Exception as exc:
            asked.report["wrong"].append(str(exc)[:500])
            raise
        finally:
            asked.up.stop()
            if report := os.environ.get("TRUTH_REPORT"):
                with Path(report).open("a") as file:
                    file.write(
                        json.dumps({"seed": seed, "policy": cluster.policy, "rules": rules, **asked.report}) + "\n"
                    )
    assert not asked.report["wrong"], (asked.report, cluster, rules)
