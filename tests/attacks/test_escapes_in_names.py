"""Names, labels and messages that a terminal would obey, in every place where a command reads text, and in logs.

Files and dumps may hold anything, though an API server would refuse it: every string of a small cluster in turn is made
hostile, and whatever a command prints, an answer or a complaint, holds no control character but line ends and tabs, no
mark that hides text or turns it around, no markup that became a colour, and no line that a name began.
"""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tonnage import cli, logs
from tonnage.cli import dashboard as status_command
from tonnage.faults import Fault
from tonnage.plane.status import ClusterStatus, PlaneNodeStatus, PoolStatus, ProgramStatus
from tonnage.scheduling.decision.explain import Explanation, NodeAnswer
from tonnage.stories.story_runner import StoryRunner
from tonnage.whatif import explain_report, replay_steps
from tonnage.whatif.page import TextPage

HOSTILE = (
    "x\x1b[2J\x1b]0;owned\x07\x9b31m\r\nerror: forged\n\0\x7f\x85\u202e\u2066\u2028\u200b\ufeff[red]y[/red][link=z]"
)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def assert_clean(printed: str) -> None:
    bad = [
        char for char in printed if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]
    assert not bad, f"{bad!r} in {printed!r}"
    assert "\nerror: forged" not in printed


# -- commands on files ------------------------------------------------------------------------------------------------

OFFERED = {"cpu": "4", "memory": "8Gi", "pods": "110"}
POOLS = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "pools"}}
CLUSTER: list[dict[str, Any]] = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"zone": "a"}, "annotations": {"note": "b"}},
        "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": OFFERED,
            "capacity": OFFERED,
            "conditions": [{"type": "Ready", "reason": "r", "message": "m"}],
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n2", "labels": {"zone": "b"}},
        "status": {"allocatable": OFFERED, "capacity": OFFERED},
    },
    POOLS | {"provisioner": "driver", "volumeBindingMode": "WaitForFirstConsumer", "parameters": {"p": "q"}},
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": "driver"},
        "spec": {"storageCapacity": True},
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "c1", "namespace": "kube-system"},
        "storageClassName": "pools",
        "capacity": "5Gi",
        "nodeTopology": {"matchLabels": {"zone": "b"}},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop"},
        "spec": {
            "storageClassName": "pools",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "9Gi"}},
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {
            "schedulerName": "default-scheduler",
            "nodeSelector": {"zone": "b"},
            "containers": [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        },
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "r", "message": "m"}]},
    },
]


def spoiled(value: Any) -> Iterator[Any]:
    """The value with one of its strings, or the name of one of its fields, made hostile; each in turn."""
    if isinstance(value, str):
        yield value + HOSTILE
    elif isinstance(value, dict):
        for key, item in value.items():
            for other in spoiled(item):
                yield {**value, key: other}
        if value:
            key = next(iter(value))
            yield {**value, key + HOSTILE: value[key]}
    elif isinstance(value, list):
        for number, item in enumerate(value):
            for other in spoiled(item):
                yield [*value[:number], other, *value[number + 1 :]]


def printed_by(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["tonnage", *arguments])
    with pytest.raises(SystemExit):
        cli.main()
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err, printed.err
    return printed.out + printed.err


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(doc: Any, name: str = "x.json") -> str:
    Path(name).write_text(json.dumps(doc))
    return name


