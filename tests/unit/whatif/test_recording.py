"""What `simulate --recording` says of a recording: equal, where it parts and why, and by another policy."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.configurations import storage_configuration
from support.recorded_pods import recorded_pods
from support.virtual_clock import VirtualClock
from tonnage.cli import cli
from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.scheduling.configuration.configuration import default_configuration, parse
from tonnage.scheduling.recording.recording_engine import RecordingEngine
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity
from tonnage.whatif import recording as repeating
from tonnage.whatif.html.html_page import HtmlPage
from tonnage.whatif.page import TextPage
from tonnage.whatif.recording import answered, open_recording


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Two pods of 20 Gi, of which one fits on `a` (30 Gi) and the other on `b`; and one that fits nowhere."""
    nodes = (node("a"), node("b", cpu="2"), capacity(node="a", free="30Gi"), capacity(node="b", free="30Gi"))
    ledger = storage_configuration(reservation="Ledger")
    return recorded_pods(tmp_path, ["one", "two", "three"], "20Gi", *nodes, configuration=ledger)


def asked(path: Path, **others: str):
    configurations = {name: parse(text, source=name, gates=Gates()) for name, text in others.items()}
    return answered(open_recording(path), configurations, (), is_stopped=lambda: False)


def test_it_is_repeated_equally(recording: Path) -> None:
    found = asked(recording)
    assert found.document()["repeated"] == {"decisions": 3, "equal": 3, "firstDifference": None}
    assert found.document()["ending"] is None
    assert repeating.headline(found.repeated) == "3 decisions repeated, all equal"


def test_another_policy_is_asked_in_the_very_state_of_each_decision(recording: Path) -> None:
    run = asked(recording, careless=storage_configuration(reservation="None")).document()["runs"]["careless"]
    # Without reservations the figures of a and b look untouched: the third pod would be sent somewhere, too.
    assert run["decisions"] == 3
    third = run["differences"][-1]
    assert (third["pod"], third["theirs"]) == ("default/three", None)
    assert third["ours"] in ("a", "b")


def test_a_decision_that_comes_out_otherwise_is_told_with_its_reason(recording: Path) -> None:
    lines = recording.read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if '"key":"default/three"' in line and '"attempt"' in line)
    lines[at] = lines[at].replace('"op":"attempt"', '"op":"attempt","node":"a"')
    recording.write_text("".join(lines))
    found = asked(recording)
    told = found.document()["repeated"]
    assert (told["decisions"], told["equal"]) == (3, 2)
    first = told["firstDifference"]
    assert (first["what"], first["pod"], first["recorded"], first["repeated"]) == (
        "attempt",
        "default/three",
        "a",
        None,
    )
    assert first["explanation"]["schedulable"] is False
    out = io.StringIO()
    repeating.show(found, TextPage(out))
    assert "default/three went to a, and now nowhere" in out.getvalue()
    assert "a is refused by VolumeBinding" in out.getvalue()


def test_it_is_a_report_as_well(recording: Path) -> None:
    done = CliRunner().invoke(
        cli, ["simulate", "--recording", str(recording), "--compare", "kube-scheduler", "-o", "html"]
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("<!doctype html>\n") and "<script" not in done.stdout
    assert "Repeated: 3 decisions of a live scheduler" in done.stdout
    assert "Decisions that come out as recorded" in done.stdout


def test_the_report_of_one_that_parts_tells_how_nodes_are_judged(recording: Path) -> None:
    lines = recording.read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if '"key":"default/three"' in line and '"attempt"' in line)
    lines[at] = lines[at].replace('"op":"attempt"', '"op":"attempt","node":"a"')
    recording.write_text("".join(lines))
    page = HtmlPage("simulate")
    repeating.show(asked(recording), page)
    told = page.html()
    assert "default/three went to a, and now nowhere" in told and "VolumeBinding: " in told


def test_a_recording_that_is_cut_off_is_repeated_up_to_there(recording: Path) -> None:
    text = recording.read_text()
    recording.write_text(text[: text.index('"key":"default/three"') + 5])
    found = asked(recording)
    assert found.repeated.decisions == 2 and found.repeated.difference is None
    assert found.document()["ending"] == "its scheduler was killed, or runs still"


def test_ctrl_c_ends_it_with_what_is_known(recording: Path) -> None:
    presses = iter([False] * 12 + [True] * 100)
    found = answered(open_recording(recording), {}, (), is_stopped=lambda: next(presses))
    assert found.is_partial and 0 < found.repeated.decisions < 3


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: "", "line 1: this is not a recording"),
        (lambda text: "kind: Scenario\n", "line 1: this is not a recording"),
        (lambda text: text.replace('"recording":1', '"recording":2'), "a recording of version 2; this Tonnage reads"),
        (lambda text: text.replace('"op":"open"', '"op":"close"'), 'op "close" is not known'),
        (lambda text: text.replace('"op":"open"', '"oops":1,"op":"open"'), "unknown field `oops`"),
        (lambda text: text.replace('"op":"pop"', '"op":"tick"'), "which was not popped before"),
        (
            lambda text: text.replace("reservation: Ledger", "reservation: Lots"),
            "this Tonnage cannot use its configuration",
        ),
        (lambda text: text.replace("=true", "=maybe"), "this Tonnage cannot use its configuration"),
    ],
)
def test_what_is_wrong_with_a_recording_is_told_with_its_line(recording: Path, change, told: str) -> None:
    recording.write_text(change(recording.read_text()))
    with pytest.raises(TonnageError) as caught:
        asked(recording)
    assert told in caught.value.message and caught.value.message.startswith(f"{recording}: line ")


def test_the_command_answers_in_both_forms(recording: Path) -> None:
    run = CliRunner().invoke(cli, ["simulate", "--recording", str(recording)])
    assert (run.exit_code, run.stdout) == (0, "3 decisions repeated, all equal\n")
    run = CliRunner().invoke(cli, ["simulate", "--recording", str(recording), "--compare", "kep", "-o", "json"])
    assert run.exit_code == 0
    assert set(json.loads(run.stdout)) == {"seed", "since", "until", "ending", "partial", "repeated", "runs"}


@pytest.mark.parametrize("more", [("--scenario", "x"), ("-f", "x"), ("--kubeconfig", "x")])
def test_a_recording_brings_its_cluster_along(recording: Path, more: tuple[str, str]) -> None:
    run = CliRunner().invoke(cli, ["simulate", "--recording", str(recording), *more])
    assert run.exit_code == 2


def test_gates_are_spelled_as_they_are_read() -> None:
    gates = Gates.parse("VolumeLimitScaling=false")
    assert Gates.parse(str(gates)) == gates
    assert default_configuration(gates=Gates.parse(str(gates))).profiles[0].gates == gates


def test_pods_are_written_without_environment_and_what_was_applied() -> None:
    lines: list[bytes] = []
    engine = RecordingEngine(
        default_configuration(gates=Gates()).profiles,
        clock=VirtualClock(),
        rng=random.Random(0),
        seed=0,
        sink=lines.append,
    )
    kept = {"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "team": "shop"}
    fields = [{"manager": "hunter2", "operation": "Update"}]
    container = {"name": "main", "image": "app:1", "env": [{"name": "PASSWORD", "value": "hunter2"}]}
    engine.add(pod("web", metadata={"annotations": kept, "managedFields": fields}, spec={"containers": [container]}))
    assert b"hunter2" not in lines[-1] and b'"team":"shop"' in lines[-1]
