"""Switches and durations of every program may be written as Kubernetes' programs have them."""

from __future__ import annotations

import click
import pytest

from tonnage.cli.controllers import controllers
from tonnage.cli.csi_driver import csi_driver
from tonnage.cli.pools import pools
from tonnage.cli.provisioner import provisioner
from tonnage.cli.scheduler import scheduler

DRIVER = ["--endpoint=unix:///x", "--node-id=n", "--pools=1Gi", "--state-dir=s"]
SWITCHES = [
    (scheduler, "leader-elect", []),
    (scheduler, "profiling", []),
    (scheduler, "authentication-skip-lookup", []),
    (controllers, "leader-elect", []),
    (controllers, "profiling", []),
    (controllers, "disable-attach-detach-reconcile-sync", []),
    (controllers, "disable-force-detach-on-timeout", []),
    (provisioner, "leader-election", []),
    (provisioner, "strict-topology", []),
    (provisioner, "enable-capacity", []),
    (pools, "leader-elect", []),
    (pools, "set-pool-policy", []),
    (pools, "set-capacity-groups", []),
    (csi_driver, "rebuild", DRIVER),
    (csi_driver, "report-pools", DRIVER),
]


@pytest.mark.parametrize(("command", "name", "beside"), SWITCHES, ids=lambda each: getattr(each, "name", each))
def test_a_switch_is_read_in_every_form(command: click.Command, name: str, beside: list[str]):
    (parameter,) = (each for each in command.params if f"--{name}" in each.opts)

    def read(*words: str) -> object:
        return command.make_context("x", [*words, *beside]).params[parameter.name]

    assert [read(f"--{name}"), read(f"--{name}=true"), read(f"--{name}=1"), read(f"--{name}", "true")] == [True] * 4
    assert [read(f"--{name}=false"), read(f"--no-{name}"), read(f"--{name}=F")] == [False] * 3
    assert read(f"--{name.replace('-', '_')}=false") is False
    assert read(f"--no-{name}", f"--{name}") is True
    with pytest.raises(click.UsageError):
        read(f"--{name}=perhaps")


def test_controllers_have_the_endpoint_and_the_lease_of_kube_controller_manager():
    given = controllers.make_context(
        "x",
        [
            "--leader-elect=true",
            "--leader-elect-lease-duration=1m30s",
            "--leader-elect-resource-name=mine",
            "--authentication-kubeconfig=a",
            "--authorization-always-allow-paths=/healthz,/metrics",
            "--tls-min-version=VersionTLS13",
            "-v=4",
        ],
    ).params
    assert (given["leader_elect_lease_duration"], given["leader_elect_resource_name"]) == (90.0, "mine")
    assert given["open_paths"] == ("/healthz", "/metrics")
    assert given["verbosity"] == 4


def test_wrong_times_of_a_lease_are_told_before_anything_starts():
    with pytest.raises(click.UsageError, match="must be greater than renewDeadline"):
        controllers.main(["--leader-elect", "--leader-elect-lease-duration=5s"], standalone_mode=False)


def test_a_list_is_given_with_commas_or_again_and_replaces_the_default():
    def read(*words: str) -> object:
        return scheduler.make_context("x", [*words]).params["open_paths"]

    assert read() == ("/healthz", "/readyz", "/livez")
    flag = "--authorization-always-allow-paths"
    assert read(f"{flag}=/a,/b") == read(f"{flag}=/a", f"{flag}=/b") == ("/a", "/b")
    assert read(f"{flag}=") == ()
