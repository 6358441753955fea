"""Metrics that are left out, and labels with agreed values."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import generate_latest

from tonnage.metrics import ChosenMetrics


def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    pods = Counter("pods", "Pods.", ["queue", "profile"], registry=made)
    pods.labels("active", "a").inc(1)
    pods.labels("backoff", "a").inc(2)
    pods.labels("gated", "a").inc(4)
    Histogram("seconds", "Time.", ["plugin"], buckets=(1.0,), registry=made).labels("X").observe(0.5)
    return made


def test_a_metric_that_is_disabled_is_not_shown_by_either_of_its_names():
    assert b"pods" not in generate_latest(ChosenMetrics(registry(), disabled=["pods_total"]))
    assert b"pods" not in generate_latest(ChosenMetrics(registry(), disabled=["pods"]))
    assert b"seconds" not in generate_latest(ChosenMetrics(registry(), disabled=["seconds"]))


def test_values_that_are_not_agreed_on_are_added_up():
    shown = generate_latest(
        ChosenMetrics(registry(), allowed={("pods_total", "queue"): frozenset({"active"})})
    ).decode()
    assert 'pods_total{profile="a",queue="active"} 1.0' in shown
    assert 'pods_total{profile="a",queue="unexpected"} 6.0' in shown  # 2 + 4
    assert "backoff" not in shown
    assert 'seconds_bucket{le="1.0",plugin="X"} 1.0' in shown


def test_buckets_of_a_histogram_are_added_up_bucket_by_bucket():
    made = registry()
    shown = generate_latest(ChosenMetrics(made, allowed={("seconds", "plugin"): frozenset()})).decode()
    assert 'seconds_bucket{le="1.0",plugin="unexpected"} 1.0' in shown
    assert 'seconds_count{plugin="unexpected"} 1.0' in shown
