"""Calling a plugin in a test: alone, on a small cluster, or with the default plugins in a whole decision.

cluster = cluster_of(node("a"), node("b", labels={"disk": "old"}))
filter_results(NotOnOldDisks(None), cluster, pod("web"))      {"b": ("node(s) had old disks",)}
node_scores(PreferNewDisks(None), cluster, pod("web"))        {"a": 100, "b": 0}
decide(cluster, pod("web"), NotOnOldDisks).node               "a"

The first two also check every plugin's promise: one answer per row, the same whether a row is asked about alone or
among others. A plugin that breaks it fails the test with an AssertionError.
"""

from __future__ import annotations

import json
import random

import numpy as np
import numpy.typing as npt

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling import framework
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Rows, row_count
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.configuration.profile_plugins import KnownPlugin
from tonnage.scheduling.decision.scheduling_cycle import Decision
from tonnage.scheduling.engine.profiles import assemble
from tonnage.scheduling.framework import MAX_SCORE, Code, Cycle, FilterPlugin, Narrowing, Plugin, ScorePlugin


def filter_results(plugin: FilterPlugin, cluster: Cluster, pod: Pod) -> dict[str, tuple[str, ...]]:
    """Reasons by node that a filter refuses for a pod. PreFilter is called first if there is one.

    A pod that PreFilter refuses is refused on every node, with the same reasons.
    """
    cycle = Cycle(PodInfo(pod), cluster)
    existing = np.flatnonzero(cluster.exists).tolist()
    left = set(existing)
    if isinstance(plugin, framework.PreFilterPlugin):
        first = plugin.pre_filter(cycle)
        if isinstance(first, Narrowing):
            left &= first.rows
        elif first is not None and first.code is Code.SKIP:
            return {}
        elif first is not None and not first.is_success:
            return {cluster.name(row): first.reasons for row in existing}
    together = _refusals(plugin, cycle, cluster.all_rows)
    for row in existing:
        alone = _refusals(plugin, cycle, slice(row, row + 1))[0]
        assert alone == together[row], f"{cluster.name(row)}: {alone} when asked alone, {together[row]} among others"
    excluded = (f"node(s) didn't satisfy plugin(s) [{plugin.name}]",)
    found = {row: together[row] if row in left else excluded for row in existing}
    return {cluster.name(row): reasons for row, reasons in found.items() if reasons}


def node_scores(plugin: ScorePlugin, cluster: Cluster, pod: Pod) -> dict[str, int]:
    """A plugin's scores for all nodes, normalised and without a weight; {} if PreScore returns SKIP."""
    cycle = Cycle(PodInfo(pod), cluster)
    cycle.passing = cluster.exists[: cluster.size].copy()
    if isinstance(plugin, framework.PreScorePlugin):
        first = plugin.pre_score(cycle)
        if first is not None and first.code is Code.SKIP:
            return {}
        assert first is None or first.is_success, first
    rows = cycle.feasible
    raw = _scores(plugin, cycle, rows)
    assert raw.shape == rows.shape and np.issubdtype(raw.dtype, np.integer), f"{raw!r} for {len(rows)} rows"
    for place, row in enumerate(rows.tolist()):
        alone = _scores(plugin, cycle, np.array([row])).tolist()
        assert alone == [raw[place]], f"{cluster.name(row)}: {alone} when asked alone, {raw[place]} among others"
    scores = plugin.normalize(cycle, raw) if plugin.normalizes else raw
    assert ((scores >= 0) & (scores <= MAX_SCORE)).all(), f"scores are 0 to {MAX_SCORE}, not {scores.tolist()}"
    return {cluster.name(row): int(score) for row, score in zip(rows.tolist(), scores.tolist(), strict=True)}


def decide(cluster: Cluster, pod: Pod, *plugins: type[Plugin], configuration: str = "", seed: int = 0) -> Decision:
    """One decision with these plugins and the default ones: its `node`, or a `diagnosis` with a `message()`.

    `configuration` is the text of a KubeSchedulerConfiguration, whose first profile decides. Without it the plugins are
    enabled at all their extension points, without arguments. `seed` chooses between equally good nodes.
    """
    if not configuration:
        enabled = [{"name": plugin.name} for plugin in plugins]
        profile = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": enabled}}}
        kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        configuration = json.dumps({**kind, "profiles": [profile]})
    known = [KnownPlugin.of(plugin) for plugin in plugins]
    parsed = parse(configuration, source="the test's configuration", known_plugins=known)
    decider = assemble(parsed.profiles[0], random.Random(seed)).decider
    return decider.decide(cluster, PodInfo(pod))


def _refusals(plugin: FilterPlugin, cycle: Cycle, rows: Rows) -> list[tuple[str, ...]]:
    """The reasons against every row; none if it passes."""
    judgement = plugin.filter(cycle, rows)
    if judgement is None:
        return [()] * row_count(rows)
    assert len(judgement.bits) == row_count(rows), f"{len(judgement.bits)} answers for {row_count(rows)} rows"
    return [
        tuple(reason for place, reason in enumerate(judgement.reasons) if bits >> place & 1)
        for bits in judgement.bits.tolist()
    ]


def _scores(plugin: ScorePlugin, cycle: Cycle, rows: npt.NDArray[np.intp]) -> Ints:
    found = plugin.score(cycle, slice(int(rows[0]), int(rows[0]) + 1) if len(rows) == 1 else rows)
    return np.zeros(len(rows), dtype=np.int64) if found is None else found
