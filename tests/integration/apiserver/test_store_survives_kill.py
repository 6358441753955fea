"""SIGKILL in the middle of a write storm: nothing that was acknowledged is lost, and the folder opens at once.

Run as a program, this file is the storm: many writers on one store, each acknowledged write printed to the pipe at
once. Run as a test, it starts the storm, kills it after some acknowledgements, opens the same folder and compares,
again and again. Each writer does one thing after another, so after a kill there is at most one write for each writer
of which nobody knows whether it happened; it must have happened wholly or not at all, and stay that way.

A killed process leaves the kernel's page cache alone, so this cannot show that COMMIT reaches the platter; that is
SQLite's `synchronous = FULL`, which a unit test pins.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from tonnage.store.errors import StaleRevision
from tonnage.store.folder import StoreOptions
from tonnage.store.records import EventType, StoreEvent, StoreRecord
from tonnage.store.store import Store

WRITERS = 24
COUNTERS = 4
COUNTER_KEY = "configmaps/shared/counter"


def document(key: str, step: str, revision: int) -> bytes:
    """A document that cannot be half there, nor be another's: 100 bytes to 5 KB, recomputed by whoever checks it."""
    told = f"{key} {step} {revision}"
    return f"{told} {hashlib.sha256(told.encode()).hexdigest() * (1 + revision % 80)}".encode()


def steps_of(number: int) -> list[str]:
    """What a writer does with its object of this number, in order."""
    return ["create", "update", "delete"] if number % 3 == 0 else ["create", "update"]


# The storm.


def acknowledge(*words: object) -> None:
    # One write to the pipe for each line: whole, and out of this process before anything else happens.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def write_objects(store: Store, prefix: str) -> None:
    for number in count():
        key, revision = f"{prefix}/{number}", 0
        for step in steps_of(number):

            def render(assigned: int, key: str = key, step: str = step) -> bytes:
                return document(key, step, assigned)

            if step == "create":
                revision = (await store.create(key, render)).revision
            else:
                revision = (await getattr(store, step)(key, render, expected=revision)).revision
            acknowledge(key, step, revision)


async def count_up(store: Store) -> None:
    """Writers of one key: of those that saw the same number, one may write the next."""
    while True:
        seen = store.get(COUNTER_KEY)
        assert seen is not None
        number = int(seen.document.split()[1]) + 1

        def render(assigned: int, number: int = number) -> bytes:
            return document(COUNTER_KEY, str(number), assigned)

        try:
            record = await store.update(COUNTER_KEY, render, expected=seen.revision)
        except StaleRevision:
            continue
        acknowledge(COUNTER_KEY, number, record.revision)


async def storm(folder: Path, name: str, keep_revisions: int) -> None:
    acknowledge("starting")
    store = await Store.open(folder, StoreOptions(keep_revisions=keep_revisions))
    acknowledge("ready", store.revision, store.compacted)
    if store.get(COUNTER_KEY) is None:
        await store.create(COUNTER_KEY, lambda revision: document(COUNTER_KEY, "0", revision))
    writers = [write_objects(store, f"pods/{name}-{i}") for i in range(WRITERS)]
    await asyncio.gather(*writers, *(count_up(store) for _ in range(COUNTERS)))


# The test.


