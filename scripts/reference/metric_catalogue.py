"""Every metric of every program, known without running one: each program's parts are made on a registry and described.

Nothing is sent anywhere and nothing listens; a temporary folder has the API server's store while it is asked. A test
scrapes the programs of a running cluster and holds what they show against this.

What a registry's metrics are called, and whether they are called as Prometheus and Kubernetes ask for.

    for each in described(registry): each.name, each.type, each.labels, each.help
    problems_of(each)                # [] or what `promtool check metrics` would complain about

Nothing has to have been counted: a metric with labels is described before it has its first value. docs/reference/
metrics.md is written from this, and the dashboard's and the rules' expressions are held against it.
"""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase

from tonnage.apiserver.metrics import AccessMetrics, RequestMetrics, show_audit_log, show_store
from tonnage.client.config.connection import KubeconfigCluster, ServerConnection
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.metrics import RestClientMetrics, show_leadership
from tonnage.client.program import Runtime
from tonnage.clock import VirtualClock
from tonnage.controllers.controller_context import ControllerManagerConfiguration
from tonnage.controllers.program import ControllerManager
from tonnage.csi.client import CsiClient
from tonnage.csi.metrics import sidecar_calls
from tonnage.gates import Gates
from tonnage.metrics import new_registry
from tonnage.node.program import NodeProgram
from tonnage.node.settings import NodeSettings
from tonnage.pools.program import PoolsProgram
from tonnage.pools.settings import PoolsSettings
from tonnage.pools.sources import OF_DRIVERS
from tonnage.provisioner.capacity.controller import CapacityController, CapacitySettings
from tonnage.provisioner.context import ProvisionerOptions
from tonnage.provisioner.metrics import ProvisionerMetrics
from tonnage.provisioner.program import Provisioner
from tonnage.scheduler.program import SchedulerProgram
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.store.store import Store

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


PROGRAMS: Final = ("scheduler", "provisioner", "pools", "node", "controllers", "apiserver")
"""The programs that show metrics, as their commands are called; those of a real cluster first."""
_NOWHERE: Final = "https://127.0.0.1:1"


def catalogue() -> Mapping[str, list[MetricDescription]]:
    """By program, what it shows; by name."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_catalogue(Path(folder)))


async def _catalogue(folder: Path) -> Mapping[str, list[MetricDescription]]:
    registries = {program: new_registry() for program in PROGRAMS}
    clock, rng = VirtualClock(), random.Random(1)
    client = Client.connect(ServerConnection(KubeconfigCluster(_NOWHERE)), clock=clock, rng=rng)
    for program in PROGRAMS[:-1]:
        RestClientMetrics(registries[program])
    for program in ("scheduler", "provisioner", "pools", "controllers"):
        show_leadership(registries[program], tuple)
    runtimes = {name: Runtime(client, clock=clock, rng=rng, registry=each) for name, each in registries.items()}
    SchedulerProgram(runtimes["scheduler"], default_configuration()).engine.open()
    _provisioner(runtimes["provisioner"])
    source, settings = OF_DRIVERS[0], PoolsSettings(drivers=())
    PoolsProgram(client, source, settings, clock=clock, rng=rng, registry=registries["pools"])
    NodeProgram(runtimes["node"], NodeSettings(names=(), root_dir=folder / "nodes"))
    sidecar_calls(registries["controllers"])
    ControllerManager(runtimes["controllers"], ControllerManagerConfiguration())
    RequestMetrics(registries["apiserver"], lambda resource: 0, Gates())
    AccessMetrics(registries["apiserver"], lambda: 0.0)
    show_audit_log(registries["apiserver"], lambda: None)
    store = await Store.open(folder / "store")
    try:
        show_store(registries["apiserver"], store, now=lambda: 0.0, ticks=lambda: 0.0)
        return {program: described(registries[program]) for program in PROGRAMS}
    finally:
        await store.close()
        await client.close()


def _provisioner(runtime: Runtime) -> None:
    client, clock, rng, registry = runtime.client, runtime.clock, runtime.rng, runtime.registry
    metrics = ProvisionerMetrics(registry)
    driver = CsiClient("unix:///nowhere", clock=clock, rng=rng, on_call=metrics.calls)
    Provisioner(runtime, driver, ProvisionerOptions(), metrics=metrics)
    # What a provisioner shows of capacity it shows once it knows its driver.
    settings = CapacitySettings(namespace="default")
    CapacityController(
        client, driver, Informers(client), driver_name="", settings=settings, clock=clock, registry=registry
    )
