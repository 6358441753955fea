"""Every metric of every program has a good name, a help text, and the same meaning wherever it is shown."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "scripts"))
from reference.metric_catalogue import PROGRAMS, MetricDescription, catalogue, problems_of

CATALOGUE = catalogue()
ALL = [(program, each) for program, found in CATALOGUE.items() for each in found]

KEP_METRICS = {
    # KEP-4049, KEP-5278 and KEP-5925 name them without the subsystem that kube-scheduler puts before them.
    "scheduler_schedule_attempts_total": ("result", "profile"),
    "scheduler_plugin_execution_duration_seconds": ("plugin", "extension_point"),
    "scheduler_pod_scheduling_sli_duration_seconds": (),
    "scheduler_scheduling_attempt_duration_seconds": ("result", "profile"),
    "scheduler_scheduling_algorithm_duration_seconds": (),
    "volume_binding_capacity_reservations_total": (),
    "volume_binding_capacity_reservation_resets_total": (),
    "volume_binding_rescheduling_events_total": (),
    # KEP-4876
    "apiserver_request_total": ("group", "resource", "verb", "code"),
    "apiserver_request_duration_seconds": ("resource", "verb"),
    "csi_node_updates_total": (),
    "csi_node_update_errors_total": (),
    "csi_node_update_duration_seconds": (),
}


@pytest.mark.parametrize(("program", "metric"), ALL, ids=lambda each: getattr(each, "name", each))
def test_a_metric_has_a_good_name_and_a_help_text(program: str, metric: MetricDescription) -> None:
    assert problems_of(metric) == []


def test_every_program_shows_something() -> None:
    assert tuple(CATALOGUE) == PROGRAMS
    assert all(len(found) > 20 for found in CATALOGUE.values())


def test_a_metric_that_several_programs_show_means_the_same_in_all() -> None:
    told: dict[str, set[MetricDescription]] = {}
    for _, each in ALL:
        told.setdefault(each.name, set()).add(each)
    assert {name: found for name, found in told.items() if len(found) > 1} == {}


@pytest.mark.parametrize(("name", "labels"), KEP_METRICS.items())
def test_what_the_enhancements_name_exists_by_that_name(name: str, labels: tuple[str, ...]) -> None:
    (found,) = {each for _, each in ALL if each.name == name}
    assert set(labels) <= set(found.labels)


def test_every_name_in_the_source_is_in_the_catalogue() -> None:
    """A metric that is made where the catalogue does not look would be missing in the reference."""
    known = {each.name.removesuffix("_total") for _, each in ALL}
    made = re.compile(
        r"(?:Counter|Gauge|Histogram|Counter\w*Family|Gauge\w*Family|PluginCounter|gauge|counter|_gauge|_counter)"
        r"\(\s*\"([a-z0-9_]+)\""
    )
    source = Path(__file__).parents[3] / "src" / "tonnage"
    named = {name for path in source.rglob("*.py") for name in made.findall(path.read_text("utf-8"))}
    assert {name for name in named if name.removesuffix("_total") not in known} == set()