class Expectation:
    """What must be in the store: for every object its last step and revision, as far as anybody was told."""

    def __init__(self) -> None:
        self.told: dict[str, tuple[str, int]] = {}
        self.counted = 0
        self.revision = 0

    def hear(self, lines: list[str]) -> list[int]:
        """Take in the acknowledgements of one storm; their revisions, which only grow."""
        revisions = [self.revision]
        for line in lines:
            key, step, revision = line.split()
            revisions.append(int(revision))
            if key == COUNTER_KEY:
                assert int(step) > self.counted
                self.counted = int(step)
            else:
                self.told[key] = (step, int(revision))
        assert revisions == sorted(set(revisions))
        self.revision = revisions[-1]
        return revisions[1:]

    def check_records(self, store: Store, name: str) -> None:
        """Compare object by object; what was under way in the storm `name` is certain from then on."""
        found = {record.key: record for record in store.list("pods/")}
        for record in found.values():
            step = record.document.split()[1].decode()
            assert record.document == document(record.key, step, record.revision)
        for key in self.under_way(name):
            step, revision = self.told.get(key, ("", 0))
            present = found.get(key)
            following = [*steps_of(int(key.rpartition("/")[2])), "nothing"]
            next_step = following[following.index(step) + 1 if step else 0]
            if present is not None and present.revision != revision:
                assert present == StoreRecord(key, present.revision, document(key, next_step, present.revision))
                assert present.revision > revision
                self.told[key] = (next_step, present.revision)
            elif present is None and next_step == "delete":
                self.told[key] = ("delete", revision)
        there = {key: revision for key, (step, revision) in self.told.items() if step != "delete"}
        assert {key: record.revision for key, record in found.items()} == there
        for key, revision in there.items():
            assert found[key].document == document(key, self.told[key][0], revision)

    def check_counter(self, store: Store) -> None:
        counter = store.get(COUNTER_KEY)
        counted = 0
        if counter is not None:
            counted = int(counter.document.split()[1])
            assert counter.document == document(COUNTER_KEY, str(counted), counter.revision)
        assert counted >= self.counted
        self.counted = counted

    def under_way(self, name: str) -> list[str]:
        """For every writer of the storm, the object it was told about last, and the one after it."""
        last = {f"pods/{name}-{i}": -1 for i in range(WRITERS)}
        for key in self.told:
            prefix, _, number = key.rpartition("/")
            if prefix in last:
                last[prefix] = max(last[prefix], int(number))
        return [f"{prefix}/{n}" for prefix, number in last.items() for n in (number, number + 1) if n >= 0]


async def history_of(store: Store, prefix: str, marker: StoreRecord) -> list[StoreEvent]:
    """All that is kept under the prefix; `marker` was written last."""
    watch = store.watch(prefix, after=store.compacted)
    events: list[StoreEvent] = []
    async with asyncio.timeout(30):
        while not events or events[-1].record != marker:
            events += await watch.next_batch()
    watch.close()
    return events


async def check_folder(folder: Path, expected: Expectation, name: str, acknowledged: list[int]) -> None:
    store = await Store.open(folder)
    assert store.health.damage == []
    assert store.revision >= expected.revision
    expected.check_records(store, name)
    expected.check_counter(store)
    # Writing works at once, and goes on counting where the dead process stopped.
    newest = store.revision
    events: list[StoreEvent] = []
    for prefix in ("pods/", "configmaps/"):
        key = f"{prefix}after-{name}/1"

        def marked(revision: int, key: str = key) -> bytes:
            return document(key, "create", revision)

        marker = await store.create(key, marked)
        newest += 1
        assert marker.revision == newest
        if prefix == "pods/":
            expected.told[key] = ("create", marker.revision)
        events += await history_of(store, prefix, marker)
    # History is whole: every document in it is, and every acknowledged revision is in it, once.
    for event in events:
        step = event.record.document.split()[1].decode()
        assert event.record.document == document(event.record.key, step, event.revision)
        if event.type is EventType.PUT and event.record.key == COUNTER_KEY:
            assert int(step) == int(event.previous.document.split()[1]) + 1
    revisions = sorted(event.revision for event in events)
    assert revisions == sorted(set(revisions))
    assert {revision for revision in acknowledged if revision > store.compacted} <= set(revisions)
    expected.revision = store.revision
    await store.close()


def run_storm(folder: Path, name: str, keep_revisions: int, kill_after: int) -> list[str]:
    """Kill it after that many lines; all the lines it got out. The first two tell of the start, the rest of writes."""
    command = [sys.executable, __file__, str(folder), name, str(keep_revisions)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(kill_after)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    assert all(line.endswith("\n") for line in lines)
    return lines


@pytest.mark.parametrize("rounds", [8, pytest.param(150, marks=pytest.mark.slow)])
async def test_a_killed_store_has_every_acknowledged_write_and_opens_at_once(tmp_path: Path, rounds: int):
    chance = random.Random(rounds)
    expected = Expectation()
    killed_in_a_storm = 0
    for number in range(rounds):
        # The first is killed while it makes the folder; then mostly in a storm, some early, some with compaction
        # running.
        kill_after = 1 if number == 0 else chance.choice([1, 2, 3, 40, 300, 600, 900, 1_200])
        lines = run_storm(tmp_path, f"storm-{number}", chance.choice([300, 100_000]), kill_after)
        if len(lines) > 1:
            assert lines[1].split()[:2] == ["ready", str(expected.revision)]
        acknowledged = expected.hear(lines[2:])
        killed_in_a_storm += len(acknowledged) >= 38
        await check_folder(tmp_path, expected, f"storm-{number}", acknowledged)
    assert killed_in_a_storm >= rounds // 3


if __name__ == "__main__":
    asyncio.run(storm(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
