"""The rules of every kind, and the table of their strategies.

A kind's file has its `Strategy` (`documents/strategy.py`): defaults and validation. Defaults change a document in place
and are idempotent: they run whenever a document is decoded, before validation. Rules that several kinds share stand in
`documents/validation`.
"""

from __future__ import annotations

from tonnage.clock import Clock
from tonnage.documents.kinds import (
    config,
    custom_resource_definition,
    event,
    limit_range,
    namespace,
    network_policy,
    node,
    rbac,
    resource_quota,
    runtime_class,
    scheduling_kinds,
    service,
)
from tonnage.documents.kinds.pods import pod
from tonnage.documents.kinds.storage import csi_kinds, persistent_volume, persistent_volume_claim, storage_class
from tonnage.documents.kinds.workloads import cron_job, daemon_set, deployment, job, stateful_set, workload
from tonnage.documents.strategy import Strategy
from tonnage.gates import Gates
from tonnage.objects.resources import RESOURCES

_MODULES = (
    *(config, custom_resource_definition, event, limit_range, namespace, network_policy, node, rbac, resource_quota),
    *(runtime_class, scheduling_kinds, service, pod, csi_kinds, persistent_volume, persistent_volume_claim),
    *(storage_class, cron_job, daemon_set, deployment, job, stateful_set, workload),
)
_BY_NAME = {name: each for module in _MODULES for name, each in vars(module).items() if name.endswith("Strategy")}
"""A kind's strategy is found by name: `PodStrategy` for Pod."""


def strategies(gates: Gates, clock: Clock) -> dict[tuple[str, str], Strategy]:
    """(group, plural) -> the strategy of that resource under these gates."""
    return {(row.group, row.plural): _BY_NAME[f"{row.kind}Strategy"](row, gates, clock) for row in RESOURCES}
