"""Spans sent to a collector by OpenTelemetry's own library, OTLP over gRPC. Imported only when traces are asked for.

The library samples (a share of all pods, by trace), batches, and drops what a slow collector does not take: scheduling
never waits for it. `exporter` is for tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from tonnage.errors import TonnageError
from tonnage.scheduler.tracing.configuration import TracingConfiguration
from tonnage.scheduler.tracing.tracer import Attributes, Span, Tracer

_NS: Final = 1_000_000_000
_SEND_S: Final = 3
"""How long a batch may take to be sent, tries included."""
_CLOSE_MS: Final = 3_000


class TracingNotInstalled(TonnageError):
    """Traces were asked for, and the library is not there."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"--tracing-config-file needs OpenTelemetry, and {missing} is not installed",
            hint="pip install 'tonnage[tracing]'",
        )


def open_tracer(configuration: TracingConfiguration, *, service: str, version: str, exporter: Any = None) -> Tracer:
    """Raises TracingNotInstalled."""
    try:
        trace, sdk = import_module("opentelemetry.trace"), import_module("opentelemetry.sdk.trace")
        context, resources = import_module("opentelemetry.context"), import_module("opentelemetry.sdk.resources")
        sampling, export = import_module(f"{sdk.__name__}.sampling"), import_module(f"{sdk.__name__}.export")
        if exporter is None:
            otlp = import_module("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
            exporter = otlp.OTLPSpanExporter(endpoint=configuration.endpoint, insecure=True, timeout=_SEND_S)
    except ImportError as exc:
        raise TracingNotInstalled(exc.name or str(exc)) from exc
    provider = sdk.TracerProvider(
        sampler=sampling.ParentBased(sampling.TraceIdRatioBased(configuration.ratio)),
        resource=resources.Resource.create({"service.name": service, "service.version": version}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(export.BatchSpanProcessor(exporter))
    return _Tracer(provider, _Library(provider.get_tracer("tonnage", version), trace, context.Context()))


@dataclass(frozen=True, slots=True)
class _Library:
    """What is used of the library; without stubs of its own here, because it need not be there."""

    tracer: Any
    trace: Any
    nobody: Any
    """The context of a span that is nobody's child."""


class _Tracer:
    def __init__(self, provider: Any, library: _Library) -> None:
        self._provider = provider
        self._library = library

    def start(self, name: str, start_s: float, attributes: Attributes) -> Span:
        library = self._library
        made = library.tracer.start_span(
            name, context=library.nobody, start_time=_ns(start_s), attributes=dict(attributes)
        )
        return _Span(library, made)

    def close(self) -> None:
        self._provider.force_flush(_CLOSE_MS)
        self._provider.shutdown()


class _Span:
    def __init__(self, library: _Library, span: Any) -> None:
        self._library = library
        self._span = span

    @property
    def is_recording(self) -> bool:
        return bool(self._span.is_recording())

    def child(self, name: str, start_s: float, attributes: Attributes) -> Span:
        library = self._library
        context = library.trace.set_span_in_context(self._span)
        made = library.tracer.start_span(name, context=context, start_time=_ns(start_s), attributes=dict(attributes))
        return _Span(library, made)

    def end(self, end_s: float, attributes: Attributes | None = None, error: str = "") -> None:
        if attributes:
            self._span.set_attributes(dict(attributes))
        if error:
            self._span.set_status(self._library.trace.StatusCode.ERROR, error)
        self._span.end(end_time=_ns(end_s))


def _ns(at_s: float) -> int:
    return int(at_s * _NS)
