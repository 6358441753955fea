"""What runs on a server is what people run: workflows call make targets, with no more rights than reading needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
SUPPORTED = ["3.11", "3.12", "3.13", "3.14"]


def steps_of(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_make_targets_and_may_only_read(path: Path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in workflow["jobs"].values())
    commands = [step["run"] for step in steps_of(workflow) if "run" in step]
    assert commands
    for command in commands:
        assert command.removeprefix("make ") in TARGETS, command
    for action in (step["uses"] for step in steps_of(workflow) if "uses" in step):
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action), action
    assert len(re.findall(r"uses: \S+ # v\d+\.\d+\.\d+$", path.read_text(), re.MULTILINE)) == path.read_text().count(
        "uses:"
    )


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_package_is_pinned_with_hashes_and_from_no_address(name: str):
    text = (ROOT / name).read_text()
    assert "://" not in text and "@" not in text
    for package in text.replace("\\\n", " ").splitlines():
        words = package.split(" --hash=")
        assert re.match(r"[a-z0-9-]+==\S+( ; .+)? *$", words[0]), package[:80]
        assert len(words) >= 2 and all(re.fullmatch(r"sha256:[0-9a-f]{64} *", word) for word in words[1:]), words[0]


def test_every_supported_python_is_tested():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python-version"] == SUPPORTED
    assert f'requires-python = ">={SUPPORTED[0]}"' in (ROOT / "pyproject.toml").read_text()


def test_hooks_before_a_commit_download_nothing():
    configuration = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [each["repo"] for each in configuration["repos"]] == ["local"]
    hooks = {hook["id"]: hook for hook in configuration["repos"][0]["hooks"]}
    assert {"ruff", "ruff-format", "mypy"} <= set(hooks)
    for hook in hooks.values():
        assert hook["entry"].startswith((".venv/bin/python -m ", "make ")), hook["entry"]


def test_owners_are_named_for_paths_that_exist():
    for line in (ROOT / ".github" / "CODEOWNERS").read_text().splitlines():
        if line.startswith("/"):
            assert (ROOT / line.split()[0].strip("/")).exists(), line


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name
)
def test_issue_forms_are_as_github_reads_them(path: Path):
    form = yaml.safe_load(path.read_text())
    if path.name == "config.yml":
        assert set(form) == {"blank_issues_enabled"}
        return
    assert {"name", "description", "body"} <= set(form)
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(ids) == len(set(ids))
    assert path.name != "bug.yml" or "replay" in ids
