"""The file of faults: what it holds, who wins, and that neither a reader nor a second writer is ever misled."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import pytest

from tonnage.faults import KINDS, Fault, FaultFile, InvalidFault


@pytest.fixture
def faults(tmp_path: Path) -> FaultFile:
    return FaultFile(tmp_path / "faults.json")


def test_a_file_that_is_not_there_holds_none(faults: FaultFile) -> None:
    assert faults.all() == ()
    assert faults.active("dead", "node-1") is None


def test_what_was_put_is_seen_by_another_reader_at_once(faults: FaultFile) -> None:
    reader = FaultFile(faults.path)
    assert reader.all() == ()
    faults.put(Fault("slow", "node-1", 2.5))
    assert reader.active("slow", "node-1") == Fault("slow", "node-1", 2.5)
    faults.put(Fault("slow", "node-1", 3.5))  # the same length: only inode and time tell them apart
    assert reader.active("slow", "node-1") == Fault("slow", "node-1", 3.5)
    faults.path.unlink()
    assert reader.all() == ()


def test_the_file_is_for_its_owner_alone_and_nothing_lies_beside_it_but_the_lock(faults: FaultFile) -> None:
    faults.put(Fault("dead"))
    assert stat.S_IMODE(faults.path.stat().st_mode) == 0o600
    assert sorted(each.name for each in faults.path.parent.iterdir()) == [".faults.json.lock", "faults.json"]


def test_a_fault_for_one_node_goes_before_one_for_all(faults: FaultFile) -> None:
    faults.write([Fault("slow", "node-1", 5), Fault("slow", "", 1)])
    assert faults.active("slow", "node-1") == Fault("slow", "node-1", 5)
    assert faults.active("slow", "node-2") == Fault("slow", "", 1)
    assert faults.active("slow") == Fault("slow", "", 1)
    assert faults.active("dead", "node-1") is None


def test_a_fault_replaces_its_kind_on_its_node_only(faults: FaultFile) -> None:
    for fault in (
        Fault("slow", "node-1", 1),
        Fault("slow", "", 2),
        Fault("dead", "node-1"),
        Fault("slow", "node-1", 3),
    ):
        faults.put(fault)
    assert faults.all() == (Fault("slow", "", 2), Fault("dead", "node-1"), Fault("slow", "node-1", 3))


@pytest.mark.parametrize(
    ("kind", "node", "ended"),
    [
        ("", "", ["slow node-1", "slow ", "dead node-1"]),
        ("slow", "", ["slow node-1", "slow "]),
        ("slow", "node-1", ["slow node-1"]),
        ("", "node-1", ["slow node-1", "dead node-1"]),
        ("dead", "node-2", []),
    ],
)
def test_clearing_ends_what_was_meant_and_says_what_that_was(
    faults: FaultFile, kind: str, node: str, ended: list[str]
) -> None:
    held = [Fault("slow", "node-1", 1), Fault("slow", "", 2), Fault("dead", "node-1")]
    faults.write(held)
    assert [f"{each.kind} {each.node}" for each in faults.clear(kind, node)] == ended
    assert list(faults.all()) == [each for each in held if f"{each.kind} {each.node}" not in ended]


def test_writers_at_the_same_time_lose_nothing(faults: FaultFile) -> None:
    def write(number: int) -> None:
        FaultFile(faults.path).put(Fault("slow", f"node-{number}", 1 + number))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.value for each in faults.all()) == [1 + number for number in range(16)]


def test_reading_again_costs_a_stat_while_nothing_changes(faults: FaultFile, monkeypatch: pytest.MonkeyPatch) -> None:
    faults.put(Fault("dead"))
    reader = FaultFile(faults.path)
    first = reader.all()
    monkeypatch.setattr(Path, "read_text", lambda *_: pytest.fail("read again"))
    assert reader.all() is first


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_had_and_says_who_plays_it_and_what_happens(kind: str) -> None:
    known = KINDS[kind]
    assert Fault(kind, value=2 if known.value else 0).kind == kind
    assert known.played_by in ("driver", "node") and known.meaning


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("fire", 0, 'there is no fault "fire"'),
        ("slow", 0, 'the fault "slow" needs a number of seconds, and was given 0'),
        ("slow", -1, 'the fault "slow" needs a number of seconds, and was given -1'),
        ("slow", float("nan"), 'the fault "slow" needs a number of seconds, and was given nan'),
        ("node-slow", float("inf"), 'the fault "node-slow" needs a number of seconds, and was given inf'),
        ("slots-taken", 1.5, 'the fault "slots-taken" needs whole slots, and was given 1.5'),
        ("dead", 3, 'the fault "dead" takes no value, and was given 3'),
    ],
)
def test_what_cannot_be_had_is_refused(kind: str, value: float, message: str) -> None:
    with pytest.raises(InvalidFault) as raised:
        Fault(kind, value=value)
    assert raised.value.message == message


def test_an_unknown_kind_names_those_there_are() -> None:
    with pytest.raises(InvalidFault) as raised:
        Fault("fire")
    assert raised.value.hint == f"the faults are {', '.join(KINDS)}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "it is no list"),
        ("[3]", "an entry has kind, node and value"),
        ('[{"kind": "dead", "node": 3}]', "an entry has kind, node and value"),
        ('[{"kind": "fire"}]', 'there is no fault "fire"'),
        ("[{}]", "Fault.__init__() missing 1 required positional argument: 'kind'"),
        ("[", "Expecting value: line 1 column 2 (char 1)"),
    ],
)
def test_a_file_that_holds_something_else_is_named_with_the_reason(faults: FaultFile, text: str, problem: str) -> None:
    faults.path.write_text(text)
    with pytest.raises(InvalidFault) as raised:
        faults.all()
    assert raised.value.message == f"{faults.path} holds no list of faults: {problem}"
    assert raised.value.hint == "remove it, or use `tonnage fault`"


def test_a_broken_file_is_not_written_over_by_a_change(faults: FaultFile) -> None:
    faults.path.write_text("[")
    with pytest.raises(InvalidFault):
        faults.put(Fault("dead"))
    assert faults.path.read_text() == "["


def test_a_folder_in_its_place_cannot_be_read_and_not_be_written(faults: FaultFile) -> None:
    faults.path.mkdir()
    with pytest.raises(InvalidFault) as raised:
        faults.all()
    assert raised.value.message == f"{faults.path} cannot be read: Is a directory"


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidFault) as raised:
        FaultFile(tmp_path / "file" / "faults.json").put(Fault("dead"))
    assert raised.value.message == f"{tmp_path}/file/faults.json cannot be written: File exists"


def test_what_is_written_is_plain_json_that_people_can_read(faults: FaultFile) -> None:
    faults.put(Fault("slots-taken", "node-2", 3))
    assert json.loads(faults.path.read_text()) == [{"kind": "slots-taken", "node": "node-2", "value": 3}]
