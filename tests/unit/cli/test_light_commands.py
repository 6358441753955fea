"""What a command does not import: help is flags alone, and an answer from files needs no HTTP, gRPC or cryptography.

Nothing is timed here. A module that comes back through an import at the top of some file is named by the test.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tonnage.cli import COMMANDS

HEAVY = ("numpy", "aiohttp", "grpc", "google.protobuf", "cryptography", "rich", "sqlite3", "prometheus_client", "yaml")
NETWORK = ("aiohttp", "grpc", "google.protobuf", "cryptography", "sqlite3", "prometheus_client")
LARGE = (
    *("tonnage.documents", "tonnage.scheduling.engine", "tonnage.scheduling.plugins", "tonnage.apiserver.server"),
    *("tonnage.client.http", "tonnage.controllers.program", "tonnage.plane.cluster"),
)
_RUN = """
import json, sys
from tonnage.cli import cli
cli.main(json.loads(sys.argv[1]), prog_name="tonnage", standalone_mode=False)
sys.stderr.write("\\n" + json.dumps(sorted(sys.modules)))
"""
_HELP_OF_ALL = """
import contextlib, io, json, sys
from tonnage.cli import COMMANDS, cli
found, before = {}, set()
for command in COMMANDS:
    with contextlib.redirect_stdout(io.StringIO()):
        cli.main([command, "--help"], prog_name="tonnage", standalone_mode=False)
    found[command] = sorted(set(sys.modules) - before)
    before = set(sys.modules)
print(json.dumps(found))
"""


def loaded_by(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True, timeout=120)


def of(heavy: tuple[str, ...], modules: list[str]) -> set[str]:
    return {each for each in heavy if each in modules}


def test_no_help_imports_what_only_work_needs() -> None:
    # One after the other in one process: each command is asked for what it brings beyond those before it.
    found: dict[str, list[str]] = json.loads(loaded_by(_HELP_OF_ALL).stdout)
    assert {command: names for command, each in found.items() if (names := of(HEAVY + LARGE, each))} == {}
    assert found.keys() == COMMANDS.keys()


@pytest.mark.parametrize("words", [["--help"], ["version"], ["completion", "bash"]], ids=" ".join)
def test_the_first_words_of_all_import_next_to_nothing(words: list[str]) -> None:
    told = loaded_by(_RUN, json.dumps(words)).stderr.splitlines()[-1]
    assert of((*HEAVY, *LARGE, "asyncio", "ssl"), json.loads(told)) == set()


def test_an_answer_from_files_needs_no_network(tmp_path: Path) -> None:
    spec = {"containers": [{"name": "web", "image": "web:1"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    words = ["explain", "-f", str(tmp_path / "pod.json"), "--pod", "default/web", "-o", "json"]
    told = loaded_by(_RUN, json.dumps(words)).stderr.splitlines()[-1]
    assert of((*NETWORK, "rich", "tonnage.client.http"), json.loads(told)) == set()


def test_a_cluster_without_a_dashboard_loads_nothing_of_it() -> None:
    code = "import json, sys, tonnage.cli.up, tonnage.plane.cluster; print(json.dumps(sorted(sys.modules)))"
    names: list[str] = json.loads(loaded_by(code).stdout)
    assert [each for each in names if each.startswith("tonnage.dashboard")] == []
