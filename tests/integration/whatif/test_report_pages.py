"""Every report, opened in a browser: it asks nobody for anything, nothing complains, what is drawn is the answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Seen, look
from click.testing import CliRunner

from support.recorded_pods import recorded_pods
from tonnage.cli import cli
from tonnage.clock import VirtualClock
from tonnage.scheduling.decision.explain import Explanation, NodeAnswer
from tonnage.scheduling.recording.recording_engine import Header
from tonnage.scheduling.recording.repetition import Difference
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity
from tonnage.whatif import recording
from tonnage.whatif.doctor import examination
from tonnage.whatif.doctor.capacity_checks import DriverFigures
from tonnage.whatif.doctor.examination import Examination
from tonnage.whatif.doctor.facts import Facts, Finding, GateSign, ServerFacts, Severity
from tonnage.whatif.doctor.switch import recommendation_of
from tonnage.whatif.drain import preview as drain
from tonnage.whatif.drain.outcome import (
    BlockingBudget,
    DataLeftBehind,
    DrainOutcome,
    LostData,
    LostPod,
    Move,
    Stuck,
    VolumeMove,
)
from tonnage.whatif.drain.preview import Failure, OneMore, OrderSearch, Preview
from tonnage.whatif.drain.rehearsal import Scene
from tonnage.whatif.fit import fitting
from tonnage.whatif.fit.counting import Counted, NodesNeeded, PreemptingReplica
from tonnage.whatif.fit.fitting import FitAnswer, FitQuestion
from tonnage.whatif.html.html_page import HtmlPage
from tonnage.whatif.knobs import Remedy
from tonnage.whatif.page import Page
from tonnage.whatif.recording import Recording, Repeated, RepeatedRecording
from tonnage.whatif.shadow.judging import ShadowVerdict, Tally
from tonnage.whatif.simulate import comparison_report
from tonnage.whatif.simulate.comparison import Comparison, RunResult
from tonnage.whatif.simulate.play import Run
from tonnage.whatif.sources import ClusterState

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: chromium, chromium-browser or google-chrome"),
]

EXAMPLES = Path(__file__).parents[3] / "examples"
HOSTILE = (
    "</script></title></style><script>alert(1)</script>\"' onload=x <img src=http://evil.example/> \u202e\x00\x1b[2J"
)

SCENARIO = """
apiVersion: tonnage.dev/v1alpha1
kind: Scenario
duration: 20m
storage: {pick: random, refreshDelay: 30s}
events:
- {at: 0s, arrive: StatefulSet/default/kafka, replicas: 8}
- {at: 10m, drain: rack-1-a}
"""

READ = """(() => {
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const points = path => (path.getAttribute('d').match(/[ML]/g) || []).length;
  return {
    lang: document.documentElement.lang, title: document.title,
    headings: all('h1,h2,h3').map(e => +e.tagName[1]),
    scripts: document.scripts.length,
    alerts: all('img,script,iframe,object,embed').length,
    links: all('a').map(e => e.getAttribute('href')),
    missing: all('a').map(e => e.getAttribute('href').slice(1)).filter(id => !document.getElementById(id)),
    twice: all('[id]').map(e => e.id).filter((id, n, ids) => ids.indexOf(id) !== n),
    unnamed: all('svg').filter(e => e.getAttribute('role') !== 'img' ||
      !e.getAttribute('aria-labelledby').split(' ').every(id => document.getElementById(id).textContent)).length,
    charts: Object.fromEntries(all('figure').map(e => [e.id, {
      lines: all('.series.lines path', e).map(points),
      dots: all('.series.dots circle', e).length,
      bars: all('.series.bars rect', e).length,
      claims: all('rect.claim:not(.key)', e).map(r => r.dataset.claim),
      promised: all('rect.claim.promised:not(.key)', e).map(r => r.dataset.claim),
      marked: all('rect.claim.marked:not(.key)', e).map(r => r.dataset.claim),
      widths: all('rect.claim:not(.key)', e).map(r => r.getBoundingClientRect().width),
      hatched: all('rect.claim.promised:not(.key)', e).every(r => getComputedStyle(r).fill.includes('url')),
      pools: all('rect.pool:not(.key)', e).length,
      outside: all('rect', e).filter(r => r.getBBox().x + r.getBBox().width > 721).length,
      rows: all('tbody tr', e).length }])),
    focusable: all('summary').length,
    text: document.body.innerText,
  };
})()"""

BROKEN = """<!doctype html><title>broken</title><img src="http://127.0.0.1:9/pixel.png" alt="">
<script>console.log("hello"); nothing.there();</script>"""
"""A page that does what no report may."""

Answer = Mapping[str, Any]


def _run(*arguments: str) -> str:
    done = CliRunner().invoke(cli, list(arguments))
    assert done.exit_code in (0, 4, 5), done.output  # doctor tells the severity of what it found
    return done.stdout


def _disk(claim: str) -> dict[str, Any]:
    volumes = [
        {"volume": claim, "claim": claim, "pool": 0, "bytes": 60, "promised": False},
        {"volume": None, "claim": claim, "pool": 1, "bytes": 10, "promised": True},
        {"volume": claim, "claim": None, "pool": None, "bytes": 20, "promised": False},
    ]
    return {
        "objects": [claim], "where": claim, "classes": [claim], "totalBytes": 200, "freeBytes": [40, 50],
        "volumes": volumes,
    }  # fmt: skip


def _written(command: str, show: Callable[[Page], object]) -> HtmlPage:
    page = HtmlPage(command)
    show(page)
    return page


def hostile_pages() -> dict[str, HtmlPage]:
    """Pages of answers whose every name and message is an attack."""
    shows: dict[str, Callable[[Page], object]] = {
        "fit": _hostile_fit, "drain": _hostile_drain, "doctor": _hostile_doctor, "simulate": _hostile_simulation,
        "recording": _hostile_recording,
    }  # fmt: skip
    return {f"hostile-{command}": _written(command, show) for command, show in shows.items()}


BAD, DISKS = HOSTILE, [_disk(HOSTILE)]


def _hostile_fit(page: Page) -> None:
    counted = Counted(
        by_node=Counter({BAD: 1}),
        zone_of={BAD: BAD},
        not_made=BAD,
        stuck=[BAD],
        preempting=[PreemptingReplica(BAD, BAD, [BAD])],
    )
    asked, remedy = FitQuestion(BAD, (), iter(()), 1), Remedy(0, 1, BAD)
    fitting.show(FitAnswer(asked, counted, 2, True, BAD, (remedy,), NodesNeeded(1, 1, BAD), DISKS), page)


def _hostile_drain(page: Page) -> None:
    volumes = (VolumeMove(BAD, "rebuild", 1),)
    move = Move(BAD, BAD, source=BAD, target=BAD, volumes=volumes, equally_good=(BAD,), step=BAD)
    stuck = Stuck(BAD, BAD, source=BAD, message=BAD, is_evicted=True, volumes=volumes, step=BAD)
    preview = Preview(Scene(ClusterState([], BAD, VirtualClock()), ()), [BAD, "b"], is_one_by_one=True)
    preview.outcome = DrainOutcome(
        (BAD, "b"), [move], [move], [stuck], [BlockingBudget(BAD, (BAD,), BAD)], [LostPod(BAD, BAD, BAD)],
        [(BAD, BAD)], [DataLeftBehind(BAD, BAD, BAD, BAD, 1, (BAD,))], [LostData(BAD, BAD, BAD, None)],
        [(BAD, BAD, 1)], [BAD],
    )  # fmt: skip
    preview.order = OrderSearch((BAD, "b"), (0, 0))
    preview.one_more = OneMore(tried=1, is_complete=True, failures=[Failure(BAD, (BAD,), (stuck,))])
    preview.disks_before, preview.disks_after, preview.is_drained = DISKS, DISKS, True
    drain.show(preview, page)


def _hostile_doctor(page: Page) -> None:
    sign = GateSign(True, BAD)
    facts = Facts([], VirtualClock().now(), source=BAD, server=ServerFacts(BAD, gates={BAD: sign}))
    figures = DriverFigures(BAD, facts, (), {})
    finding = Finding(BAD, Severity.ERROR, BAD, BAD, BAD, BAD)
    found = Examination(facts, [finding], {BAD: figures}, recommendation_of(facts, {BAD: figures}), DISKS, True)
    examination.show(found, page)


def _hostile_simulation(page: Page) -> None:
    sample = {
        "at": 0, "usedBytes": 1, "totalBytes": 2, "utilisation": 0.5, "fragmentation": 0, "running": 1, "waiting": 0,
        "refusedVolumes": 0,
    }  # fmt: skip
    run = {
        "placed": 1, "waiting": 1, "refusedVolumes": 0, "timeToRunning": {"p50": 1.0, "p90": 1.0, "p99": 1.0},
        "bytesRebuilt": 1, "arrived": 1, "seconds": 1, "partial": False, "volumesMade": 1, "attempts": 1, "notMade": 1,
        "failedBindings": 0, "rejectedPods": 0, "waitingPods": [{"reason": BAD, "count": 2, "pods": [BAD]}],
        "rebuilds": [{"at": 1, "volume": BAD, "from": BAD, "to": BAD, "bytes": 1}], "samples": [sample],
        "disks": DISKS, "runningWithin": [{"percent": 100, "seconds": 1}],
        "lost": [{"pod": BAD, "why": BAD}], "blockedEvictions": [{"pod": BAD, "why": BAD}],
    }  # fmt: skip
    side = {"pod": BAD, "node": BAD, "why": BAD, "message": BAD}
    difference = {
        "between": [BAD, "b"], "waitOnlyIn": {BAD: {"count": 1, "pods": [BAD]}},
        "parting": {"decision": 0, "at": 1, "pod": BAD, "sides": {BAD: side}},
    }  # fmt: skip
    results = {name: RunResult(Run(name, (), 0), run, (), frozenset()) for name in (BAD, "b")}
    comparison_report.show(Comparison(0, results, [difference], is_partial=True), page)


def _hostile_recording(page: Page) -> None:
    now = VirtualClock().now()
    refused = NodeAnswer(BAD, feasible=False, rejected_by=BAD, reasons=(BAD,))
    explanation = Explanation(BAD, "", BAD, [refused, NodeAnswer(BAD, feasible=True)])
    found = RepeatedRecording(
        Recording(Path(BAD), Header(1, BAD, 0, 0.0, 0), ending=BAD),
        Repeated(2, Difference("attempt", BAD, BAD, BAD, now, explanation)),
        {name: Tally(now, decisions=2, agreed=1, differing=4) for name in (BAD, "b")},
        is_partial=True,
    )
    for tally in found.judged.values():
        tally.differences.append(ShadowVerdict(BAD, BAD, "", agreed=False, why=BAD))
    recording.show(found, page)


def recorded(folder: Path) -> Path:
    """A recording of two pods of 60 Gi: one node has the room for one of them, the other for none."""
    rooms = (capacity(node="a", free="100Gi"), capacity(node="b", free="10Gi"))
    return recorded_pods(folder, ["one", "two"], "60Gi", node("a"), node("b"), *rooms)


Visit = tuple[Seen, Answer]


@pytest.fixture(scope="module")
def visited(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Visit]:
    """Every report and the JSON of the same command, all opened in one browser."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "scenario.yaml").write_text(SCENARIO)
    fit = ["-f", str(EXAMPLES / "13-fit/cluster.yaml"), "-f", str(EXAMPLES / "13-fit/kafka.yaml")]
    commands = {
        "fit": ["fit", *fit, "--workload", "StatefulSet/default/kafka"],
        "drain": ["drain-preview", "-f", str(EXAMPLES / "14-drain-preview/cluster.yaml"), "mill-1"],
        "doctor": ["doctor", "-f", str(EXAMPLES / "16-doctor/dump")],
        "simulate": [
            "simulate", *fit, "--scenario", str(folder / "scenario.yaml"), "--compare", "kep", "--compare", "default",
        ],
        "recording": [
            "simulate", "--recording", str(recorded(folder)), "--compare", "kube-scheduler", "--compare", "kep",
        ],
    }  # fmt: skip
    answers: dict[str, Answer] = {}
    pages: dict[str, Path] = {}
    for name, command in commands.items():
        answers[name] = json.loads(_run(*command, "-o", "json"))
        pages[name] = folder / f"{name}.html"
        pages[name].write_text(_run(*command, "-o", "html"))
    for name, page in hostile_pages().items():
        answers[name], pages[name] = {}, folder / f"{name}.html"
        pages[name].write_text(page.html())
    pages["broken"], answers["broken"] = folder / "broken.html", {}
    pages["broken"].write_text(BROKEN)
    seen = look(pages, READ, folder / "profile")
    return {name: (seen[name], answers[name]) for name in pages}


