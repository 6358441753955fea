"""Files that are played: frames of a replay and of a scenario, told as the commands tell them."""

from __future__ import annotations

import json
import tomllib
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from support.dashboard_requests import EXAMPLES, dashboard_of
from tonnage.cli import cli
from tonnage.dashboard.questions import playing
from tonnage.dashboard.questions.asking import Asking, QuestionLimit
from tonnage.dashboard.questions.given_files import (
    CONFIGURATION,
    MANIFESTS,
    OTHER,
    SCENARIO,
    STEPS,
    TEACHES,
    captions,
    examples,
    files_of,
    kind_of,
)
from tonnage.dashboard.questions.given_files import sorted_out as sorted_out_files
from tonnage.dashboard.questions.playing import played
from tonnage.errors import TonnageError
from tonnage.whatif.manifests import GivenText


def play(name: str, **options: Any) -> dict[str, Any]:
    """An example, played; as a browser gets it."""
    found = played(sorted_out_files(files_of(name)), Asking(), QuestionLimit(60), **options)
    document: dict[str, Any] = json.loads(msgspec.json.encode(found))
    return document


def rows_after(frames: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows that messages come to, one after the other."""
    rows: dict[str, dict[str, Any]] = {}
    for frame in frames:
        for collection, changed in frame["message"]["set"].items():
            rows.setdefault(collection, {}).update(changed)
        for collection, keys in frame["message"]["gone"].items():
            for key in keys:
                del rows[collection][key]
    return rows


def test_the_first_frame_is_a_state_and_the_others_are_differences():
    frames = play("24-three-parts/reservation")["frames"]
    assert [frame["message"].get("state", False) for frame in frames] == [True] + [False] * 9
    # 100Gi by the figures; 2 x 40Gi are kept back of press-2 after three jobs, and 40Gi of press-1.
    reserved = {
        key: [each["pod"] for each in row.get("reserved", [])]
        for key, row in rows_after(frames[:4])["capacities"].items()
    }
    assert reserved == {"press/press-1": ["press/job-1"], "press/press-2": ["press/job-0", "press/job-2"]}
    volumes, pods = rows_after(frames[:4])["volumes"], rows_after(frames[:4])["pods"]
    assert (volumes["press/job-0"]["state"], volumes["press/job-0"]["node"]) == ("making", "press-2")
    assert pods["press/job-0"]["node"] == "press-2" and "node" not in pods["press/job-4"]
    # Refused, and why; then the binding of job-1 fails, and there is room.
    assert "did not have enough free storage" in rows_after(frames[:6])["pods"]["press/job-4"]["message"]
    assert rows_after(frames)["pods"]["press/job-4"]["node"] == "press-1"


def test_each_step_says_what_happened_and_why_there():
    frames = play("24-three-parts/joint-packing")["frames"]
    first, refused = frames[1], frames[4]
    assert first["caption"].startswith("Claims of one pod must find room together")
    assert [frame["title"] for frame in frames[1:3]] == [
        "schedule shelves/search",
        "apply PersistentVolume shelves-search-0 and 7 more",
    ]
    assert first["answer"]["node"] == "shelf-2"
    assert first["answer"]["why"] == ["it is the only node that fits"]
    assert "shelves/search-0 takes 80Gi of 100Gi" in first["answer"]["claims"][0]
    assert refused["answer"]["node"] == ""
    assert "shelf-3: largest free pool 150Gi, needs 200Gi" in refused["answer"]["misses"]


def test_a_volume_is_on_its_way_and_arrives():
    frames = play("24-three-parts/rebuilding")["frames"]
    places = [rows_after(frames[: number + 1])["volumes"]["racks/data-db-0"] for number in range(len(frames))]
    told = [(each["state"], each.get("node", ""), each.get("target", "")) for each in places]
    kept = told[:1] + [now for before, now in pairwise(told) if before != now]
    assert kept[0][:2] == ("bound", "rack-1")
    assert ("moving", "rack-3") in {(state, target) for state, _, target in kept}
    assert kept[-1] == ("bound", "rack-3", "")


@pytest.mark.parametrize("name", [each.name for each in examples() if each.kind == "replay"])
def test_a_replay_decides_as_the_command_does(name):
    example = next(each for each in examples() if each.name == name)
    given = sorted_out_files(files_of(name))
    flags = [word for each in given.manifests for word in ("-f", str(EXAMPLES / each.name))]
    flags += ["--steps", str(EXAMPLES / str(given.steps))]
    flags += ["--config", str(EXAMPLES / given.config.name)] if given.config is not None else []
    answers = [frame["answer"] for frame in play(name)["frames"] if frame["answer"]]
    told = json.loads(CliRunner().invoke(cli, ["replay", *flags, "-o", "json"], catch_exceptions=False).stdout)
    assert [(each["pod"], each["node"] or None) for each in answers] == [(each["pod"], each["node"]) for each in told]
    assert example.about


def test_a_scenario_is_played_at_equal_distances_and_tells_its_events():
    answer = play("15-simulate/friday", seed=7)
    frames = answer["frames"]
    assert answer["kind"] == "simulate" and len(frames) == 121 and not answer["cut"]
    assert frames[40]["title"].startswith("20m0s: drain rack-2; ")
    assert any(line.startswith("simulate/build-") and " goes to rack-" in line for line in frames[10]["lines"])
    nodes = rows_after(frames[:45])["nodes"]
    assert nodes["rack-2"]["cordoned"]


def test_frames_are_bounded_and_it_is_said(monkeypatch):
    monkeypatch.setattr(playing, "MOST_FRAMES", 5)
    answer = play("15-simulate/friday")
    assert len(answer["frames"]) == 5 and answer["cut"] == "the rest is left out: at most 5 frames are played"
    monkeypatch.setattr(playing, "MOST_BYTES", 1)
    assert play("24-three-parts/reservation")["frames"] == []


def test_files_are_told_apart_by_what_they_hold():
    assert kind_of(GivenText("a.yaml", b"# about\n---\n- schedule: a/b\n")) == STEPS
    assert kind_of(GivenText("a.json", b'[{"schedule": "a/b"}]')) == STEPS
    assert kind_of(GivenText("a.yml", b"apiVersion: tonnage.dev/v1alpha1\nkind: Scenario\n")) == SCENARIO
    assert kind_of(GivenText("a.yaml", b"kind: KubeSchedulerConfiguration\n")) == CONFIGURATION
    assert kind_of(GivenText("a.yaml", b"kind: Pod\n")) == MANIFESTS
    assert kind_of(GivenText("README.md", b"- a list\n")) == OTHER


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("\n" * 5_000 + "kind: Node", MANIFESTS),
        ("# a\n" * 5_000 + "kind: Node", MANIFESTS),
        (" \t\r\n" * 5_000 + "- advance: 1", STEPS),
        ("---\n" * 5_000 + "-\n  advance: 1", STEPS),
        ("\ufeff# a\n\n--- # b\n[{advance: 1}]", STEPS),
        ("-1: x", MANIFESTS),
        ("", MANIFESTS),
    ],
)
def test_however_a_file_begins_it_is_told_apart_in_one_pass(text, kind):
    assert kind_of(GivenText("a.yaml", text.encode())) == kind


SCENARIO_OF = "apiVersion: tonnage.dev/v1alpha1\nkind: Scenario\nduration: 1h\nevents:\n"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, namespace: shop}
spec:
  replicas: 2147483647
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
"""


@pytest.mark.parametrize(
    ("played_file", "error"),
    [
        (SCENARIO_OF + "- {at: 0s, arrive: Deployment/shop/a}", "is a workload of 2,147,483,647 pods"),
        (SCENARIO_OF + "- {at: 0s, arrive: Deployment/shop/a, replicas: 1000000}", "brings more than can be played"),
        (SCENARIO_OF + "- {from: 0s, until: 1h, rate: 200/s, arrive: Deployment/shop/a}", "brings more than can be"),
        (SCENARIO_OF + "- {at: 0s, join: {like: node-1, count: 1000000}}", "brings more than can be played"),
        ("- advance: 1.0e+300", "step 1: virtual time ends with the year 9999"),
        ("- advance: 200000000000\n- advance: 200000000000", "step 2: virtual time ends with the year 9999"),
    ],
)
def test_what_would_take_all_memory_or_all_time_is_refused(played_file, error):
    files = [GivenText("cluster.yaml", DEPLOYMENT.encode()), GivenText("played.yaml", played_file.encode())]
    with pytest.raises(TonnageError) as told:
        played(sorted_out_files(files), Asking(), QuestionLimit(60))
    assert error in told.value.message


def test_captions_are_the_comments_above_steps():
    steps = GivenText(
        "s.yaml",
        b"# Once upon\n# a time\n- restart: true\n- apply:\n    # inner\n    - {}\n# The end\n- restart: true\n",
    )
    assert captions(steps, 3) == ["Once upon a time", "", "The end"]
    assert captions(steps, 2) == ["", ""]


def test_the_three_parts_are_offered_first_and_by_name():
    assert [(each.name, each.part) for each in examples()[:3]] == list(TEACHES.items())


def test_the_package_has_what_the_checkout_offers():
    told = tomllib.loads((EXAMPLES.parent / "pyproject.toml").read_text())
    packaged = told["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    offered = {each.name.partition("/")[0] for each in examples()}
    assert packaged == {f"examples/{name}": f"tonnage/examples/{name}" for name in offered}


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({"c.yaml": "kind: Pod"}, "there is nothing to play in these files: no list of steps, and no scenario"),
        ({"s.yaml": "- restart: true"}, "the cluster is missing"),
        (
            {"a.yaml": "- restart: true", "b.yaml": "- restart: true"},
            "there are 2 files of steps, and one can be played: a.yaml, b.yaml",
        ),
    ],
)
def test_files_that_cannot_be_played_are_refused(files, error):
    with pytest.raises(TonnageError) as refused:
        sorted_out_files([GivenText(name, text.encode()) for name, text in files.items()])
    assert refused.value.message == error and refused.value.hint


