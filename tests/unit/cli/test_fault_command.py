"""`tonnage fault` through the front door: what it writes, what it shows, and how it complains."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tonnage.cli import main
from tonnage.faults import Fault, FaultFile
from tonnage.private_files import write_private


class Shell:
    """Runs `tonnage fault …` in this process; exit code, stdout and stderr."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["tonnage", "fault", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        return int(ended.value.code or 0), out, err


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def test_a_fault_is_set_shown_and_cleared(shell: Shell, tmp_path: Path) -> None:
    here = ("--data-dir", str(tmp_path))
    told = shell(*here, "set", "slow", "--node", "node-1", "--value", "2.5")
    assert told == (0, "", "fault slow=2.5 on node-1 set\n")
    assert shell(*here, "set", "dead") == (0, "", "fault dead on every node set\n")
    assert FaultFile(tmp_path / "faults.json").all() == (Fault("slow", "node-1", 2.5), Fault("dead"))
    assert shell(*here, "list") == (
        0,
        "KIND   NODE     VALUE         MEANING\n"
        "slow   node-1   2.5 seconds   every call takes this much longer\n"
        "dead   (all)    -             every call is answered with Unavailable\n",
        "",
    )
    code, out, _ = shell(*here, "list", "-o", "json")
    assert code == 0
    assert json.loads(out) == [
        {"kind": "slow", "node": "node-1", "value": 2.5},
        {"kind": "dead", "node": "", "value": 0.0},
    ]
    assert shell(*here, "clear", "slow") == (0, "", "fault slow=2.5 on node-1 cleared\n")
    assert shell(*here, "clear") == (0, "", "fault dead on every node cleared\n")
    assert shell(*here, "clear") == (0, "", "no such fault is set\n")
    assert shell(*here, "list") == (0, "no faults are set\n", "")


def test_a_file_may_be_named_directly_and_is_made(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "f.json"
    assert shell("--faults", str(file), "set", "slots-taken", "--value", "3")[0] == 0
    assert FaultFile(file).all() == (Fault("slots-taken", "", 3),)


def test_clearing_may_keep_to_a_node(shell: Shell, tmp_path: Path) -> None:
    faults = FaultFile(tmp_path / "faults.json")
    faults.write([Fault("dead", "node-1"), Fault("dead", "node-2")])
    assert shell("--data-dir", str(tmp_path), "clear", "--node", "node-2")[2] == "fault dead on node-2 cleared\n"
    assert faults.all() == (Fault("dead", "node-1"),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set", "slow"], 'the fault "slow" needs --value, a number of seconds'),
        (["set", "slow", "--value", "-1"], 'the fault "slow" needs a number of seconds, and was given -1'),
        (["set", "slow", "--value", "soon"], "Invalid value for '--value': 'soon' is not a valid float."),
        (["set", "dead", "--value", "1"], 'the fault "dead" takes no value, and was given 1'),
        (["set"], "Missing argument 'KIND'."),
    ],
)
def test_what_cannot_be_had_is_wrong_usage(shell: Shell, tmp_path: Path, arguments: list[str], message: str) -> None:
    code, out, err = shell("--data-dir", str(tmp_path), *arguments)
    assert (code, out, err.splitlines()[0]) == (2, "", f"error: {message}")
    assert not (tmp_path / "faults.json").exists()


@pytest.mark.parametrize("verb", ["set", "clear"])
def test_an_unknown_kind_is_wrong_usage_and_names_those_there_are(shell: Shell, tmp_path: Path, verb: str) -> None:
    code, _, err = shell("--data-dir", str(tmp_path), verb, "fire")
    assert code == 2
    assert err.startswith("error: Invalid value for '[KIND]'" if verb == "clear" else "error: Invalid value for 'KIND'")
    assert 'there is no fault "fire"; the faults are out-of-space, out-of-slots, ' in err


def test_two_places_are_wrong_usage(shell: Shell) -> None:
    code, _, err = shell("--data-dir", ".", "--faults", "f.json", "list")
    assert (code, err.splitlines()[0]) == (2, "error: give --data-dir DIR or --faults FILE, not both")


