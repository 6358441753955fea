"""`tonnage up` seen from outside: where its programs serve, `tonnage status`, and `explain` that asks its scheduler."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.configurations import storage_configuration
from support.eventually import eventually
from support.processes import Up, start_up
from tonnage.stories.story_runner import claim, pod
from tonnage_command import tonnage

sys.path.append(str(Path(__file__).parents[3] / "scripts"))
from reference.metric_catalogue import catalogue


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("config") / "object.yaml"
    file.write_text(storage_configuration(reservation="Object"))
    return file


@pytest.fixture(scope="module")
def up(config: Path) -> Iterator[Up]:
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        flags = ("--nodes", "1", "--pools", "100Gi", "--scheduler-config", str(config), "-v", "4")
        running = start_up(Path(folder) / "c", *flags)
        yield running
        if running.process.poll() is None:
            running.stop()


def page(up: Up, program: str, path: str) -> bytes:
    told = json.loads((up.folder / "endpoints.json").read_text())[program]
    authority = told.get("certificateAuthority")
    trust = ssl.create_default_context(cafile=str(up.folder / authority)) if authority else None
    with urllib.request.urlopen(told["url"] + path, context=trust, timeout=30) as answer:
        return bytes(answer.read())


def test_every_program_serves_health_and_metrics_on_loopback(up):
    told = json.loads((up.folder / "endpoints.json").read_text())
    assert (up.folder / "endpoints.json").stat().st_mode & 0o777 == 0o600
    assert set(told) == {"apiserver", "controllers", "scheduler", "provisioner", "node"}
    for program in ("controllers", "scheduler", "provisioner", "node"):
        assert "://127.0.0.1:" in told[program]["url"]
        assert page(up, program, "/healthz") == b"ok"
        assert page(up, program, "/readyz") == b"ok"
        assert b"# TYPE" in page(up, program, "/metrics")


def test_programs_show_what_the_reference_of_metrics_says_and_promtool_finds_it_good(up):
    """Every metric of a running cluster is in the catalogue, with the labels that stand there."""
    known = {program: {each.name: each for each in found} for program, found in catalogue().items()}
    for program in ("scheduler", "controllers", "provisioner", "node"):
        shown = page(up, program, "/metrics").decode()
        for family in text_string_to_metric_families(shown):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            if name.endswith("_created"):
                continue  # when a series began: the library shows one beside each
            assert name in known[program], f"{program} shows {name}, which reference.metric_catalogue does not know"
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            assert labels <= set(known[program][name].labels), (program, name)
            assert " ".join(family.documentation.split()) == known[program][name].help, (program, name)
        if shutil.which("promtool") is not None:
            done = subprocess.run(
                ["promtool", "check", "metrics"], input=shown, capture_output=True, text=True, timeout=60, check=False
            )
            assert (done.returncode, done.stderr) == (0, ""), f"{program}: {done.stdout}{done.stderr}"


def test_status_shows_programs_nodes_pools_and_faults(up):
    assert tonnage("fault", "--data-dir", str(up.folder), "set", "slow", "--value", "0.1").returncode == 0
    done = tonnage("status", "--data-dir", str(up.folder), "-o", "json")
    assert tonnage("fault", "--data-dir", str(up.folder), "clear").returncode == 0
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    states = {each["name"]: each["state"] for each in told["programs"]}
    assert states.pop("csi-driver") == "running"
    assert set(states.values()) == {"ready"}
    assert [(each["name"], each["ready"]) for each in told["nodes"]] == [("node-1", True)]
    assert [(each["node"], each["pools"]) for each in told["pools"]] == [("node-1", ["100Gi"])]
    assert told["faults"] == [{"kind": "slow", "node": "", "value": 0.1}]


def test_explain_agrees_with_the_scheduler_about_what_it_keeps_back(up, config):
    # While the driver is deaf, nothing refreshes the capacity object that the first pod reserved.
    assert tonnage("fault", "--data-dir", str(up.folder), "set", "dead").returncode == 0
    namespace = "/api/v1/namespaces/default"
    for name in ("first", "second"):
        assert up.post(f"{namespace}/persistentvolumeclaims", claim(name, "30Gi")).code == 201
    assert up.post(f"{namespace}/pods", pod("first", ["first"])).code == 201
    eventually(lambda: json.loads(page(up, "scheduler", "/debug/reservations")), "the first pod's reservation")
    assert up.post(f"{namespace}/pods", pod("second", ["second"])).code == 201

    options = ("--kubeconfig", str(up.kubeconfig), "--config", str(config), "--pod", "default/second", "-o", "json")
    done = tonnage("explain", *options)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["node"] is None
    assert told["volumes"]["node-1"][0]["miss"].startswith("reserved by default/first since ")

    def conditions() -> list[str]:
        status = up.get(f"{namespace}/pods/second").body.get("status", {})
        return [each.get("message", "") for each in status.get("conditions", ())]

    eventually(
        lambda: told["message"] in [each.partition(" preemption:")[0] for each in conditions()], details=conditions
    )

    # At -v 4 the scheduler says the same in its log, by object.
    considered = [line for line in up.log("scheduler").splitlines() if '"Considered for volumes"' in line]
    reserved = [line for line in considered if 'pod="default/second"' in line]
    assert any('reason="reserved by default/first since ' in line and "fits=false" in line for line in reserved)

    apart = tonnage("explain", *options, "--scheduler-endpoint", "https://127.0.0.1:1")
    assert apart.returncode == 0
    assert json.loads(apart.stdout)["node"] is None, "the first pod's claim says that it is on its way there"
    (note,) = apart.stderr.splitlines()
    assert note.startswith("note: the scheduler cannot be asked: ")
    assert note.endswith(", so its reservations and the pods on their way are ignored")


def test_nothing_runs_after_a_clean_stop(up):
    assert up.stop() == 0
    done = tonnage("status", "--data-dir", str(up.folder))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"error: no cluster runs on {up.folder}",
        f"hint: start one with `tonnage up --data-dir {up.folder}`",
    ]