REPORTS = ("fit", "drain", "simulate", "doctor", "recording")
NAMES = (*REPORTS, *(f"hostile-{name}" for name in REPORTS))


@pytest.mark.parametrize("name", NAMES)
def test_a_report_asks_nobody_for_anything_and_nothing_complains(visited: dict[str, Visit], name: str) -> None:
    seen, _ = visited[name]
    assert seen.requests == []
    assert seen.console == []
    assert seen.read["scripts"] == 0
    assert seen.read["alerts"] == 0


def test_a_page_that_asks_and_complains_is_noticed(visited: dict[str, Visit]) -> None:
    seen, _ = visited["broken"]
    assert seen.requests == ["http://127.0.0.1:9/pixel.png"]
    assert any("hello" in each for each in seen.console)
    assert any("nothing is not defined" in each for each in seen.console)


@pytest.mark.parametrize("name", NAMES)
def test_a_report_is_read_by_ear_and_by_keys(visited: dict[str, Visit], name: str) -> None:
    read = visited[name][0].read
    assert read["lang"] == "en"
    assert read["title"]
    assert read["headings"][0] == 1
    assert read["headings"].count(1) == 1
    assert all(later - before <= 1 for before, later in zip(read["headings"], read["headings"][1:], strict=False))
    assert read["unnamed"] == 0, "every drawing has a name and a description"
    assert read["twice"] == []
    assert read["missing"] == []
    assert read["links"][0] == "#main", "the first stop of the Tab key skips to the answer"
    drawn = [each for each in read["charts"].values() if each["claims"] or each["lines"] or each["bars"]]
    assert drawn
    assert all(each["rows"] for each in drawn), "the numbers stand beside every drawing"
    assert all(not each["outside"] for each in drawn)


