"""tonnage_store_*: how large the store is, whether it can write, what of it is damaged. Read when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tonnage.store import Store, kind_of

_MAX_NAMED = 20
"""Damaged rows named by labels: a label a row is only bearable while there are few."""
_ERRORS = ("full", "io", "corrupt", "locked", "read-only", "stalled")


class StoreMetrics(Collector):
    """`now` is the wall clock in seconds, `ticks` the clock of the store's health."""

    def __init__(self, store: Store, *, now: Callable[[], float], ticks: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._ticks = ticks

    def collect(self) -> Iterable[Metric]:
        store, health = self._store, self._store.health
        sizes = GaugeMetricFamily("tonnage_store_file_bytes", "Size of the store's files.", labels=("file",))
        for name, suffix in (("log", ""), ("wal", "-wal")):
            sizes.add_metric((name,), _size(store.path.with_name(store.path.name + suffix)))
        sizes.add_metric(("reserve",), _size(store.folder / "reserve"))
        yield sizes
        yield _gauge("tonnage_store_history_bytes", "Superseded documents and tombstones kept.", store.history_bytes)
        yield _gauge("tonnage_store_revision", "The newest revision.", store.revision)
        yield _gauge("tonnage_store_compacted_revision", "History up to here is gone.", store.compacted)
        yield _gauge("tonnage_store_writable", "1 while writes work, 0 while they fail.", health.problem is None)
        errors = CounterMetricFamily("tonnage_store_errors", "Failed attempts to write, by kind.", labels=("kind",))
        for kind in _ERRORS:
            errors.add_metric((kind,), health.errors[kind])
        yield errors
        last = GaugeMetricFamily(
            "tonnage_store_last_error_timestamp_seconds", "When the last attempt to write failed.", labels=("kind",)
        )
        if health.last_error is not None:
            last.add_metric((kind_of(health.last_error),), self._now() - (self._ticks() - health.last_error_at))
        yield last
        yield _gauge("tonnage_store_damaged_rows", "Rows that are damaged or missing.", health.damage_count)
        rows = GaugeMetricFamily(
            "tonnage_store_damaged_row", "A damaged row; the first of them only.", labels=("key", "revision")
        )
        for each in health.damage[:_MAX_NAMED]:
            rows.add_metric((repr(each.key)[1:-1], str(each.revision)), 1)
        yield rows


def _gauge(name: str, told: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, told)
    family.add_metric((), float(value))
    return family


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