def as_list(items: list[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}


@pytest.mark.parametrize("position", range(len(CLUSTER)), ids=[each["kind"] for each in CLUSTER])
def test_explain_and_replay_of_hostile_manifests(position, capsys, monkeypatch):
    for number, other in enumerate(spoiled(CLUSTER[position])):
        items = [*CLUSTER[:position], other, *CLUSTER[position + 1 :]]
        file = written(as_list(items))
        key = "shop/web"
        if number % 3 == 0:
            steps = [{"schedule": key}, {"apply": [other]}, {"delete": [f"Node/n1{HOSTILE}"]}, {"advance": "30s"}]
            assert_clean(printed_by(capsys, monkeypatch, "replay", "-f", file, written(steps, "steps.json")))
        form = "json" if number % 5 == 0 else "table"
        assert_clean(printed_by(capsys, monkeypatch, "explain", "-f", file, "--pod", key, "-o", form))


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "-f", HOSTILE.replace("\0", ""), "--pod", "a/b"),
        ("explain", "-f", "x.json", "--pod", HOSTILE),
        ("explain", "-f", "x.json", "--pod", f"shop/{HOSTILE}"),
        ("explain", "--kubeconfig", "kubeconfig", "--pod", "a/b"),
        ("explain", "-f", "x.json", "--pod", "shop/web", "--config", "config.json"),
        ("replay", "-f", "x.json", "config.json"),
        ("fault", "--file", "faults.json", "list"),
        ("fault", "--file", "faults.json", "set", "slow" + HOSTILE),
        ("status", "--data-dir", "x\x1b[2J"),
        ("scheduler", "--config", "config.json", "--kubeconfig", "kubeconfig"),
        (HOSTILE,),
        ("explain", f"--{HOSTILE}"),
    ],
    ids=range(12),
)
def test_hostile_arguments_and_files(arguments, capsys, monkeypatch):
    written(as_list(CLUSTER))
    written([{"kind": "slow", "node": HOSTILE, "value": 1}], "faults.json")
    written({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": HOSTILE, HOSTILE: 1}, "config.json")
    entry = {"name": HOSTILE, "cluster": {"server": HOSTILE}}
    written({"kind": "Config", "current-context": HOSTILE, "clusters": [entry], "contexts": []}, "kubeconfig")
    assert_clean(printed_by(capsys, monkeypatch, *arguments))


# -- reports ----------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("out_of", [io.StringIO, Terminal])
def test_reports_of_a_cluster_that_nobody_checked(out_of):
    """A live server's objects are taken as they are."""
    scores = {"NodeResourcesFit": 9, HOSTILE: 3}
    nodes = [
        NodeAnswer(HOSTILE, True, scores=scores, total=12),
        NodeAnswer("b", True, scores={**scores, HOSTILE: 4}, total=13),
        NodeAnswer(f"c{HOSTILE}", False, HOSTILE, (HOSTILE, "b")),
        replace(NodeAnswer(f"d{HOSTILE}", True, scores=scores), passed_over=HOSTILE),
    ]
    for answer in (
        Explanation(f"shop/{HOSTILE}", HOSTILE, HOSTILE, nodes),
        Explanation(f"shop/{HOSTILE}", "", HOSTILE, nodes),
        replace(Explanation(f"shop/{HOSTILE}", HOSTILE, HOSTILE, nodes), held_back=HOSTILE),
    ):
        out = out_of()
        page = TextPage(out)
        explain_report.print_explanation(answer, {HOSTILE: 2}, page)
        replay_steps.show([replay_steps.StepResult(1, HOSTILE, [HOSTILE], answer)], page)
        printed = COLOURS.sub("", out.getvalue())
        assert_clean(printed)
        assert "[red]" in printed, "markup is text"


class _NoPlane:
    class settings:
        faults = Path("faults.json")


def test_stories_of_a_cluster_that_nobody_checked():
    out = Terminal()
    runner = StoryRunner(_NoPlane(), Console(file=out, highlight=False), clock=None)  # type: ignore[arg-type]
    runner.say(HOSTILE, style="cyan")
    runner.check(HOSTILE, True, HOSTILE)
    runner.check(HOSTILE, False)
    runner._show(Explanation(HOSTILE, "", HOSTILE, [NodeAnswer(HOSTILE, False, HOSTILE, (HOSTILE,))]))
    printed = COLOURS.sub("", out.getvalue())
    assert_clean(printed)
    assert "[red]" in printed


def test_the_status_of_a_cluster_that_nobody_checked():
    found = ClusterStatus(
        Path("x"),
        1,
        (ProgramStatus(HOSTILE, 1, "running", HOSTILE),),
        (PlaneNodeStatus(HOSTILE, True, False, 0),),
        (PoolStatus(HOSTILE, HOSTILE, HOSTILE, (HOSTILE,), HOSTILE),),
        (Fault("slow", HOSTILE, 1.0),),
    )
    assert_clean("\n".join(status_command._program_lines(found)))


# -- logs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_record_is_one_line_whatever_is_in_it(form):
    out, root = io.StringIO(), logging.getLogger()
    before = root.level
    logs.configure(format=form, stream=out)
    try:
        log = logs.logger("tonnage.test")
        log.info(HOSTILE, pod=HOSTILE, names=[HOSTILE, {HOSTILE: HOSTILE}], count=1)
        log.info("by name", extra={HOSTILE: 1})
        logging.getLogger("tonnage.test").warning("plain %s", HOSTILE, extra={HOSTILE: HOSTILE})
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            log.exception(HOSTILE)
    finally:
        for handler in [each for each in root.handlers if each.get_name() == "tonnage"]:
            root.removeHandler(handler)
        root.setLevel(before)
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert_clean(out.getvalue())
    if form == "json":
        assert json.loads(lines[0])["pod"] == HOSTILE, "what was logged can be read back"


def test_every_command_that_prints_goes_through_the_outlets():
    """`print`, bare `click.echo` and strings handed to rich would pass them by."""
    source = Path(cli.__file__).parent.parent
    allowed = {source / "cli" / "output.py", source / "cli" / "__init__.py"}
    bypass = re.compile(
        r"(?<![\w.])print\(|click\.echo\(|click\.secho\(|console\.print\(f?[\"']|(?<!\w)Text\(|\.status\(f[\"']"
    )
    found = [
        f"{path.relative_to(source)}:{number}: {line.strip()}"
        for folder in ("cli", "stories", "whatif")
        for path in (source / folder).rglob("*.py")
        if path not in allowed
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if bypass.search(line) and "# our own words" not in line
    ]
    assert found == []