def test_the_capacity_map_of_fit_has_a_block_for_each_claim_and_hatches_the_promised(visited: dict[str, Visit]) -> None:
    seen, answer = visited["fit"]
    drawn = seen.read["charts"]["disks-map"]
    _assert_map(drawn, answer["disks"])
    assert len(drawn["promised"]) == 2 * answer["count"], "each broker has two claims"
    assert drawn["hatched"]
    assert seen.read["charts"]["places-chart"]["bars"] == len(answer["byNode"])
    for each in answer["wouldHelp"]:
        assert each in seen.read["text"]


def test_the_drain_is_drawn_before_and_after(visited: dict[str, Visit]) -> None:
    seen, answer = visited["drain"]
    charts = seen.read["charts"]
    _assert_map(charts["disks-before"], answer["disksBefore"])
    _assert_map(charts["disks-after"], answer["disksAfter"])
    rebuilt = sum(volume["action"] == "rebuild" for move in answer["moves"] for volume in move["volumes"])
    assert rebuilt
    assert len(charts["disks-before"]["marked"]) == len(charts["disks-after"]["marked"]) == rebuilt
    assert charts["rebuilt-chart"]["bars"] == len(answer["bytesRebuilt"]["moves"])
    for each in answer["stuck"]:
        assert each["message"] in seen.read["text"]


