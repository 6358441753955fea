"""`tonnage provisioner`: external-provisioner's flags and defaults, read as Go reads them."""

from __future__ import annotations

from typing import Any

import click
import pytest

from tonnage.cli.provisioner import capacity_of, lease_of, options_of, provisioner
from tonnage.cli.running import endpoint_of
from tonnage.provisioner.capacity.controller import CapacitySettings
from tonnage.provisioner.context import NodeDeployment, ProvisionerOptions


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAMESPACE", "NODE_NAME", "POD_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)


def given(*arguments: str) -> dict[str, Any]:
    return provisioner.make_context("provisioner", list(arguments)).params


def test_the_defaults_are_upstreams() -> None:
    said = given()
    assert options_of(said) == ProvisionerOptions()
    assert capacity_of(said) == CapacitySettings(namespace="kube-system")
    assert (said["csi_address"], said["timeout_s"], said["leader_election"]) == ("/run/csi/socket", 10.0, False)
    times = (said["leader_election_lease_duration_s"], said["leader_election_renew_deadline_s"])
    assert (*times, said["leader_election_retry_period_s"]) == (15.0, 10.0, 5.0)


def test_switches_are_read_as_go_reads_them() -> None:
    said = given("--strict-topology", "--immediate-topology=false", "--enable-capacity=false", "--leader-election=true")
    assert (said["strict_topology"], said["immediate_topology"], said["leader_election"]) == (True, False, True)
    assert capacity_of(said) is None


def test_the_gates_of_external_provisioner_are_known_beside_ours() -> None:
    said = given("--feature-gates=Topology=false,CSIStorageCapacityV2=false")
    assert options_of(said).topology is False
    capacity = capacity_of(said)
    assert capacity is not None and capacity.with_pools is False


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--no-such-flag"], "No such option"),
        (["--feature-gates=Nonsense=true"], "unrecognized feature gate: Nonsense"),
        (["--feature-gates=CrossNamespaceVolumeDataSource=true"], "CrossNamespaceVolumeDataSource is not supported"),
        (["--timeout=10"], '"10" is not a duration'),
        (["--worker-threads=0"], "0 is not in the range x>=1"),
    ],
)
def test_what_is_not_understood_is_wrong_usage(arguments: list[str], error: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        given(*arguments)
    assert error in caught.value.format_message()


def test_a_provisioner_of_one_node_needs_to_know_which() -> None:
    with pytest.raises(click.UsageError, match="set NODE_NAME or --node-name"):
        options_of(given("--node-deployment"))
    said = given("--node-deployment", "--node-name=node-1", "--node-deployment-base-delay=1s")
    assert options_of(said).node_deployment == NodeDeployment(node_name="node-1", base_delay_s=1.0)


def test_the_surroundings_name_node_and_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "node-7")
    monkeypatch.setenv("NAMESPACE", "storage")
    said = given("--node-deployment")
    assert options_of(said).node_deployment == NodeDeployment(node_name="node-7")
    assert said["capacity_namespace"] == "storage"
    assert lease_of("pools.tonnage.dev", "") == "storage/pools-tonnage-dev"


def test_the_lease_is_named_as_upstream_names_it() -> None:
    assert lease_of("csi.example.com/x", "ns") == "ns/csi-example-com-x"
    assert lease_of("csi.example.", "ns") == "ns/csi-example-X"


@pytest.mark.parametrize(
    ("told", "address"),
    [("", None), (":8080", ("0.0.0.0", 8080)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:80", ("::1", 80))],
)
def test_an_endpoint_is_a_host_and_a_port(told: str, address: tuple[str, int] | None) -> None:
    assert endpoint_of(told, "") == endpoint_of("", told) == address


def test_endpoints_that_make_no_sense_are_wrong_usage() -> None:
    with pytest.raises(click.UsageError, match="only one of --metrics-address and --http-endpoint can be set"):
        endpoint_of(":1", ":2")
    with pytest.raises(click.UsageError, match='"8080x" is not an address to listen on'):
        endpoint_of("8080x", "")
