"""What is counted of an audit log, under kube-apiserver's names. Without an audit log nothing is, as there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from tonnage.apiserver.audit.audit_log import AuditLog

LEVEL = "Metadata"
"""What is written of every request: who, what, and what became of it."""
_PLUGIN = "log"


class AuditMetrics(Collector):
    """Counted when somebody looks; `audit_log` is that of the server, if it keeps one."""

    def __init__(self, audit_log: Callable[[], AuditLog | None]) -> None:
        self._audit_log = audit_log

    def collect(self) -> Iterable[Metric]:
        log = self._audit_log()
        yield CounterMetricFamily(
            "apiserver_audit_event_total", "Lines that the audit log was given.", value=log.events if log else 0
        )
        levels = CounterMetricFamily(
            "apiserver_audit_level_total", "Requests that were audited, by level.", labels=("level",)
        )
        errors = CounterMetricFamily(
            "apiserver_audit_error_total", "Lines that the audit log could not take.", labels=("plugin",)
        )
        if log is not None:
            levels.add_metric((LEVEL,), log.requests)
            errors.add_metric((_PLUGIN,), log.lost)
        yield levels
        yield errors
