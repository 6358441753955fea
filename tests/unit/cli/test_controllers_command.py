"""The flags of `tonnage controllers`, and durations as all commands take them."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from tonnage.cli.controllers import controllers
from tonnage.cli.output import DURATION


@pytest.mark.parametrize(
    ("text", "seconds"), [("50s", 50.0), ("1m30s", 90.0), ("500ms", 0.5), ("0", 0.0), ("1.5h", 5400.0)]
)
def test_a_duration_is_read_as_go_reads_it(text: str, seconds: float) -> None:
    assert DURATION.convert(text, None, None) == seconds


def test_a_default_that_is_seconds_already_stays() -> None:
    assert DURATION.convert(5, None, None) == 5.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("50", '"50" is not a duration; write it like "50s", "1m30s" or "500ms"'),
        ("soon", '"soon" is not a duration; write it like "50s", "1m30s" or "500ms"'),
        ("-5s", '"-5s" is negative'),
    ],
)
def test_what_is_no_duration_is_refused(text: str, told: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        DURATION.convert(text, None, None)
    assert caught.value.message == told


def test_an_unknown_controller_is_wrong_usage() -> None:
    answer = CliRunner().invoke(controllers, ["--controllers", "*,-garbagecollectr"])
    assert answer.exit_code == 2
    told = 'Invalid value for --controllers: "garbagecollectr" is not in the list of known controllers'
    assert f"{told}; did you mean garbagecollector?" in answer.output.replace("\n", " ")


def test_defaults_are_those_of_kube_controller_manager() -> None:
    defaults = {parameter.opts[0]: parameter.default for parameter in controllers.params}
    assert {name: defaults[name] for name in ("--node-monitor-period", "--node-monitor-grace-period")} == {
        "--node-monitor-period": "5s",
        "--node-monitor-grace-period": "50s",
    }
    assert (defaults["--terminated-pod-gc-threshold"], defaults["--secure-port"]) == (12500, 10257)
