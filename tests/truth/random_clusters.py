"""Random clusters for the suite of predictions: their pools, what is on them, and the workload that is asked about.

Everything is drawn from a seed. Sizes are few and round, so that pools end exactly full now and then: there a count
that is off by one shows. All clusters have two classes that share their pools. In some, pods of lower priority take
most of the processors, so that replicas run by preempting them; some ask about a DaemonSet; in some the driver tells
its free room as one number.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tonnage.objects.document import Doc
from tonnage.stories.story_runner import claim, claim_spec, deployment, pod, pod_spec

POLICIES = ("best-fit", "most-free", "first-fit", "random")
SIZES_GI = (20, 40, 60, 70, 90, 180)
POOLS_GI = (60, 100, 200, 400)


@dataclass(frozen=True)
class RandomCluster:
    """`flags` of `tonnage up`, `present` what runs before anybody asks, `asked` the workload that will be scaled."""

    flags: tuple[str, ...]
    policy: str
    has_pools: bool
    """The driver tells its pools; otherwise one number, and the answer is only as good as that."""
    present: tuple[Doc, ...]
    asked: Doc

    def with_pool(self, node: str, size: str) -> tuple[str, ...]:
        """The flags of the same cluster with one more pool."""
        return tuple(f"{each},{size}" if each.startswith(f"{node}=") else each for each in self.flags)


def random_cluster(seed: int) -> RandomCluster:
    rng = random.Random(f"truth {seed}")
    nodes = rng.randint(1, 4)
    pools_gi = {
        f"node-{number}": [rng.choice(POOLS_GI) for _ in range(rng.randint(1, 3))] for number in range(1, nodes + 1)
    }
    policy = rng.choice(POLICIES)
    flags = ["--nodes", str(nodes), "--pool-policy", policy, "--classes", "2"]
    for node, sizes in pools_gi.items():
        flags += ["--pools", f"{node}={','.join(f'{size}Gi' for size in sizes)}"]
    if rng.random() < 0.2:
        flags += ["--max-volumes", str(rng.randint(2, 6))]
    present: list[Doc] = []
    for number in range(rng.randint(0, 3)):
        present.append(claim(f"data-{number}", f"{rng.choice((10, 20, 30, 50))}Gi"))
        present.append(pod(f"present-{number}", [f"data-{number}"]))
    is_gold = rng.random() < 0.2
    more = random.Random(f"truth more {seed}")
    if is_gold:
        present.append(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 1000}
        )
        if more.random() < 0.5:
            present += [pod(f"batch-{number}", cpu="6") for number in range(nodes)]
        else:
            batch = deployment("batch", pod_spec(cpu="6"))
            batch["spec"]["replicas"] = nodes
            present.append(batch)
    one_number = more.choice(("sum", "largest")) if more.random() < 0.15 else ""
    if one_number:
        flags += ["--one-number", one_number]
    asked = _without_priority(rng)
    if more.random() < 0.2:
        asked = _daemon_set(more)
    if is_gold:
        template = asked["spec"]["template"]["spec"]
        template["priorityClassName"] = "gold"
        template["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    return RandomCluster(tuple(flags), policy, not one_number, tuple(present), asked)


def _daemon_set(rng: random.Random) -> Doc:
    sizes = [f"{rng.choice(SIZES_GI)}Gi" for _ in range(rng.randint(1, 2))]
    found = deployment("db", pod_spec(ephemeral=sizes, cpu=rng.choice(("", "700m"))))
    del found["spec"]["replicas"]
    return {**found, "kind": "DaemonSet"}


def _without_priority(rng: random.Random) -> Doc:
    sizes = [f"{rng.choice(SIZES_GI)}Gi" for _ in range(rng.choice((1, 1, 2, 2, 2, 3)))]
    cpu = rng.choice(("", "", "", "700m"))
    if rng.random() < 0.3:
        return deployment("db", pod_spec(ephemeral=sizes, cpu=cpu))
    template = pod_spec(cpu=cpu)
    names = [f"data{number}" for number in range(len(sizes))]
    template["containers"][0]["volumeMounts"] = [{"name": name, "mountPath": f"/{name}"} for name in names]
    del template["volumes"]
    claims = []
    for name, size in zip(names, sizes, strict=True):
        spec = claim_spec(size)
        spec["storageClassName"] = rng.choice(("pools", "pools", "pools-2"))
        claims.append({"metadata": {"name": name}, "spec": spec})
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 1,
            "serviceName": "db",
            "podManagementPolicy": rng.choice(("Parallel", "OrderedReady")),
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": template},
            "volumeClaimTemplates": claims,
        },
    }
