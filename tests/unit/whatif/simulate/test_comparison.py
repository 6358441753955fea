"""Runs side by side: the same arrivals, the first decision where two part, both sides explained."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from simulated import cluster, played, player_of, stateful_set, workload

from tonnage.gates import Gates
from tonnage.scheduling.configuration.configuration import parse
from tonnage.whatif.page import TextPage
from tonnage.whatif.simulate.comparison import compare, first_parting
from tonnage.whatif.simulate.comparison_report import show, sparkline
from tonnage.whatif.simulate.measures import AttemptMade
from tonnage.whatif.simulate.play import Run
from tonnage.whatif.simulate.presets import PRESETS, preset_gates

SCENARIO: dict[str, Any] = {
    "duration": "30m",
    "storage": {"refreshDelay": "30s"},
    "events": [
        {"arrive": "sts/shop/db"},
        {"from": "1m", "until": "20m", "rate": "2/min", "arrive": "deploy/shop/web", "lifetime": {"mean": "5m"}},
    ],
}
DOCS = [*cluster(2), stateful_set(replicas=4, podManagementPolicy="Parallel"), workload("Deployment")]


def preset(name: str, seed: int = 0) -> Run:
    found = PRESETS[name]
    configuration = parse(found.text(), source=name, gates=preset_gates(found, Gates()))
    return Run(name, configuration.profiles, seed)


@pytest.fixture(scope="module")
def four_runs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    player = player_of(tmp_path_factory.mktemp("runs"), DOCS, SCENARIO)
    return compare(player, [preset(name) for name in PRESETS])


def test_every_preset_is_a_configuration() -> None:
    for name in PRESETS:
        assert preset(name).profiles, name
    assert preset("kube-scheduler").profiles[0].gates.CSIStorageCapacityV2 is False
    assert preset("default").profiles[0].gates.CSIStorageCapacityV2 is True


def test_all_runs_see_the_same_pods_arrive(four_runs: Any) -> None:
    arrived = {result.document["arrived"] for result in four_runs.results.values()}
    assert len(arrived) == 1
    tried = [{each.pod for each in result.decisions} for result in four_runs.results.values()]
    assert all(each == tried[0] for each in tried), "the same names too"


def test_any_two_runs_have_one_difference_and_its_sides_are_what_they_decided(four_runs: Any) -> None:
    assert len(four_runs.differences) == 6
    for each in four_runs.differences:
        parting = each["parting"]
        if parting is None:
            continue
        for name, side in parting["sides"].items():
            decided = four_runs.results[name].decisions[parting["decision"]]
            assert (side["pod"], side["node"] or "") == (decided.pod, decided.node)
            assert side["why"] and side["message"]
        one, other = (four_runs.results[name].decisions[: parting["decision"]] for name in each["between"])
        assert one == other, "up to there they are alike"


def test_the_ledger_admits_at_once_what_the_letter_keeps_waiting(four_runs: Any) -> None:
    (found,) = (each for each in four_runs.differences if each["between"] == ["kep", "default"])
    sides = found["parting"]["sides"]
    # Four pods at once on two nodes: by the letter each object is kept back whole until it is refreshed.
    assert sides["kep"]["node"] is None and sides["default"]["node"] in ("node-1", "node-2")
    assert "did not have enough free storage" in sides["kep"]["why"]


def test_kube_scheduler_is_refused_volumes_that_the_ledger_is_not(four_runs: Any) -> None:
    refused = {name: result.document["refusedVolumes"] for name, result in four_runs.results.items()}
    assert refused["kube-scheduler"] > 0
    assert refused["default"] == refused["guaranteed"] == 0


def test_another_seed_has_other_arrivals(tmp_path: Path) -> None:
    times = [[each.at_s for each in played(tmp_path, DOCS, SCENARIO, seed).decisions] for seed in (0, 0, 1)]
    assert times[0] == times[1] != times[2]


def test_where_two_runs_part() -> None:
    same, here, there = AttemptMade(0, 0.0, "a", "n"), AttemptMade(1, 1.0, "b", "n"), AttemptMade(1, 1.0, "b", "m")
    assert first_parting([same, here], [same, here]) is None
    assert first_parting([same, here], [same, there]) == (1, (here, there))
    assert first_parting([same], [same, there]) == (1, (None, there))


def test_a_run_that_is_stopped_tells_what_is_known(tmp_path: Path) -> None:
    player = player_of(tmp_path, DOCS, SCENARIO)
    asked = iter(range(10_000))
    player.is_stopped = lambda: next(asked) > 400
    found = compare(player, [preset("default"), preset("kep")])
    document = found.document()
    assert document["partial"] and list(document["runs"]) == ["default"] and document["differences"] == []
    assert document["runs"]["default"]["partial"]
    assert document["runs"]["default"]["arrived"] > 0
    assert written(found).startswith("PARTIAL: interrupted")


def written(found: Any) -> str:
    page = io.StringIO()
    show(found, TextPage(page))
    return page.getvalue()


def test_the_table_has_one_column_a_run_and_says_where_they_part(four_runs: Any) -> None:
    lines = written(four_runs).splitlines()
    head = next(line for line in lines if "kube-scheduler" in line)
    assert head.split() == ["kube-scheduler", "kep", "default", "guaranteed"]
    placed = next(line for line in lines if line.startswith("placed"))
    assert placed.split()[1:] == [str(each.document["placed"]) for each in four_runs.results.values()]
    assert "WHERE THEY DIFFER" in lines
    assert not any(line != line.rstrip() for line in lines)
    assert "\x1b" not in written(four_runs)


def test_names_of_a_cluster_are_made_printable(four_runs: Any) -> None:
    four_runs.results["kep"].document["waitingPods"].append({"reason": "\x1b[2J", "count": 1, "pods": ["a\nb"]})
    page = written(four_runs)
    four_runs.results["kep"].document["waitingPods"].pop()
    assert "\x1b" not in page and "\\x1b[2J" in page and "a\\nb" in page


@pytest.mark.parametrize(
    ("values", "highest", "shown"),
    [([], None, ""), ([0.0], 1.0, "▁"), ([0.0, 0.5, 1.0], 1.0, "▁▅█"), ([0, 0], None, "▁▁"), ([3, 6], None, "▅█")],
)
def test_a_line_of_bars(values: list[float], highest: float | None, shown: str) -> None:
    assert sparkline(values, highest) == shown


def test_a_line_of_bars_is_never_longer_than_its_width() -> None:
    assert len(sparkline([float(n) for n in range(121)])) == 16


def test_several_seeds_have_a_spread(tmp_path: Path) -> None:
    player = player_of(tmp_path, DOCS, SCENARIO)
    found = compare(player, [preset("default")], seeds=3)
    spread = found.document()["spread"]["default"]
    assert spread["seeds"] == 3
    placed = [found.results["default"].document["placed"], *(each["placed"] for each in found.others["default"])]
    assert spread["placed"] == {"least": min(placed), "most": max(placed)}
    out = io.StringIO()
    show(found, TextPage(out))
    assert "over 3 seeds" in out.getvalue()
    assert "spread" not in compare(player, [preset("default")]).document()
