"""Real JSON answers are as their schemas say, and hold no field that no schema tells of."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from support.configurations import storage_configuration
from support.filled_cluster import FilledCluster
from support.recorded_pods import recorded_pods
from support.virtual_clock import VirtualClock
from tonnage.cli import cli
from tonnage.dashboard.status.keeper import StatusKeeper
from tonnage.faults import Fault
from tonnage.plane.status import ClusterStatus, PlaneNodeStatus, PoolStatus, ProgramStatus
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, storage_class
from tonnage.whatif.shadow.judging import Refusal, ShadowVerdict, Tally

ROOT = Path(__file__).parent.parent
SCHEMAS = ROOT / "docs" / "reference" / "schemas"
EXAMPLES = ROOT / "examples"

ASKED = [
    ("explain", "explain -f {0}/02-explain --pod shop/web-1"),
    ("explain", "explain -f {0}/04-joint-packing --pod packing/four-of-80"),
    ("explain-list", "explain -f {0}/02-explain --pod shop/web-1 --pod shop/web-0"),
    (
        "explain-list",
        "explain -f {0}/12-explain-what-is-not-there/cluster.yaml -f {0}/12-explain-what-is-not-there/new",
    ),
    (
        "explain-list",
        "explain -f {0}/12-explain-what-is-not-there/cluster.yaml -f {0}/12-explain-what-is-not-there/waiting"
        " --pending",
    ),
    ("explain-list", "replay -f {0}/03-replay/cluster.yaml --steps {0}/03-replay/steps/burst.yaml"),
    (
        "explain-list",
        "replay -f {0}/19-volumes-on-their-way/cluster.yaml --steps {0}/19-volumes-on-their-way/steps/rebuild.yaml",
    ),
    ("fit", "fit -f {0}/13-fit/cluster.yaml -f {0}/13-fit/kafka.yaml --workload StatefulSet/default/kafka"),
    ("fit", "fit -f {0}/13-fit/cluster.yaml --template {0}/13-fit/new/analytics.yaml"),
    ("drain-preview", "drain-preview -f {0}/14-drain-preview/cluster.yaml mill-1"),
    ("drain-preview", "drain-preview -f {0}/14-drain-preview/cluster.yaml mill-1 mill-2 --one-by-one"),
    (
        "simulate",
        "simulate -f {0}/15-simulate --scenario {0}/15-simulate/scenarios/friday.yaml --compare kube-scheduler"
        " --compare default",
    ),
    ("doctor", "doctor -f {0}/16-doctor/dump"),
    ("version", "version"),
]


@cache
def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    return found


def strict(part: Any) -> Any:
    """The schema with nothing allowed beside what it names: for us, who shall name everything."""
    if isinstance(part, dict):
        found = {key: strict(value) for key, value in part.items()}
        return found | ({"additionalProperties": False} if "properties" in part else {})
    return [strict(each) for each in part] if isinstance(part, list) else part


def assert_valid(name: str, answer: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))
    jsonschema.Draft202012Validator(schema(name)).validate(answer)
    jsonschema.Draft202012Validator(strict(schema(name))).validate(answer)


def asked(command: str) -> Any:
    result = CliRunner().invoke(cli, [*command.format(EXAMPLES).split(), "-o", "json"], catch_exceptions=False)
    assert result.exit_code in (0, 4, 5), result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(("name", "command"), ASKED)
def test_an_answer_is_as_its_schema_says(name: str, command: str):
    assert_valid(name, asked(command))


def test_a_recording_decided_again_is_as_its_schema_says(tmp_path: Path):
    ledger = storage_configuration(reservation="Ledger")
    path = recorded_pods(tmp_path, ["one"], "20Gi", node("a"), capacity(node="a", free="30Gi"), configuration=ledger)
    assert_valid("simulate-recording", asked(f"simulate --recording {path} --compare kube-scheduler"))


def test_what_a_shadow_tells_is_as_its_schema_says():
    tally = Tally(VirtualClock().now())
    verdict = ShadowVerdict("shop/db-0", "node-2", "node-5", agreed=False, refused=True, why="node-2 has no room")
    tally.decided(verdict)
    tally.differences.append(verdict)
    tally.refusals.append(Refusal(verdict, "selected-node was taken back", {"shop/data-db-0"}))
    assert_valid("shadow", tally.document(VirtualClock().now()))


def test_what_status_tells_is_as_its_schema_says(tmp_path: Path):
    status = ClusterStatus(
        tmp_path,
        41,
        (ProgramStatus("scheduler", 42, "ready", "https://127.0.0.1:21206"), ProgramStatus("node", None, "away", None)),
        (PlaneNodeStatus("node-1", True, False, 3),),
        (PoolStatus("node-1", "pools", "100Gi", ("100Gi",), "kube-system/csisc-1"),),
        (Fault("slots-taken", "node-1", 14), Fault("dead", "node-2")),
    )
    assert_valid("status-programs", json.loads(json.dumps(status.document())))


async def test_the_troubles_of_status_are_as_their_schema_says():
    cluster = FilledCluster(clock=VirtualClock())
    cluster.put(node("node-1", unschedulable=True), storage_class(), capacity(node="node-1", free="1Gi"))
    cluster.put(claim("data", volume="pv-gone"))
    keeper = StatusKeeper(cluster)
    await keeper.look()
    assert [each.kind for each in keeper.found] == ["claim-lost", "node-cordoned"]
    assert_valid("status", json.loads(json.dumps(keeper.document(is_whole=True))))


def test_every_schema_is_held_against_an_answer():
    elsewhere = {"simulate-recording", "shadow", "status", "status-programs"}  # above, and where a cluster runs
    assert {path.stem for path in SCHEMAS.glob("*.json")} == {name for name, _ in ASKED} | elsewhere
