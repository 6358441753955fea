"""What a registry's metrics are called, and whether they are called as Prometheus and Kubernetes ask for.

    for each in described(registry): each.name, each.type, each.labels, each.help
    problems_of(each)                # [] or what `promtool check metrics` would complain about

Nothing has to have been counted: a metric with labels is described before it has its first value. docs/reference/
metrics.md is written from this, and the dashboard's and the rules' expressions are held against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_BASE_UNITS: Final = ("seconds", "bytes", "ratio", "celsius", "meters", "volts", "amperes", "joules", "grams")
_OTHER_UNITS: Final = (
    "milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "days", "weeks", "kilobytes", "megabytes",
    "gigabytes", "terabytes", "kibibytes", "mebibytes", "gibibytes", "tebibytes", "bits", "percent", "ms", "us", "ns",
    "sec", "secs", "mb", "gb", "kb", "gib", "mib",
)  # fmt: skip
_IN_OTHERS_WORDS: Final = ("python_", "process_", "csi_operations_", "csi_sidecar_operations_")
"""What the client library shows of every program; and what is described in upstream's words, as it is there."""
_TYPES: Final = ("counter", "gauge", "histogram", "summary")
_SUFFIXES: Final = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}


@dataclass(frozen=True, slots=True)
class MetricDescription:
    """One metric as it is shown: a counter's name ends in `_total`, a histogram's is that of its series without `_sum`,
    `_count` and `_bucket`."""

    name: str
    type: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """The names by which expressions can ask for it."""
        return tuple(self.name + suffix for suffix in _SUFFIXES.get(self.type, ("",)))


def described(registry: CollectorRegistry) -> list[MetricDescription]:
    """All metrics of a registry, by name."""
    found = {each.name: each for collector in _collectors(registry) for each in _described(collector)}
    return [found[name] for name in sorted(found)]


def _collectors(registry: CollectorRegistry) -> list[Any]:
    # The library has no public way to list collectors; what it shows of one without values lacks its labels.
    return list(registry._collector_to_names)


def _described(collector: Any) -> Iterator[MetricDescription]:
    if isinstance(collector, MetricWrapperBase):
        labels = tuple(collector._labelnames)
        yield _description(collector._name, collector._type or "untyped", collector._documentation, labels)
        return
    for family in collector.collect():
        yield _description(family.name, family.type, family.documentation, _labels_of(family))


def _labels_of(family: Metric) -> tuple[str, ...]:
    told = getattr(family, "_labelnames", None)
    if told:
        return tuple(told)
    return tuple(dict.fromkeys(label for sample in family.samples for label in sample.labels))


def _description(name: str, type_: str, told: str, labels: tuple[str, ...]) -> MetricDescription:
    if type_ == "counter":
        name = f"{name.removesuffix('_total')}_total"
    elif type_ == "info":
        name, type_ = f"{name.removesuffix('_info')}_info", "gauge"
    elif type_ == "unknown":
        type_ = "untyped"
    return MetricDescription(name, type_, " ".join(told.split()), labels)


def problems_of(metric: MetricDescription) -> list[str]:
    """What is wrong with a metric's name, help or labels; the rules of Prometheus' own linter (promlint)."""
    name, words = metric.name, metric.name.split("_")
    found = []
    if not _NAME.fullmatch(name):
        found.append("a name is lower case letters, digits and underscores")
    if not metric.help:
        found.append("it has no help")
    elif not name.startswith(_IN_OTHERS_WORDS) and (metric.help[0].islower() or not metric.help.endswith(".")):
        found.append("its help is no sentence")
    if metric.type == "counter" and not name.endswith("_total"):
        found.append("a counter's name ends in _total")
    if metric.type != "counter" and name.endswith("_total"):
        found.append("only a counter's name ends in _total")
    if metric.type not in _SUFFIXES and name.endswith(("_count", "_sum", "_bucket")):
        found.append("_count, _sum and _bucket are for histograms")
    found += [f"its name has its type in it, {word}" for word in words if word in _TYPES]
    found += [f"{word} is no base unit; use one of seconds, bytes" for word in words if word in _OTHER_UNITS]
    unit = next((word for word in reversed(words) if word in _BASE_UNITS), "")
    if unit and not name.removesuffix("_total").endswith(f"_{unit}"):
        found.append(f"its unit, {unit}, comes last, before _total")
    for label in metric.labels:
        if not _NAME.fullmatch(label) or label in ("le", "quantile") or label.startswith("__"):
            found.append(f"{label} is no name for a label")
    return found
