"""Sends spans to a collector with OpenTelemetry's library, OTLP over gRPC. It is imported only if traces are wanted.

The library samples a share of all pods, batches, and drops what a slow collector does not accept: scheduling never
waits for it. `exporter` is for tests.

A TracingConfiguration is Kubernetes' file for the target and the number of traces:

    apiVersion: apiserver.config.k8s.io/v1
    kind: TracingConfiguration
    endpoint: 127.0.0.1:4317            # OTLP over gRPC, without TLS; the default is localhost:4317
    samplingRatePerMillion: 10000       # of a million pods so many; the default is none

Mirrors component-base/tracing/api/v1: names, defaults and rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tonnage.errors import TonnageError, did_you_mean
from tonnage.scheduler.pod_traces import Tracer
from tonnage.scheduling.configuration.strict_decoding import Problem, document_of

KIND: Final = "TracingConfiguration"
VERSIONS: Final = tuple(f"apiserver.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
DEFAULT_ENDPOINT: Final = "localhost:4317"
MILLION: Final = 1_000_000
_FIELDS: Final = ("apiVersion", "kind", "endpoint", "samplingRatePerMillion")
_SCHEMES: Final = ("dns", "unix", "unix-abstract")


class InvalidTracingConfiguration(TonnageError):
    """A file that is no TracingConfiguration, or has invalid values."""


@dataclass(frozen=True, slots=True)
class TracingConfiguration:
    endpoint: str = DEFAULT_ENDPOINT
    sampling_rate_per_million: int = 0

    @property
    def ratio(self) -> float:
        return self.sampling_rate_per_million / MILLION


def load(path: Path) -> TracingConfiguration:
    """Raises InvalidTracingConfiguration, which names the file."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidTracingConfiguration(f"{path}: {getattr(exc, 'strerror', None) or exc}") from exc
    try:
        return parse(text)
    except InvalidTracingConfiguration as exc:
        raise InvalidTracingConfiguration(f"{path}: {exc.message}", hint=exc.hint) from exc


def parse(text: str) -> TracingConfiguration:
    """Parse strictly: unknown fields are an error."""
    document = _document(text)
    for name in document:
        if name not in _FIELDS:
            hint = did_you_mean(name, _FIELDS) or f"it has {', '.join(_FIELDS)}"
            raise InvalidTracingConfiguration(f'unknown field "{name}"', hint=hint)
    if document.get("kind") != KIND or document.get("apiVersion") not in VERSIONS:
        found = f"{document.get('apiVersion', '')} {document.get('kind', '')}".strip() or "no kind"
        raise InvalidTracingConfiguration(
            f"expected a {KIND}, found {found}", hint=f"begin with apiVersion: {VERSIONS[0]} and kind: {KIND}"
        )
    endpoint, rate = document.get("endpoint"), document.get("samplingRatePerMillion")
    return TracingConfiguration(
        DEFAULT_ENDPOINT if endpoint is None else _endpoint(endpoint), 0 if rate is None else _rate(rate)
    )


def _document(text: str) -> dict[str, Any]:
    problems: list[Problem] = []
    found = document_of(text, problems, [])
    for problem in problems:
        raise InvalidTracingConfiguration(problem.message, hint=problem.remedy)
    if not isinstance(found, dict):
        raise InvalidTracingConfiguration(f"expected a {KIND}, found no map")
    return found


def _endpoint(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidTracingConfiguration(
            f"endpoint: {value!r} is not an address", hint="write host:port, such as 127.0.0.1:4317"
        )
    scheme = value.partition("://")[0] if "://" in value else "dns"
    if scheme not in _SCHEMES:
        raise InvalidTracingConfiguration(
            f"endpoint: {value!r}: unsupported scheme: {scheme}. Options are none, dns, unix, or unix-abstract",
            hint="traces go by OTLP over gRPC: write host:port",
        )
    return value


def _rate(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MILLION:
        raise InvalidTracingConfiguration(
            f"samplingRatePerMillion: {value!r} is not a number of pods in a million", hint="write 0 to 1000000"
        )
    return value


_SEND_S: Final = 3
"""The longest time to send a batch, with retries."""


def open_tracer(configuration: TracingConfiguration, *, service: str, version: str, exporter: Any = None) -> Tracer:
    """Raises TonnageError if the library is not installed."""
    try:
        trace, sdk = import_module("opentelemetry.trace"), import_module("opentelemetry.sdk.trace")
        context, resources = import_module("opentelemetry.context"), import_module("opentelemetry.sdk.resources")
        sampling, export = import_module(f"{sdk.__name__}.sampling"), import_module(f"{sdk.__name__}.export")
        if exporter is None:
            otlp = import_module("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
            exporter = otlp.OTLPSpanExporter(endpoint=configuration.endpoint, insecure=True, timeout=_SEND_S)
    except ImportError as exc:
        raise TonnageError(
            f"--tracing-config-file needs OpenTelemetry, and {exc.name or exc} is not installed",
            hint="pip install 'tonnage[tracing]'",
        ) from exc
    provider = sdk.TracerProvider(
        sampler=sampling.ParentBased(sampling.TraceIdRatioBased(configuration.ratio)),
        resource=resources.Resource.create({"service.name": service, "service.version": version}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(export.BatchSpanProcessor(exporter))
    return Tracer(provider, provider.get_tracer("tonnage", version), trace, context.Context())
