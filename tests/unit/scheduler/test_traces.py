"""Traces of pods: which spans there are from queue to binding, what they say, and that nothing leaks or slows down."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from scheduler_volume_rig import SchedulerRig

from tonnage.errors import Conflict, TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.scheduler import pod_traces
from tonnage.scheduler.open_telemetry import (
    InvalidTracingConfiguration,
    TracingConfiguration,
    load,
    open_tracer,
    parse,
)
from tonnage.scheduler.pod_traces import Attributes, PodTraces
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"


@dataclass
class KeptSpan:
    """A span in memory; `story` has all that ended."""

    story: list[KeptSpan]
    name: str
    start_s: float
    attributes: dict[str, Any]
    parent: KeptSpan | None = None
    end_s: float | None = None
    error: str = ""
    is_recording: bool = True

    def child(self, name: str, start_s: float, attributes: Attributes) -> KeptSpan:
        return KeptSpan(self.story, name, start_s, dict(attributes), self)

    def end(self, end_s: float, attributes: Attributes | None = None, error: str = "") -> None:
        assert self.end_s is None, "a span ends once"
        self.attributes |= attributes or {}
        self.end_s, self.error = end_s, error
        self.story.append(self)

    @property
    def path(self) -> str:
        return self.name if self.parent is None else f"{self.parent.path}/{self.name}"


@dataclass
class KeptTraces:
    """A tracer in memory."""

    story: list[KeptSpan] = field(default_factory=list)
    is_sampled: bool = True
    is_closed: bool = False

    def start(self, name: str, start_s: float, attributes: Attributes) -> KeptSpan:
        return KeptSpan(self.story, name, start_s, dict(attributes), is_recording=self.is_sampled)

    def close(self) -> None:
        self.is_closed = True

    def ended(self, path: str) -> list[KeptSpan]:
        return [each for each in self.story if each.path == path]


def traced(*objects: Any, **options: Any) -> tuple[SchedulerRig, KeptTraces, PodTraces]:
    tracer = KeptTraces()
    rig = SchedulerRig(*objects, traces_of=lambda clock: PodTraces(cast(Any, tracer), clock), **options)
    return rig, tracer, rig.traces


async def test_a_pod_is_followed_from_the_queue_to_its_binding() -> None:
    rig, tracer, traces = traced(driver(), storage_class(), node("a"), capacity(node="a", free="100Gi"))
    rig.add(claim("data", "20Gi"), pod_with("web", "data"))
    began_s = rig.clock.now().timestamp()
    async with rig.running():
        await rig.settle(30.0)  # the provisioner takes half a minute
        rig.provision("data")
        await rig.settle()
    assert sorted(each.path for each in tracer.story) == [
        "schedule pod",
        "schedule pod/attempt",
        "schedule pod/attempt/decide",
        "schedule pod/attempt/reserve",
        "schedule pod/bind",
        "schedule pod/bind/permit",
        "schedule pod/bind/prebind",
        "schedule pod/queue",
    ]
    (root,) = tracer.ended("schedule pod")
    assert root.attributes == {
        "k8s.pod.name": "web",
        "k8s.pod.uid": "default-web",
        "k8s.namespace.name": "default",
        "tonnage.scheduler.name": "default-scheduler",
        "k8s.node.name": "a",
    }
    assert (root.start_s, root.end_s) == (began_s, began_s + 30.0)
    (prebind,) = tracer.ended("schedule pod/bind/prebind")
    assert prebind.end_s is not None and prebind.end_s - prebind.start_s == 30.0
    (attempt,) = tracer.ended("schedule pod/attempt")
    assert attempt.attributes["tonnage.result"] == "scheduled" and attempt.attributes["tonnage.nodes"] == 1
    assert len(traces) == 0


async def test_an_attempt_that_finds_no_node_says_who_refused_how_many() -> None:
    rig, tracer, traces = traced(node("a", cpu="1"), node("b", cpu="1"), node("c", taints=("k=v:NoSchedule",)))
    rig.add(pod("big", cpu="2"))
    async with rig.running():
        await rig.settle()
    (attempt,) = tracer.ended("schedule pod/attempt")
    told = attempt.attributes
    assert (told["tonnage.result"], told["tonnage.nodes"]) == ("unschedulable", 3)
    assert (told["tonnage.rejected.NodeResourcesFit"], told["tonnage.rejected.TaintToleration"]) == (2, 1)
    assert told["tonnage.message"].startswith("0/3 nodes are available: ")
    assert len(traces) == 1  # it is waited for
    rig.delete(Pod, "default/big")
    (root,) = tracer.ended("schedule pod")
    assert root.error and len(traces) == 0


async def test_a_binding_that_fails_is_an_error_and_the_trace_goes_on() -> None:
    rig, tracer, traces = traced(node("a"))
    rig.refuse.append(Conflict("somebody was faster"))
    rig.add(pod("web"))
    async with rig.running():
        await rig.settle(20.0)
    first, second = tracer.ended("schedule pod/bind")
    assert "somebody was faster" in first.error and second.error == ""
    (root,) = tracer.ended("schedule pod")
    assert root.error == "" and len(tracer.ended("schedule pod/attempt")) == 2 and len(traces) == 0


async def test_for_a_pod_that_is_not_sampled_nothing_is_worked_out() -> None:
    rig, tracer, traces = traced(node("a"))
    tracer.is_sampled = False
    rig.add(pod("web"))
    async with rig.running():
        await rig.settle()
    assert [each.path for each in tracer.story] == ["schedule pod"] and len(traces) == 0


async def test_open_traces_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_traces, "MOST_PODS", 3)
    rig, tracer, traces = traced(node("a", cpu="1"))
    rig.add(*(pod(f"big-{i}", cpu="2") for i in range(5)))
    async with rig.running():
        await rig.settle()
    assert len(traces) == 3
    assert [each.error for each in tracer.ended("schedule pod")] == ["too many traces are open"] * 2
    traces.close()
    assert tracer.is_closed and len(traces) == 0


def test_names_and_messages_are_cut() -> None:
    assert len(pod_traces._name("x" * 1000)) == 253 and len(pod_traces._message("x" * 9000)) == 1024


# -- the file ---------------------------------------------------------------------------------------------------------


def test_a_tracing_configuration_is_read_as_kubernetes_has_it() -> None:
    assert parse(HEAD) == TracingConfiguration("localhost:4317", 0)
    found = parse(HEAD + "endpoint: 10.0.0.1:4317\nsamplingRatePerMillion: 250000\n")
    assert found == TracingConfiguration("10.0.0.1:4317", 250_000) and found.ratio == 0.25
    assert parse(HEAD.replace("/v1\n", "/v1beta1\n")).endpoint == "localhost:4317"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a TracingConfiguration, found no map"),
        ("kind: Pod\napiVersion: v1\n", "expected a TracingConfiguration, found v1 Pod"),
        (HEAD + "samplingRate: 5\n", 'unknown field "samplingRate"'),
        (HEAD + "samplingRatePerMillion: -1\n", "samplingRatePerMillion: -1 is not a number of pods in a million"),
        (HEAD + "samplingRatePerMillion: 1000001\n", "samplingRatePerMillion: 1000001 is not a number"),
        (HEAD + "endpoint: http://x:4318\n", "unsupported scheme: http"),
        (HEAD + "endpoint: 7\n", "endpoint: 7 is not an address"),
        ("a: [\n", "yaml: "),
    ],
)
def test_what_is_wrong_with_a_tracing_configuration_is_told(text: str, message: str) -> None:
    with pytest.raises(InvalidTracingConfiguration) as caught:
        parse(text)
    assert message in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidTracingConfiguration) as caught:
        load(tmp_path / "tracing.yaml")
    assert caught.value.message == f"{tmp_path}/tracing.yaml: No such file or directory"


# -- the library ------------------------------------------------------------------------------------------------------


def test_without_the_library_the_flag_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(TonnageError) as caught:
        open_tracer(TracingConfiguration(), service="tonnage-scheduler", version="1")
    assert caught.value.hint == "pip install 'tonnage[tracing]'"


@pytest.mark.process
def test_without_the_flag_the_library_is_not_loaded() -> None:
    asked = "import tonnage.cli.scheduler, sys; print([each for each in sys.modules if 'opentelemetry' in each])"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_with_the_library_spans_reach_the_exporter_as_one_trace() -> None:
    in_memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = in_memory.InMemorySpanExporter()
    everything = TracingConfiguration(sampling_rate_per_million=1_000_000)
    tracer = open_tracer(everything, service="tonnage-scheduler", version="1", exporter=exporter)
    root = tracer.start("schedule pod", 100.0, {"k8s.pod.name": "web"})
    assert root.is_recording
    root.child("attempt", 101.0, {"tonnage.nodes": 3}).end(102.0, {"tonnage.result": "error"}, "refused")
    root.end(110.0)
    tracer.close()
    attempt, whole = exporter.get_finished_spans()
    assert (whole.name, whole.start_time, whole.end_time) == ("schedule pod", 100 * 10**9, 110 * 10**9)
    assert attempt.parent.span_id == whole.context.span_id and attempt.context.trace_id == whole.context.trace_id
    assert dict(attempt.attributes) == {"tonnage.nodes": 3, "tonnage.result": "error"}
    assert attempt.status.description == "refused"
    assert whole.resource.attributes["service.name"] == "tonnage-scheduler"


def test_nothing_is_sampled_by_default() -> None:
    in_memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = in_memory.InMemorySpanExporter()
    tracer = open_tracer(TracingConfiguration(), service="tonnage-scheduler", version="1", exporter=exporter)
    root = tracer.start("schedule pod", 100.0, {})
    assert not root.is_recording
    root.end(110.0)
    tracer.close()
    assert exporter.get_finished_spans() == ()