def test_a_simulation_is_drawn_with_a_line_for_each_run_and_a_point_for_each_sample(visited: dict[str, Visit]) -> None:
    seen, answer = visited["simulate"]
    samples = [len(run["samples"]) for run in answer["runs"].values()]
    assert len(samples) == 2
    charts = seen.read["charts"]
    for name in ("utilisation-chart", "fragmentation-chart", "waiting-chart", "running-chart", "refused-chart"):
        assert charts[name]["lines"] == samples, name
    assert charts["within-chart"]["lines"] == [len(run["runningWithin"]) for run in answer["runs"].values()]
    assert charts["refused-bars"]["bars"] == 2
    for number, run in enumerate(answer["runs"].values(), 1):
        _assert_map(charts[f"disks-{number}"], run["disks"])
        for group in run["waitingPods"]:
            assert group["reason"] in seen.read["text"]


def test_a_recording_is_drawn_with_a_bar_for_itself_and_for_each_policy(visited: dict[str, Visit]) -> None:
    seen, answer = visited["recording"]
    assert answer["repeated"] == {"decisions": 2, "equal": 2, "firstDifference": None}
    assert seen.read["charts"]["agreed-bars"]["bars"] == 1 + len(answer["runs"]) == 3
    assert "2 decisions repeated, all equal" in seen.read["text"]
    [different] = answer["runs"]["kube-scheduler"]["differences"]
    assert (different["pod"], different["theirs"], different["ours"]) == ("default/two", None, "a")
    assert " ".join(different["why"].split()) in " ".join(seen.read["text"].split())


