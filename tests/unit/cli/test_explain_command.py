"""`tonnage explain` on manifests: what it asks, what it answers, what it says beside the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from tonnage.cli.explain import explain
from tonnage.errors import TonnageError


def node(name: str, cpu: str = "4", **spec: Any) -> dict[str, Any]:
    offered = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"allocatable": offered, "capacity": offered},
    }


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [container], **spec},
    }


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(*docs: dict[str, Any], name: str = "x.yaml") -> str:
    Path(name).write_text(yaml.safe_dump_all(docs))
    return name


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(explain, arguments, input=stdin, standalone_mode=False)


def answer(*docs: dict[str, Any], name: str = "web", options: tuple[str, ...] = ()) -> tuple[dict[str, Any], str]:
    """The JSON answer for one of these pods, and what was said beside it."""
    result = run("-f", write(*docs), "--pod", f"shop/{name}", "-o", "json", *options)
    if result.exception is not None:
        raise result.exception
    return json.loads(result.stdout), result.stderr


def test_the_table_goes_to_stdout():
    result = run("-f", write(node("a", cpu="8"), node("b"), pod("web")), "--pod", "shop/web")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == ["shop/web goes to a", "fits on 2 of 2 nodes"]
    assert result.stderr == ""


def test_json_is_the_contract_and_nothing_else():
    found, said = answer(node("a"), pod("web"))
    assert found == {
        "pod": "shop/web",
        "schedulable": True,
        "node": "a",
        "message": "fits on 1 of 1 nodes",
        "nodes": [
            {
                "name": "a",
                "feasible": True,
                "rejectedBy": "",
                "reasons": [],
                "unresolvable": False,
                "scores": {},
                "total": 0,
            }
        ],
        "volumes": {},
    }
    assert said == ""


def test_no_is_an_answer_too():
    result = run("-f", write(node("a"), pod("web", cpu="40")), "--pod", "shop/web", "-o", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["message"] == "0/1 nodes are available: 1 Insufficient cpu."


def test_files_may_follow_one_another_and_stdin_joins_them():
    nodes, pods = write(node("a"), name="n.yaml"), write(pod("web"), name="p.yaml")
    more = json.dumps(node("b", cpu="16"))
    for arguments in (("-f", nodes, "-f", pods, "-f", "-"), ("-f", nodes, pods, "-")):
        result = run(*arguments, "--pod", "shop/web", "-o", "json", stdin=more)
        assert json.loads(result.stdout)["node"] == "b"


def test_a_pod_without_a_namespace_is_in_default():
    web = pod("web")
    del web["metadata"]["namespace"]
    result = run("-f", write(node("a"), web), "--pod", "web", "-o", "json")
    assert json.loads(result.stdout)["pod"] == "default/web"


def test_the_same_input_gives_the_same_answer_in_any_order():
    docs = [node(f"n{number}") for number in range(9)] + [pod("web")]
    chosen = {answer(*docs)[0]["node"], answer(*docs)[0]["node"], answer(*reversed(docs))[0]["node"]}
    assert len(chosen) == 1


def test_a_pod_that_has_a_node_is_decided_as_if_it_were_not_there():
    # a has 4 cpus of which web uses 3; were it still counted, 3 more would not fit.
    found, said = answer(node("a"), pod("web", cpu="3", nodeName="a"))
    assert (found["node"], found["message"]) == ("a", "fits on 1 of 1 nodes")
    assert said == "note: shop/web is on a; this is decided as if it were not there\n"


def test_a_pod_that_has_a_node_may_find_a_better_one():
    found, _ = answer(node("a"), node("b", cpu="64"), pod("web", nodeName="a"))
    assert found["node"] == "b"


def test_a_pod_that_has_ended_is_told_apart():
    ended = {**pod("web", nodeName="a"), "status": {"phase": "Failed"}}
    assert answer(node("a"), ended)[1] == "note: shop/web has ended on a; this is decided as if it were not there\n"


def test_a_pod_on_its_way_out_is_told_apart():
    going = pod("web")
    going["metadata"]["deletionTimestamp"] = "2026-11-15T02:29:13Z"
    assert answer(node("a"), going)[1] == "note: shop/web is being deleted, so schedulers ignore it\n"


def test_other_pods_take_their_room():
    found, _ = answer(node("a"), node("b"), pod("web", cpu="3"), pod("other", cpu="2", nodeName="b"))
    assert (found["node"], found["message"]) == ("a", "fits on 1 of 2 nodes")


def test_kinds_that_are_passed_over_are_counted():
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    assert answer(node("a"), pod("web"), deployment)[1] == (
        "note: ignored, since scheduling does not read them: 1 Deployment\n"
    )


def test_warnings_are_said():
    assert answer(node("a"), node("a", cpu="2"), pod("web"))[1] == (
        "warning: x.yaml, document 2 (Node a) is in x.yaml, document 1 too; the later one is used\n"
    )


def test_a_claim_that_is_not_there_is_named():
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    found, _ = answer(node("a"), pod("web", volumes=volumes))
    assert not found["schedulable"]
    assert found["message"] == '0/1 nodes are available: persistentvolumeclaim "data" not found.'


# -- profiles ---------------------------------------------------------------------------------------------------------


def config(*names: str) -> str:
    packed = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    plugin = {"name": "NodeResourcesFit", "args": {"scoringStrategy": packed}}
    doc = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name, "pluginConfig": [plugin]} for name in names],
    }
    return write(doc, name="config.yaml")


def test_a_configuration_decides():
    docs = (node("large", cpu="64"), node("small", cpu="2"), pod("web"))
    assert answer(*docs)[0]["node"] == "large"
    assert answer(*docs, options=("--config", config("default-scheduler")))[0]["node"] == "small"


def test_the_pods_scheduler_name_chooses_the_profile():
    web = pod("web", schedulerName="packed")
    docs = (node("large", cpu="64"), node("small", cpu="2"), web)
    assert answer(*docs, options=("--config", config("other", "packed")))[0]["node"] == "small"


def test_a_scheduler_name_without_a_profile_is_an_error_with_a_configuration():
    with pytest.raises(TonnageError) as caught:
        answer(node("a"), pod("web", schedulerName="mine"), options=("--config", config("one", "two")))
    assert caught.value.message == "shop/web asks for schedulerName mine, and config.yaml has no such profile"
    assert caught.value.hint == "its profiles are one, two"


def test_a_scheduler_name_without_a_profile_gets_the_default_plugins_without_one():
    found, said = answer(node("a"), pod("web", schedulerName="mine"))
    assert found["node"] == "a"
    assert said == "note: shop/web asks for schedulerName mine; this is what the default plugins decide\n"


# -- asked wrongly ----------------------------------------------------------------------------------------------------


def test_without_files_and_without_any_kubeconfig_there_is_nothing_to_ask(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    result = run("--pod", "shop/web")
    assert isinstance(result.exception, click.UsageError)
    assert result.exception.message.startswith("give manifests with -f or a cluster with --kubeconfig; no kubeconfig")


def test_the_usual_kubeconfig_counts_when_no_file_is_given(monkeypatch, tmp_path):
    config = tmp_path / "lab.conf"
    config.write_text("kind: Config\ncurrent-context: nowhere\n")
    monkeypatch.setenv("KUBECONFIG", str(config))
    result = run("--pod", "shop/web")
    assert isinstance(result.exception, TonnageError)
    assert "there is no such context" in result.exception.message


def test_with_files_alone_no_kubeconfig_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "broken"))
    (tmp_path / "broken").write_text("[")
    assert answer(node("a"), pod("web"))[0]["node"] == "a"


@pytest.mark.parametrize("key", ["", "/web", "shop/", "a/b/c"])
def test_a_pod_is_named_by_namespace_and_name(key):
    result = run("-f", "x.yaml", "--pod", key)
    assert isinstance(result.exception, click.UsageError)
    assert result.exception.message == f'--pod "{key}": write namespace/name'


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("shop/wbe", "did you mean shop/web?"),
        ("lab/web", "did you mean shop/web?"),
        ("shop/que", "did you mean shop/queue-0?"),
        ("shop/front", "shop/front is a Deployment; name one of its pods"),
        ("x/y", None),
    ],
)
def test_a_pod_that_is_not_there_is_an_error_with_close_names(asked, hint):
    metadata = {"name": "front", "namespace": "shop"}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
    result = run("-f", write(node("a"), pod("web"), pod("queue-0"), deployment), "--pod", asked)
    assert isinstance(result.exception, TonnageError)
    assert result.exception.message == f'there is no pod "{asked}" among the 2 of the manifests'
    assert result.exception.hint == hint


def test_manifests_without_pods_are_told():
    result = run("-f", write(node("a")), "--pod", "shop/web")
    assert isinstance(result.exception, TonnageError)
    assert result.exception.message == "there are no pods in the manifests"
