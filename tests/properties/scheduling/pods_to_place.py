"""Kinds of pods with and without claims: pods of one kind ask for the same, as those of one workload do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.testing.storage_builders import claim, pod_with

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
IMAGES = ("app:1", "app:2", "big:1")

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class PodKind:
    """What pods of a kind have in common."""

    claims: Sequence[tuple[str, str]]
    """Class and size."""
    options: dict[str, Any]
    spec: dict[str, Any]
    is_for_one_pod: bool
    is_ephemeral: bool
    shares_claims: bool
    has_disk: bool


def kind_of_pods(rng: random.Random, classes: Sequence[str], profiles: Sequence[str]) -> PodKind:
    app, namespace = rng.choice(("w0", "w1")), rng.choice(("default", "default", "blue"))
    options: dict[str, Any] = {
        "namespace": namespace,
        "cpu": rng.choice(("100m", "1")),
        "memory": "64Mi",
        "image": rng.choice(IMAGES),
        "labels": {"app": app},
        "priority": rng.choice((0, 0, 5, 10)),
        "host_ports": [80] if rng.random() < 0.2 else [],
        "node_selector": {"disk": "ssd"} if rng.random() < 0.2 else {},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}] if rng.random() < 0.3 else [],
        "metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs"}]},
        **({"example.com/gpu": "1"} if rng.random() < 0.1 else {}),
    }
    return PodKind(
        [(rng.choice(classes), rng.choice(("2Gi", "4Gi", "10Gi"))) for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 6)))],
        options,
        {"schedulerName": rng.choice(profiles), **_constraints(rng, app)},
        is_for_one_pod=rng.random() < 0.15,
        is_ephemeral=rng.random() < 0.15,
        shares_claims=rng.random() < 0.15,
        has_disk=rng.random() < 0.1,
    )


def _constraints(rng: random.Random, app: str) -> dict[str, Any]:
    near = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "r0"}}}
    if rng.random() < 0.5:
        near["namespaceSelector"] = {"matchLabels": {"team": "x"}}
    apart = {**near, "topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    spread = {"maxSkew": 1, "topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    match rng.randrange(12):
        case 0:
            return {"affinity": {"podAntiAffinity": {_REQUIRED: [apart]}}}
        case 1:
            return {"affinity": {"podAffinity": {_REQUIRED: [near]}}}
        case 2:
            return {"affinity": {"podAffinity": {_PREFERRED: [{"weight": 5, "podAffinityTerm": near}]}}}
        case 3:
            return {"topologySpreadConstraints": [{**spread, "whenUnsatisfiable": "DoNotSchedule"}]}
        case 4:
            return {"topologySpreadConstraints": [{**spread, "whenUnsatisfiable": "ScheduleAnyway"}]}
    return {}


def pod_of(
    kind: PodKind, number: int, rng: random.Random, *, shared: PersistentVolumeClaim | None, nominated: str
) -> tuple[Pod, list[PersistentVolumeClaim]]:
    """The next pod of a kind, and the claims that come with it. Now and then one is unlike the others."""
    name, namespace = f"p-{number}", kind.options["namespace"]
    names: list[str] = []
    made: list[PersistentVolumeClaim] = []
    volumes: list[dict[str, Any]] = []
    for place, (class_name, size) in enumerate(kind.claims):
        if not place and kind.shares_claims and shared is not None and shared.namespace == namespace:
            names.append(shared.name)
        elif not place and kind.is_ephemeral:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"{namespace}-{name}", "controller": True}
            volumes.append({"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
            own = {"namespace": namespace, "class_name": class_name, "metadata": {"ownerReferences": [owner]}}
            made.append(claim(f"{name}-own", size, **own))
        else:
            names.append(f"data-{number}-{place}")
            modes = ("ReadWriteOncePod",) if kind.is_for_one_pod else ("ReadWriteOnce",)
            selected = nominated if rng.random() < 0.03 else ""
            asked = {"namespace": namespace, "class_name": class_name, "modes": modes, "selected_node": selected}
            made.append(claim(names[-1], size, **asked))
    if kind.has_disk:
        volumes.append({"name": "disk", "gcePersistentDisk": {"pdName": rng.choice("xy")}})
    options = {**kind.options, **({"cpu": "300m"} if rng.random() < 0.1 else {})}
    status = {"nominatedNodeName": nominated} if rng.random() < 0.08 else {}
    return pod_with(name, *names, volumes=volumes, spec=kind.spec, status=status, **options), made
