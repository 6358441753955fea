"""Every metric of every program: name, type, labels, what it means. Read off the programs' own registries."""

from __future__ import annotations

from typing import Final

from reference import code, table
from reference.metric_catalogue import PROGRAMS, MetricDescription, catalogue

HEAD = """\
# Metrics

Every program shows its metrics at `/metrics`, in Prometheus' text format; [observe](../guides/observe.md) says how to
scrape them, and which of them to look at. Names that Kubernetes has are Kubernetes': dashboards and alerts written for
kube-scheduler, external-provisioner, kubelet and kube-apiserver work. What is only here begins with `tonnage_`, or
with the name that an enhancement proposes. A histogram has the series `_bucket`, `_sum` and `_count`.
Below each name stand its type and its labels.

Every program also shows `process_*` and `python_*`: memory, CPU, open files and garbage collection of its process.
"""

OF_EVERY: Final = ("process_", "python_")
ORIGINS: Final = (
    (("rest_client_", "workqueue_", "leader_election_"), "client-go"),
    (("kubernetes_feature_enabled",), "Kubernetes"),
    (("apiserver_", "authenticat", "authorization_"), "kube-apiserver"),
    (("csi_operations_", "kubelet_"), "kubelet"),
    (("csi_sidecar_operations_",), "CSI sidecars"),
    (("controller_persistentvolume", "csistoragecapacities_"), "external-provisioner"),
    (("csi_node_",), "KEP-4876"),
    (("volume_binding_capacity_reservations_ended", "volume_binding_capacity_held_"), ""),
    (("volume_binding_",), "KEP-5925"),
    (("scheduler_held_nominations", "scheduler_bindings"), ""),
    (("scheduler_",), "kube-scheduler"),
)
"""Whose name it is, by how it begins, the first that fits; nobody's but ours for what is not here."""


def origin_of(name: str) -> str:
    return next((origin for starts, origin in ORIGINS if name.startswith(starts)), "")


def page() -> str:
    found = catalogue()
    shown: dict[str, list[str]] = {}
    for program in PROGRAMS:
        for each in found[program]:
            shown.setdefault(each.name, []).append(program)
    parts = [HEAD]
    several = {each.name: each for program in PROGRAMS for each in found[program] if len(shown[each.name]) > 1}
    parts.append("## Several programs\n")
    parts.append(_table(list(several.values()), shown))
    for program in PROGRAMS:
        own = [each for each in found[program] if shown[each.name] == [program]]
        parts.append(f"\n## tonnage {program}\n")
        parts.append(_table(own))
    return "\n".join(parts)


def _table(metrics: list[MetricDescription], shown: dict[str, list[str]] | None = None) -> str:
    head = ("Metric", "What it means", "Name from", *(("Shown by",) if shown is not None else ()))
    rows: list[tuple[object, ...]] = []
    for each in sorted(metrics, key=lambda each: each.name):
        if each.name.startswith(OF_EVERY):
            continue
        by = f" by {', '.join(map(code, each.labels))}" if each.labels else ""
        more = (", ".join(shown[each.name]),) if shown is not None else ()
        name = f"{code(each.name)}<br>{each.type}{by}"
        rows.append((name, each.help.replace("<", "&lt;"), origin_of(each.name), *more))
    return table(head, rows)
