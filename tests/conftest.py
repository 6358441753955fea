"""Fixtures through the real doors: an API server in its own process, kubectl, the official client, plain HTTP.

And which examples properties are tried with: the same ones every time, so that a test that passes here passes there;
with TONNAGE_RANDOM_EXAMPLES=1 others every time, which is what `make properties` does.
"""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis.internal.conjecture import providers

from examples_tried import tries
from support.processes import ApiServerProcess, start_cluster
from support.run_order import spread

RANDOM_EXAMPLES = "TONNAGE_RANDOM_EXAMPLES"


def choose_examples() -> None:
    """Tell hypothesis which examples to draw, before a test module makes settings of its own: those build on these.

    How long something takes decides nothing, and nothing is remembered from one run for the next.
    """
    of_both: dict[str, Any] = {
        "deadline": None,
        "database": None,
        "max_examples": tries(100),
        "suppress_health_check": [hypothesis.HealthCheck.too_slow],
    }
    hypothesis.settings.register_profile("repeatable", derandomize=True, **of_both)
    hypothesis.settings.register_profile("random", derandomize=False, print_blob=True, **of_both)
    if os.environ.get(RANDOM_EXAMPLES):
        hypothesis.settings.load_profile("random")
        return
    hypothesis.settings.load_profile("repeatable")
    # Now and then hypothesis draws a constant that it found in a module of ours, any that is imported by then: which
    # those are depends on the tests that ran before in the same process. It is not told to leave that by any setting.
    if hasattr(providers, "_get_local_constants") and hasattr(providers, "_local_constants"):
        nothing_found = providers._local_constants
        providers._get_local_constants = lambda: nothing_found


choose_examples()

# What collecting makes lives as long as the process: half a million objects in every worker, which are not looked
# through for garbage again and again. A test makes little garbage that goes in circles.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        items[:] = spread(items, workers, file_of=lambda item: item.nodeid.partition("::")[0])


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


CLUSTER_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    """One server for the tests of a file; each test keeps to a namespace or to names of its own."""
    running = start_cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.stop()


@pytest.fixture
def namespace(cluster: ApiServerProcess) -> str:
    """A fresh namespace."""
    name = f"ns-{next(CLUSTER_NUMBERS)}"
    assert cluster.post("/api/v1/namespaces", {"metadata": {"name": name}}).code == 201
    return name


class Kubectl:
    """The real kubectl against one cluster."""

    def __init__(self, cluster: ApiServerProcess, home: Path) -> None:
        self._base = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "--cache-dir", str(home / "cache")]
        self._home = home

    def command(self, *arguments: str) -> list[str]:
        return [*self._base, *arguments]

    def run(self, *arguments: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        text = stdin if isinstance(stdin, str) or stdin is None else yaml.safe_dump_all(stdin)
        environment = {**os.environ, "HOME": str(self._home)}
        return subprocess.run(
            self.command(*arguments),
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
            check=False,
        )

    def __call__(self, *arguments: str, stdin: Any = None) -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def fails(self, *arguments: str, stdin: Any = None) -> str:
        """Run what must be refused, and give what kubectl says about it."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)} was accepted:\n{done.stdout}"
        return done.stderr


@pytest.fixture
def kubectl(cluster: ApiServerProcess, tmp_path: Path) -> Kubectl:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH")
    return Kubectl(cluster, tmp_path)