def test_doctor_shows_every_finding_with_its_remedy_and_the_disks(visited: dict[str, Visit]) -> None:
    seen, answer = visited["doctor"]
    assert len(answer["findings"]) > 0
    _assert_map(seen.read["charts"]["disks-map"], answer["disks"])
    text = " ".join(seen.read["text"].split())
    for each in answer["findings"]:
        assert each["name"] in text and each["object"] in text
        assert " ".join(each["message"].split()) in text
        # As in a terminal, a finding for which there is nothing to do has no remedy.
        assert (" ".join(each["remedy"].split()) in text) is (each["remedy"] != "nothing to do")
    assert answer["configuration"]["file"].strip() in seen.read["text"]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("hostile")])
def test_what_a_cluster_says_is_shown_and_does_nothing(visited: dict[str, Visit], name: str) -> None:
    text = visited[name][0].read["text"]
    assert "<script>alert(1)</script>" in text
    assert "\\u202e\\x00\\x1b[2J" in text
    assert not {"\u202e", "\x00", "\x1b"} & set(text)


def _assert_map(drawn: Mapping[str, Any], disks: list[Any]) -> None:
    """A block for each volume and each promise, as wide as its bytes say; a box for each pool."""
    volumes = [each for disk in disks for each in disk["volumes"]]
    by_name: Callable[[Any], str] = lambda each: each["claim"] or each["volume"]  # noqa: E731
    assert sorted(drawn["claims"]) == sorted(by_name(each) for each in volumes)
    assert sorted(drawn["promised"]) == sorted(by_name(each) for each in volumes if each["promised"])
    assert drawn["pools"] == sum(len(disk["freeBytes"]) for disk in disks)
    widths = dict(zip(drawn["claims"], drawn["widths"], strict=True))
    for classes in {tuple(disk["classes"]) for disk in disks}:  # every class has a scale of its own
        own = [each for disk in disks if tuple(disk["classes"]) == classes for each in disk["volumes"]]
        sizes = {by_name(each): each["bytes"] for each in own}
        largest = max(sizes, key=lambda name: sizes[name], default="")
        for name, size_bytes in sizes.items():  # blocks have a hairline between them
            assert widths[name] + 1 == pytest.approx((widths[largest] + 1) * size_bytes / sizes[largest], abs=0.5)
