"""Metrics are named and described as Prometheus asks, whoever made them; the rules are those of its own linter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

sys.path.append(str(Path(__file__).parents[3] / "scripts"))
from reference.metric_catalogue import MetricDescription, described, problems_of


def of(name: str, type_: str = "gauge", told: str = "Something.", labels: tuple[str, ...] = ()) -> MetricDescription:
    return MetricDescription(name, type_, told, labels)


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        (of("tonnage_Things"), "a name is lower case letters, digits and underscores"),
        (of("tonnage_things", told=""), "it has no help"),
        (of("tonnage_things", told="things"), "its help is no sentence"),
        (of("tonnage_things", "counter"), "a counter's name ends in _total"),
        (of("tonnage_things_total"), "only a counter's name ends in _total"),
        (of("tonnage_things_count"), "_count, _sum and _bucket are for histograms"),
        (of("tonnage_gauge_things"), "its name has its type in it, gauge"),
        (of("tonnage_wait_milliseconds"), "milliseconds is no base unit; use one of seconds, bytes"),
        (of("tonnage_seconds_waited"), "its unit, seconds, comes last, before _total"),
        (of("tonnage_things", labels=("podName",)), "podName is no name for a label"),
        (of("tonnage_things", labels=("le",)), "le is no name for a label"),
    ],
)
def test_a_bad_name_is_told(metric: MetricDescription, problem: str) -> None:
    assert problems_of(metric) == [problem]


def test_good_names_pass() -> None:
    assert problems_of(of("tonnage_waited_seconds_total", "counter")) == []
    assert problems_of(of("tonnage_wait_duration_seconds", "histogram", labels=("driver_name",))) == []
    assert problems_of(of("python_info", told="Python platform information")) == []


def test_metrics_are_described_before_anything_is_counted() -> None:
    registry = CollectorRegistry()
    Counter("things", "Things.", ("kind",), registry=registry)
    Histogram("waits_seconds", "Waits.", ("kind", "who"), registry=registry)
    Gauge("plain", "Plain.", registry=registry)
    assert described(registry) == [
        MetricDescription("plain", "gauge", "Plain."),
        MetricDescription("things_total", "counter", "Things.", ("kind",)),
        MetricDescription("waits_seconds", "histogram", "Waits.", ("kind", "who")),
    ]
    assert described(registry)[2].series == ("waits_seconds_bucket", "waits_seconds_sum", "waits_seconds_count")
