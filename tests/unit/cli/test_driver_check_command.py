"""`tonnage driver-check` as it is asked: flags, and a driver that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tonnage.cli.driver_check import driver_check
from tonnage.csi.errors import CsiError
from tonnage.driver_check.settings import UnreadableSecrets

THERE = ["--csi-address", "unix:///nowhere/csi.sock"]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "Missing option '--csi-address'"),
        (["--csi-address", "nowhere"], "not an address of a CSI driver"),
        ([*THERE, "--topology", "zone"], '"zone" is not KEY=VALUE'),
        ([*THERE, "--parameters", "a=1,a=2"], '"a" is given twice'),
        ([*THERE, "--size", "ten"], '"ten"'),
        ([*THERE, "--size", "0"], '"0" must be more than 0'),
        ([*THERE, "--timeout", "0s"], "leaves no time"),
        ([*THERE, "--most-volumes", "0"], "--most-volumes"),
        ([*THERE, "-o", "xml"], "xml"),
    ],
)
def test_wrong_usage_is_told(flags: list[str], told: str):
    answer = CliRunner().invoke(driver_check, flags)
    assert answer.exit_code == 2 and told in answer.output


def test_a_driver_that_is_not_there_is_a_failure_and_no_finding(tmp_path: Path):
    flags = ["--csi-address", f"unix://{tmp_path}/csi.sock", "--timeout", "200ms"]
    answer = CliRunner().invoke(driver_check, flags)
    assert isinstance(answer.exception, CsiError) and answer.exception.hint is not None
    assert answer.output == ""


def test_secrets_are_read_before_anything_is_asked_and_never_shown(tmp_path: Path):
    file = tmp_path / "secrets.yaml"
    file.write_text("CreateVolumeSecret: hush")
    file.chmod(0o600)
    answer = CliRunner().invoke(driver_check, [*THERE, "--secrets-file", str(file)])
    assert isinstance(answer.exception, UnreadableSecrets)
    assert "hush" not in str(answer.exception.message)