async def test_errors_are_those_of_the_command_with_file_and_step():
    cluster = (EXAMPLES / "24-three-parts" / "reservation.yaml").read_text()

    async with dashboard_of() as dashboard:

        async def refused(**body: Any) -> tuple[int, str]:
            status, told = await dashboard.ask("POST", "/api/v1/replay", body)
            return status, told["error"]

        def files(steps: str) -> list[dict[str, str]]:
            return [{"name": "c.yaml", "text": cluster}, {"name": "s.yaml", "text": steps}]

        status, error = await refused(files=files("- schedule: press/nobody\n"))
        assert status == 422 and error.startswith('s.yaml, step 1: there is no pod "press/nobody"')
        assert await refused(files=files("- shedule: press/job-0\n")) == (422, 's.yaml, step 1: unknown step "shedule"')
        assert await refused(example="03-replay/brst") == (422, 'there is no example "03-replay/brst"')
        assert (await refused(files=[]))[0] == 400
        assert (await refused(files=files("- restart: true"), seed=-1))[0] == 400
        status, told = await dashboard.ask("GET", "/api/v1/examples")
        assert status == 200 and [each["part"] for each in told["examples"][:3]] == list(TEACHES.values())
        status, told = await dashboard.ask("POST", "/api/v1/replay", {"example": "24-three-parts/rebuilding"})
        assert status == 200 and told["kind"] == "replay" and len(told["frames"]) == 11
