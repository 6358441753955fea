"""TAB: words and values, from tables, files and clusters, and never an error."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tonnage.cli import cli
from tonnage.cli.completion import OurBash, OurFish, OurZsh, answer_kubectl, replaced_part
from tonnage.gates import Gates

EXAMPLE = Path(__file__).parents[3] / "examples" / "02-explain"
MANIFESTS = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: mill-1}}
- {apiVersion: v1, kind: Node, metadata: {name: mill-2}}
- {apiVersion: v1, kind: Pod, metadata: {name: db-0, namespace: shop}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-0}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop}}
"""


def values(*words: str, shell=OurZsh) -> list[str]:
    *before, incomplete = words
    found = shell(cli, {}, "tonnage", "_TONNAGE_COMPLETE").get_completions(list(before), incomplete)
    return [item.value for item in found]


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    (tmp_path / "cluster.yaml").write_text(MANIFESTS)
    return str(tmp_path / "cluster.yaml")


def test_commands_and_flags():
    assert values("ex") == ["explain"]
    assert values("fault", "s") == ["set"]
    assert "--one-by-one" in values("drain-preview", "--")


def test_gates_with_the_value_that_changes_something_first():
    found = values("scheduler", "--feature-gates", "StorageCapacityS")
    assert found == ["StorageCapacityScoring=false", "StorageCapacityScoring=true"] or found == [
        "StorageCapacityScoring=true",
        "StorageCapacityScoring=false",
    ]
    later = values("scheduler", "--feature-gates", "StorageCapacityScoring=true,Mut")
    assert later
    assert all(each.startswith("StorageCapacityScoring=true,Mut") for each in later)
    assert len(values("up", "--feature-gates", "")) == 2 * len(Gates.table())
    assert values("up", "--feature-gates=StorageCapacityScoring=t") == ["StorageCapacityScoring=true"]


def test_values_from_files(manifests: str):
    assert values("explain", "-f", manifests, "--pod", "") == ["default/web-0", "shop/db-0"]
    assert values("explain", "-f", manifests, "--namespace", "shop", "--pod", "d") == ["db-0"]
    assert values("explain", "-f", manifests, "--workload", "St") == ["StatefulSet/"]
    assert values("fit", "-f", manifests, "--workload", "StatefulSet/") == ["StatefulSet/shop/db"]
    assert values("drain-preview", "-f", manifests, "mill-1", "") == ["mill-2"]
    assert values("explain", "-f", manifests, "-n", "") == ["default", "shop"]


def test_faults_and_the_nodes_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".tonnage"  # the default
    folder.mkdir(mode=0o700)
    (folder / "cluster.json").write_text(json.dumps({"nodes": 2}))
    (folder / "cluster.json").chmod(0o600)
    assert values("fault", "--data-dir", str(folder), "set", "slo") == ["slots-taken", "slow"]
    assert values("fault", "--data-dir", str(folder), "set", "dead", "--node", "") == ["node-1", "node-2"]
    assert values("fault", "set", "dead", "--node", "") == ["node-1", "node-2"]


def test_stories_of_the_demo():
    assert values("demo", "--only", "l") == ["least-free-first", "limits-follow-reality", "limits-stay-what-they-were"]


def test_contexts_of_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "config"
    file.write_text("contexts: [{name: lab}, {name: live}]\n")
    assert values("explain", "--kubeconfig", str(file), "--context", "l") == ["lab", "live"]
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert values("doctor", "--context", "li") == ["live"]


@pytest.mark.parametrize("text", ["", "not: [a kubeconfig", "clusters: 3"])
def test_what_cannot_be_told_is_left_out(tmp_path: Path, text: str):
    file = tmp_path / "config"
    file.write_text(text)
    assert values("explain", "--kubeconfig", str(file), "--pod", "") == []
    assert values("drain-preview", "--kubeconfig", str(file), "") == []
    assert values("explain", "-f", str(tmp_path / "none.yaml"), "--pod", "") == []


def test_what_bash_does_not_replace():
    assert replaced_part("Name=t", "=:") == "Name="
    assert replaced_part("A=true,B", "=:") == "A="
    assert replaced_part("--feature-gates=Name=t", "=:") == "Name="
    assert replaced_part("--node=n", "=:") == ""
    assert replaced_part("Name=t", " ") == ""


def test_kubectl_is_answered_as_a_plugin_of_cobra():
    assert answer_kubectl(cli, ["dem"]).splitlines()[0].startswith("demo\tPlay the enhancements' stories")
    assert (
        answer_kubectl(cli, ["scheduler", "--feature-gates=StorageCapacityScoring=t"])
        .splitlines()[0]
        .startswith("--feature-gates=StorageCapacityScoring=true\t")
    )
    assert answer_kubectl(cli, ["dem"]).endswith("\n:4")
    assert answer_kubectl(cli, ["explain", "-f", ""]) == ":0"


@pytest.mark.parametrize("shell", [OurBash, OurZsh, OurFish])
def test_scripts_drop_talk(shell):
    assert "2>/dev/null" in shell(cli, {}, "tonnage", "_TONNAGE_COMPLETE").source()


@pytest.fixture
def on_path(tmp_path: Path) -> dict[str, str]:
    """An environment in which `tonnage` and kubectl's plugin are programs on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    entries = {"tonnage": "main", "kubectl-tonnage": "kubectl_main", "kubectl_complete-tonnage": "kubectl_complete"}
    for name, function in entries.items():
        file = folder / name
        file.write_text(f"#!{sys.executable}\nfrom tonnage.cli import {function}\n{function}()\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}


@pytest.mark.process
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_itself_completes(on_path: dict[str, str], manifests: str):
    def typed(line: str) -> list[str]:
        asked = (
            'eval "$(tonnage completion bash)"; COMP_LINE="$1"; COMP_POINT=${#1}; compopt() { :; }; '
            '_tonnage_completion tonnage; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", asked, "_", line], env=on_path, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    assert typed("tonnage drain-") == ["drain-preview"]
    assert typed("tonnage up --feature-gates StorageCapacityScoring=t") == ["true"]
    assert typed(f"tonnage explain -f {manifests} --pod s") == ["shop/db-0"]
    assert typed("tonnage explain --kubeconfig 'unfinished") == []


@pytest.mark.process
@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kubectl_runs_and_completes_the_plugin(on_path: dict[str, str], manifests: str):
    def kubectl(*words: str) -> str:
        return subprocess.run(["kubectl", *words], env=on_path, capture_output=True, text=True, check=True).stdout

    assert kubectl("tonnage", "version", "--help").startswith("Usage: kubectl tonnage version")
    assert "web-0" in kubectl("tonnage", "explain", "-f", str(EXAMPLE), "--pod", "shop/web-0")
    assert kubectl("__complete", "tonnage", "explain", "-f", manifests, "--pod", "sh").splitlines()[0] == "shop/db-0"


@pytest.mark.parametrize("shell", [OurZsh, OurFish])
def test_a_shell_that_replaces_the_word_is_given_the_flag_with_its_value(shell, monkeypatch):
    words = ["tonnage", "scheduler", "--feature-gates=StorageCapacityScoring=f"]
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", words[-1] if shell is OurFish else "2")
    told = shell(cli, {}, "tonnage", "_TONNAGE_COMPLETE").complete()
    assert "--feature-gates=StorageCapacityScoring=false" in told