def test_without_a_place_it_is_the_default_folder(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert shell("list")[2].startswith(f"error: there is no folder {tmp_path}/.tonnage\n")
    (tmp_path / ".tonnage").mkdir(mode=0o700)
    assert shell("set", "dead", "--node", "node-1") == (0, "", "fault dead on node-1 set\n")
    assert (tmp_path / ".tonnage" / "faults.json").exists()


def test_a_folder_that_is_not_there_is_a_failure(shell: Shell, tmp_path: Path) -> None:
    assert shell("--data-dir", str(tmp_path / "nowhere"), "list") == (
        1,
        "",
        f"error: there is no folder {tmp_path}/nowhere\nhint: name the --data-dir of `tonnage up`\n",
    )


def test_a_broken_file_is_a_failure(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_text("{}")
    assert shell("--data-dir", str(tmp_path), "list") == (
        1,
        "",
        f"error: {tmp_path}/faults.json holds no list of faults: it is no list\n"
        "hint: remove it, or use `tonnage fault`\n",
    )


def test_help_lists_every_kind(shell: Shell) -> None:
    _, out, _ = shell("--help")
    assert "  slots-taken    this many attach slots are taken by others (slots)" in out


@pytest.mark.parametrize("verb", ["set", "clear", "list"])
def test_help_is_given_without_saying_where(shell: Shell, verb: str) -> None:
    code, out, err = shell(verb, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: tonnage fault {verb} [OPTIONS]")


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A folder on which a cluster of three nodes was started."""
    tmp_path.chmod(0o700)
    write_private(tmp_path / "cluster.json", b'{"nodes": 3}')
    return tmp_path


def test_a_node_that_the_cluster_does_not_have_is_refused(shell: Shell, started: Path) -> None:
    here = ("--data-dir", str(started))
    assert shell(*here, "set", "dead", "--node", "nod-1") == (
        2,
        "",
        "error: this cluster has no node \"nod-1\"\nhint: did you mean 'node-1'? It has node-1 to node-3\n",
    )
    assert shell(*here, "clear", "--node", "x") == (
        2,
        "",
        'error: this cluster has no node "x"\nhint: it has node-1 to node-3\n',
    )
    assert not (started / "faults.json").exists()
    assert shell(*here, "set", "dead", "--node", "node-3")[0] == 0


def test_the_file_in_a_folder_of_a_cluster_is_judged_alike(shell: Shell, started: Path) -> None:
    assert shell("--faults", str(started / "faults.json"), "set", "dead", "--node", "node-9")[0] == 2


def test_what_a_node_has_left_behind_may_be_cleared(shell: Shell, started: Path) -> None:
    FaultFile(started / "faults.json").put(Fault("dead", "node-9"))
    here = ("--data-dir", str(started))
    assert shell(*here, "clear", "--node", "node-9") == (0, "", "fault dead on node-9 cleared\n")


def test_a_kind_that_there_is_not_is_suggested(shell: Shell, started: Path) -> None:
    code, _, err = shell("--data-dir", str(started), "set", "out-of-spcae")
    assert code == 2
    assert 'there is no fault "out-of-spcae"; the faults are out-of-space, ' in err
    assert err.endswith("hint: did you mean 'out-of-space'?\n")


def test_several_nodes_are_named_at_once(shell: Shell, tmp_path: Path) -> None:
    here, nodes = ("--data-dir", str(tmp_path)), ("--node", "a", "--node", "b")
    assert shell(*here, "set", "dead", *nodes) == (0, "", "fault dead on a set\nfault dead on b set\n")
    assert shell(*here, "clear", *nodes) == (0, "", "fault dead on a cleared\nfault dead on b cleared\n")


@pytest.mark.parametrize("verb", [("set", "dead"), ("clear",)], ids=["set", "clear"])
def test_a_node_without_a_name_is_not_every_node(shell: Shell, tmp_path: Path, verb: tuple[str, ...]) -> None:
    code, _, told = shell("--data-dir", str(tmp_path), *verb, "--node", "")
    assert code == 2
    assert "the name is empty; leave --node out for all nodes" in told


def test_when_one_of_several_nodes_is_not_there_nothing_is_set(shell: Shell, started: Path) -> None:
    known = "node-1"
    assert shell("--data-dir", str(started), "set", "dead", "--node", known, "--node", "nowhere")[0] != 0
    assert shell("--data-dir", str(started), "list", "-o", "json")[1] == "[]\n"
