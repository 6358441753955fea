"""Profiles with plugins left out, weights of their own and gates switched off, that reserve in any mode."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tonnage.gates import Gates
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.configuration.profile import ResolvedProfile

_GATES = ("CSIStorageCapacityV2", "StorageCapacityScoring", "MutablePVNodeAffinity", "VolumeLimitScaling")
_DISABLED = ("PodTopologySpread", "InterPodAffinity", "NodePorts", "VolumeZone", "VolumeRestrictions", "ImageLocality")
_SCORES = ("NodeResourcesFit", "TaintToleration", "ImageLocality", "VolumeBinding", "NodeResourcesBalancedAllocation")


def odd_profiles(rng: random.Random, more_gates: Sequence[str] = ()) -> tuple[ResolvedProfile, ...]:
    """One or two. Now and then a gate is off, one of `more_gates` too."""
    names = ["default-scheduler", "second"][: rng.choice((1, 1, 2))]
    gates = Gates().with_(**{each: False for each in (*_GATES, *more_gates) if rng.random() < 0.15})
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
    text = head + "".join(_profile(name, rng) for name in names)
    return tuple(parse(text, source="test", gates=gates).profiles)


def _profile(name: str, rng: random.Random) -> str:
    plugins = "{}"
    match rng.randrange(5):
        case 0:
            plugins = f"{{multiPoint: {{disabled: [{{name: {rng.choice(_DISABLED)}}}]}}}}"
        case 1:
            chosen = rng.sample(_SCORES, rng.randint(1, len(_SCORES)))
            enabled = ", ".join(f"{{name: {each}, weight: {rng.choice((1, 2, 5))}}}" for each in chosen)
            plugins = f"{{score: {{disabled: [{{name: '*'}}], enabled: [{enabled}]}}}}"
    strategy = rng.choice(("LeastAllocated", "LeastAllocated", "MostAllocated"))
    storage = {
        "reservation": rng.choice(("Object", "Ledger", "Ledger", "None")),
        "poolFit": rng.choice(("Possible", "Possible", "Guaranteed")),
        "legacyPools": rng.choice(("Bounded", "Strict", "Independent")),
        "reservationTimeoutSeconds": rng.choice((0, 5, 60)),
    }
    told = ", ".join(f"{key}: {value}" for key, value in storage.items())
    return (
        f"- schedulerName: {name}\n  plugins: {plugins}\n  pluginConfig:\n"
        f"  - {{name: StorageCapacity, args: {{{told}}}}}\n"
        f"  - {{name: NodeResourcesFit, args: {{scoringStrategy: {{type: {strategy}, resources: "
        "[{name: cpu, weight: 1}, {name: memory, weight: 2}]}}}\n"
    )
