"""The command lines of a cluster's programs: where they serve, and how much they log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tonnage.plane.settings import PROGRAMS, SERVING, CommandLines, PlaneSettings

OPEN = "--unauthenticated-on-loopback"


def commands(folder: Path, **options: Any) -> CommandLines:
    settings = PlaneSettings(data_dir=folder, nodes=1, **options)
    return CommandLines(settings, settings.resolved(), folder / "run")


@pytest.mark.parametrize(
    ("program", "flags"),
    [
        (
            "scheduler",
            ["--bind-address", "127.0.0.1", "--secure-port", "20001", "--cert-dir", "{}/tls/scheduler", OPEN],
        ),
        (
            "controllers",
            ["--bind-address", "127.0.0.1", "--secure-port", "20001", "--cert-dir", "{}/tls/controllers", OPEN],
        ),
        ("provisioner", ["--http-endpoint", "127.0.0.1:20001"]),
        ("node", ["--metrics-address", "127.0.0.1:20001"]),
    ],
)
def test_a_program_serves_on_loopback_at_the_port_that_was_chosen(tmp_path, program, flags):
    words = commands(tmp_path).of(program, 20001)
    wanted = [flag.format(tmp_path) for flag in flags]
    at = words.index(wanted[0])
    assert words[at : at + len(wanted)] == wanted


def test_verbosity_reaches_every_program(tmp_path):
    quiet, loud = commands(tmp_path), commands(tmp_path, verbosity=4)
    for program in PROGRAMS:
        port = 20001 if program in SERVING else 0
        assert "--v" not in quiet.of(program, port)
        assert loud.of(program, port)[-2:] == ["--v", "4"]
    assert loud.apiserver(0)[-2:] == ["--v", "4"]


def test_events_are_kept_by_the_server_for_as_long_as_the_cluster_was_told(tmp_path):
    command = commands(tmp_path, event_ttl_s=90.5).apiserver(0)
    assert command[command.index("--event-ttl") + 1] == "90.5s"


def test_the_dashboard_is_served_on_loopback_with_an_identity_of_its_own_and_a_kept_token(tmp_path):
    words = commands(tmp_path, dashboard=True).dashboard(8080)
    assert words == [
        *("dashboard", "--kubeconfig", f"{tmp_path}/identities/dashboard.kubeconfig"),
        *("--data-dir", str(tmp_path), "--bind", "127.0.0.1", "--port", "8080"),
        *("--token-file", f"{tmp_path}/dashboard.token"),
    ]
