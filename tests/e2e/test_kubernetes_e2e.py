"""Kubernetes' own end-to-end tests against `tonnage up`: those that `kubernetes_e2e.yaml` names.

    KUBERNETES_E2E=/path/to/e2e.test pytest tests/e2e/test_kubernetes_e2e.py

The binary is Kubernetes' test/e2e, of the release the list is for. Each group of the list is one test here; what fails
is told with the names and messages of Kubernetes' tests.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from scene import whole_cluster

from support.processes import Up
from tonnage import KUBERNETES_VERSION

LIST: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "kubernetes_e2e.yaml").read_text())
GROUPS: dict[str, dict[str, list[str]]] = LIST["groups"]
LEFT_OUT: list[dict[str, str]] = LIST["left_out"]
TIME_LIMIT_S = 1800


@pytest.fixture(scope="module")
def binary() -> Path:
    """Kubernetes' e2e.test."""
    named = os.environ.get("KUBERNETES_E2E", "")
    if not named:
        pytest.skip("KUBERNETES_E2E does not name Kubernetes' e2e.test")
    if not Path(named).is_file():
        pytest.fail(f"KUBERNETES_E2E={named} is no file")
    return Path(named)


@pytest.fixture(scope="module")
def cluster(binary: Path) -> Iterator[Up]:
    with whole_cluster() as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_kubernetes_e2e(binary: Path, cluster: Up, tmp_path: Path, group: str) -> None:
    report = tmp_path / "report.xml"
    command = [
        str(binary),
        f"--kubeconfig={cluster.folder / 'kubeconfig'}",
        "--provider=local",
        "--dump-logs-on-failure=false",
        "--disable-log-dump=true",
        "--ginkgo.no-color",
        f"--ginkgo.timeout={TIME_LIMIT_S}s",
        f"--ginkgo.junit-report={report}",
        *(f"--ginkgo.focus={name}" for name in GROUPS[group]["tests"]),
        *(f"--ginkgo.skip={each['tests']}" for each in LEFT_OUT),
    ]
    done = subprocess.run(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIME_LIMIT_S + 60
    )
    assert report.exists(), done.stdout[-4000:]
    passed, failures = _results(report)
    assert not failures, "\n".join([f"{len(failures)} failed, {len(passed)} passed", *failures])
    assert passed, f"no test of {binary} matches the list\n{done.stdout[-2000:]}"


def _results(report: Path) -> tuple[list[str], list[str]]:
    """The names of the tests that passed, and of those that failed with why."""
    passed, failed = [], []
    for case in ElementTree.parse(report).iter("testcase"):
        name, state = case.get("name", ""), case.get("status", "")
        if state == "passed":
            passed.append(name)
        elif state not in ("skipped", "pending"):
            why = case.find("failure")
            told = why.get("message", "") if why is not None else ""
            failed.append(f"{name}: {state}: {told[:500]}")
    return [name for name in passed if name.startswith("[It]")], failed


def test_the_list_is_for_the_release_that_is_followed() -> None:
    assert LIST["kubernetes"].rpartition(".")[0] == f"v{KUBERNETES_VERSION}".rpartition(".")[0]


def test_every_name_of_the_list_can_be_read_and_what_is_left_out_says_why() -> None:
    names = [name for group in GROUPS.values() for name in group["tests"]] + [each["tests"] for each in LEFT_OUT]
    assert all(re.compile(name) for name in names) and len(names) == len(set(names))
    assert all(each["why"].endswith(".") for each in LEFT_OUT)
