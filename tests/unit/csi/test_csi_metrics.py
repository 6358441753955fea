"""Calls are counted under upstream's names, labels and buckets, so that dashboards written for them work."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from tonnage.csi.metrics import BUCKETS_S, kubelet_calls, sidecar_calls

DRIVER = "pools.tonnage.dev"
STAGE = "/csi.v1.Node/NodeStageVolume"
CREATE = "/csi.v1.Controller/CreateVolume"


def test_a_sidecars_calls_are_counted_by_driver_method_and_code() -> None:
    registry = CollectorRegistry()
    calls = sidecar_calls(registry)
    calls(DRIVER, CREATE, "OK", 0.2)
    calls(DRIVER, CREATE, "OK", 0.4)
    calls(DRIVER, CREATE, "ResourceExhausted", 3.0)
    name = "csi_sidecar_operations_seconds"
    ok = {"driver_name": "pools.tonnage.dev", "method_name": CREATE, "grpc_status_code": "OK"}
    assert registry.get_sample_value(f"{name}_count", ok) == 2
    assert registry.get_sample_value(f"{name}_sum", ok) == 0.2 + 0.4
    # 0.2 s is above the bucket of 0.1 and within that of 0.25; 0.4 s is within that of 0.5.
    assert [registry.get_sample_value(f"{name}_bucket", {**ok, "le": le}) for le in ("0.1", "0.25", "0.5")] == [0, 1, 2]
    refused = {**ok, "grpc_status_code": "ResourceExhausted"}
    assert registry.get_sample_value(f"{name}_count", refused) == 1


def test_the_buckets_are_upstreams() -> None:
    assert BUCKETS_S == (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)


def test_a_nodes_calls_have_kubelets_name_and_its_fourth_label() -> None:
    registry = CollectorRegistry()
    kubelet_calls(registry)(DRIVER, STAGE, "OK", 0.1)
    text = generate_latest(registry).decode()
    help_text = "Container Storage Interface operation duration with gRPC error code status total"
    assert f"# HELP csi_operations_seconds {help_text}\n" in text
    labels = f'driver_name="pools.tonnage.dev",grpc_status_code="OK",method_name="{STAGE}",migrated="false"'
    counted = [line for line in text.splitlines() if line.startswith("csi_operations_seconds_count")]
    assert [_sorted_labels(line) for line in counted] == [f"csi_operations_seconds_count{{{labels}}} 1.0"]


def _sorted_labels(line: str) -> str:
    name, _, rest = line.partition("{")
    labels, _, value = rest.rpartition("}")
    return f"{name}{{{','.join(sorted(labels.split(',')))}}}{value}"


def test_two_drivers_are_told_apart_in_one_metric() -> None:
    registry = CollectorRegistry()
    calls = kubelet_calls(registry)
    calls("a", STAGE, "OK", 0.1)
    calls("b", STAGE, "Unavailable", 0.1)
    counted = [
        (sample.labels["driver_name"], sample.labels["grpc_status_code"])
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name.endswith("_count")
    ]
    assert counted == [("a", "OK"), ("b", "Unavailable")]


def test_a_driver_is_unknown_until_it_has_said_its_name() -> None:
    registry = CollectorRegistry()
    calls = sidecar_calls(registry)
    calls("", "/csi.v1.Identity/GetPluginInfo", "OK", 0.1)
    calls(DRIVER, CREATE, "OK", 0.1)
    counted = {
        sample.labels["method_name"]: sample.labels["driver_name"]
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name.endswith("_count")
    }
    assert counted == {"/csi.v1.Identity/GetPluginInfo": "unknown-driver", CREATE: "pools.tonnage.dev"}
