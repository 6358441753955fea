"""deploy/monitoring: rules and dashboard ask for metrics and labels that programs show, and promtool is content."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.append(str(Path(__file__).parents[3] / "scripts"))
from reference.metric_catalogue import catalogue

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "monitoring"
RULES: dict[str, Any] = yaml.safe_load((FOLDER / "prometheus-rules.yaml").read_text("utf-8"))
TESTS: dict[str, Any] = yaml.safe_load((FOLDER / "prometheus-rules.test.yaml").read_text("utf-8"))
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana-dashboard.json").read_text("utf-8"))
GUIDE = (ROOT / "docs" / "guides" / "observe.md").read_text("utf-8")

EVERY_RULE = [rule for group in RULES["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in EVERY_RULE if "alert" in rule}
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")

OF_THE_SCRAPE = {"job", "namespace", "pod", "instance"}
"""Labels that Prometheus puts on whatever it scrapes."""
WORDS = {
    "sum", "max", "min", "by", "rate", "increase", "histogram_quantile", "absent", "or", "and", "unless", "without",
    "label_values", "on", "ignoring", "predict_linear",
}  # fmt: skip


def known_series() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for metrics in catalogue().values():
        for each in metrics:
            for series in each.series:
                labels = {*each.labels, *OF_THE_SCRAPE}
                found[series] = labels | ({"le"} if series.endswith("_bucket") else set())
    for rule in EVERY_RULE:
        if "record" in rule:
            grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])
            found[rule["record"]] = {label.strip() for each in grouped for label in each.split(",")}
    return found


SERIES = known_series()


def expressions() -> Iterator[tuple[str, str]]:
    for rule in EVERY_RULE:
        yield rule.get("alert") or rule["record"], rule["expr"]
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


EXPRESSIONS = list(expressions())


@pytest.mark.parametrize(("where", "expr"), EXPRESSIONS, ids=[where for where, _ in EXPRESSIONS])
def test_an_expression_names_only_metrics_and_labels_that_are_shown(where: str, expr: str) -> None:
    selectors = re.findall(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{([^}]*)\})?", re.sub(r'"[^"]*"', '""', _bare(expr)))
    named = {name: matchers for name, matchers in selectors if name not in WORDS}
    assert named
    for name, matchers in named.items():
        assert name in SERIES, f"{where}: nobody shows {name}"
        asked = set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", matchers))
        assert asked <= SERIES[name], f"{where}: {name} has no {asked - SERIES[name]}"
    grouped = {label.strip() for each in re.findall(r"by \(([^)]*)\)", expr) for label in each.split(",")}
    of_named = set().union(*(SERIES[name] for name in named))
    assert grouped <= of_named, f"{where}: nothing has {grouped - of_named}"


def _bare(expr: str) -> str:
    """Without ranges, numbers and groupings."""
    return re.sub(r"\[[^]]*\]|by \([^)]*\)|(?<![a-zA-Z0-9_:])[0-9.]+", " ", expr)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_how_bad_it_is_what_it_means_and_where_to_read_on(name: str) -> None:
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert alert["annotations"]["summary"].endswith(".") and len(alert["annotations"]["description"]) > 40
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert (ROOT / page).exists() and anchor == name.lower()
    assert f"### {name}\n" in GUIDE, "the guide has a runbook for every alert"


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_tested_to_fire_and_to_stay_quiet(name: str) -> None:
    expected = [
        bool(case["exp_alerts"])
        for test in TESTS["tests"]
        for case in test["alert_rule_test"]
        if case["alertname"] == name
    ]
    assert set(expected) == {True, False}


def test_the_dashboard_is_one_that_grafana_reads() -> None:
    assert DASHBOARD["schemaVersion"] >= 38 and DASHBOARD["uid"] == "tonnage"
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource" and {"job", "namespace"} <= variables.keys()
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for panel in PANELS:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["description"] and panel["targets"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
    taken = [
        (panel["gridPos"]["y"] + dy, panel["gridPos"]["x"] + dx)
        for panel in DASHBOARD["panels"]
        for dy in range(panel["gridPos"]["h"])
        for dx in range(panel["gridPos"]["w"])
    ]
    assert len(set(taken)) == len(taken), "no panel lies on another"


def promtool(*arguments: str) -> str:
    """What it complains about; empty when it is content."""
    done = subprocess.run(["promtool", *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@needs_promtool
@pytest.mark.process
def test_promtool_finds_the_rules_good() -> None:
    assert promtool("check", "rules", "prometheus-rules.yaml") == ""


@needs_promtool
@pytest.mark.process
def test_every_alert_fires_and_stays_quiet_as_its_test_says() -> None:
    assert promtool("test", "rules", "prometheus-rules.test.yaml") == ""


@needs_promtool
@pytest.mark.process
def test_every_expression_of_the_dashboard_parses(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": target["expr"]}
        for number, target in enumerate(target for panel in PANELS for target in panel["targets"])
    ]
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert promtool("check", "rules", str(tmp_path / "rules.yaml")) == ""
