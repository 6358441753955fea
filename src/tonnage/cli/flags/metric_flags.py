"""Flags about which metrics are shown, as component-base has them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import click

from tonnage.cli.flags.go_flags import FILE, texts
from tonnage.errors import TonnageError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

F = TypeVar("F", bound=Callable[..., Any])
Allowed = dict[tuple[str, str], frozenset[str]]

_PREVIOUS: Final = "1.35"
"""The release before the one whose behaviour we follow: upstream allows no other value."""


class MetricFlags(TypedDict):
    """As click hands them over."""

    disabled_metrics: tuple[str, ...]
    allow_metric_labels: tuple[str, ...]
    allow_metric_labels_manifest: Path | None


def _hidden(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value and value != _PREVIOUS:
        raise click.UsageError(
            f"--show-hidden-metrics-for-version must be omitted or have the value '{_PREVIOUS}'. Only the previous "
            "minor version is allowed",
            ctx,
        )


_OPTIONS = (
    texts("--disabled-metrics", help="Metrics that are not shown, by their whole names."),
    click.option(
        "--allow-metric-labels",
        multiple=True,
        metavar="METRIC,LABEL=A,B",
        help="Values of a label that are shown; others become `unexpected`.",
    ),
    click.option(
        "--allow-metric-labels-manifest",
        type=FILE,
        help="The same from a file, under allowListMapping.",
    ),
    # No metric of ours is hidden, so that there is nothing to show beside the others.
    click.option("--show-hidden-metrics-for-version", default=None, callback=_hidden, expose_value=False, hidden=True),
)


def metric_options(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen(flags: MetricFlags, registry: CollectorRegistry) -> CollectorRegistry:
    """The registry as the flags want it seen. Raises UsageError, TonnageError."""
    from tonnage.metrics import ChosenMetrics

    allowed = allowed_labels(flags)
    if not flags["disabled_metrics"] and not allowed:
        return registry
    return ChosenMetrics(registry, disabled=flags["disabled_metrics"], allowed=allowed)


def allowed_labels(flags: MetricFlags) -> Allowed:
    """Agreed values by metric and label; flags count before the file. Raises UsageError, TonnageError."""
    pairs: dict[str, str] = {}
    for given in flags["allow_metric_labels"]:
        # pflag's StringToString: one pair as it stands, several as fields of a line of CSV.
        for pair in [given] if given.count("=") == 1 else next(csv.reader([given]), []):
            key, equals, values = pair.strip().partition("=")
            if not equals:
                raise click.UsageError(f'--allow-metric-labels: "{pair}" is not METRIC,LABEL=VALUE,VALUE')
            pairs[key] = values.strip("'")
    path = flags["allow_metric_labels_manifest"]
    if path is not None and not pairs:
        pairs = dict(_manifest(path))
    allowed: Allowed = {}
    for key, values in pairs.items():
        metric, comma, label = key.strip().partition(",")
        if not comma or not metric or not label or "," in label:
            raise click.UsageError(f'--allow-metric-labels: "{key}" is not METRIC,LABEL')
        allowed[metric, label] = frozenset(values.split(","))
    return allowed


def _manifest(path: Path) -> Mapping[str, str]:
    from tonnage.objects.texts.yaml_text import documents

    try:
        found = next((each.value for each in documents(path.read_text(encoding="utf-8"))), None)
    except (OSError, UnicodeDecodeError) as exc:
        raise TonnageError(f"{path} cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc
    mapping = found.get("allowListMapping", found) if isinstance(found, dict) else None
    if not isinstance(mapping, dict) or not all(isinstance(each, str) for each in mapping.values()):
        raise TonnageError(
            f"{path} says nothing about labels", hint='write allowListMapping: {"metric,label": "value,value"}'
        )
    return mapping
