"""The store as a state machine, against a model that is a list of writes.

The model keeps every write ever acknowledged; the state at a revision and the events of a stretch are read off that
list the slow and obvious way. The store is opened with a window of three events, so that watches cross from the log to
the window to the live feed all the time, while writes go on, and is closed and opened in between.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from examples_tried import tries
from support.compaction import compact
from tonnage.store.errors import KeyExists, KeyMissing, RevisionCompacted, RevisionInFuture, StaleRevision, StoreClosed
from tonnage.store.folder import StoreOptions
from tonnage.store.records import EventType, StoreEvent, StoreRecord
from tonnage.store.store import Store
from tonnage.store.watch import Watch

# Neighbours on purpose: "-" and "." sort before "/", "0" right after it.
KEYS = ["pods/a/1", "pods/a/2", "pods/a-b/1", "pods.x/a/1", "pods0/a"]
PREFIXES = ["pods/", "pods/a/", "pods/a-b/", "pods.x/", "pods0/", "absent/"]
VERBS = ["create", "update", "delete"]

keys = st.sampled_from(KEYS)
prefixes = st.sampled_from(["pods/", "pods/", *PREFIXES])
touches = st.tuples(keys, st.booleans())  # a key, and whether to delete it if it is there
wishes = st.lists(st.tuples(st.sampled_from(VERBS), keys), min_size=3, max_size=12)
steps_back = st.sampled_from([0, 0, 1, 2, 3, 5, 8, 13, 21])


class Model:
    """All writes, in the order of their revisions: the record, and whether it is a tombstone."""

    def __init__(self, writes: list[tuple[StoreRecord, bool]]) -> None:
        self.writes = writes
        self.compacted = 0

    @property
    def revision(self) -> int:
        return self.writes[-1][0].revision if self.writes else 0

    def add(self, record: StoreRecord, *, deleted: bool) -> None:
        self.writes.append((record, deleted))
        self.writes.sort(key=lambda write: write[0].revision)

    def state_at(self, revision: int) -> dict[str, StoreRecord]:
        state: dict[str, StoreRecord] = {}
        for record, deleted in self.writes:
            if record.revision <= revision:
                state.pop(record.key, None)
                if not deleted:
                    state[record.key] = record
        return dict(sorted(state.items()))

    def events(self, prefix: str, after: int) -> list[StoreEvent]:
        events = []
        for record, deleted in self.writes:
            if record.revision > after and record.key.startswith(prefix):
                before = self.state_at(record.revision - 1).get(record.key)
                put = EventType.PUT if before else EventType.PUT_NEW
                events.append(StoreEvent(EventType.DELETE if deleted else put, record, before))
        return events

    def refusal_of(self, verb: str, key: str, expected: int) -> type[Exception] | None:
        current = self.state_at(self.revision).get(key)
        if verb == "create":
            return KeyExists if current else None
        if current is None:
            return KeyMissing
        return None if current.revision == expected else StaleRevision


class Follower:
    """A watch and how far it has been compared with the model."""

    def __init__(self, watch: Watch, after: int) -> None:
        self.watch = watch
        self.compared = after
        self.taken: list[StoreEvent] = []
        self.overtaken = False

    async def follow(self) -> None:
        """Take what comes, until cancelled or overtaken by compaction."""
        try:
            while True:
                self.taken += await self.watch.next_batch()
        except RevisionCompacted:
            self.overtaken = True

    async def compare(self, model: Model, store: Store) -> None:
        """Take what is missing, which must be what the model has; only a watch left behind may be overtaken."""
        wanted = model.events(self.watch.prefix, self.compared)
        if len(self.taken) < len(wanted):
            assert self.watch.revision < wanted[len(self.taken)].revision  # it does not claim what it has not given
        try:
            async with asyncio.timeout(5):
                while len(self.taken) < len(wanted) and not self.overtaken:
                    self.taken += await self.watch.next_batch()
        except RevisionCompacted:
            self.overtaken = True
        if self.overtaken:
            assert self.taken == wanted[: len(self.taken)]
            assert self.watch.revision < model.compacted
            return
        assert self.taken == wanted
        assert self.watch.revision <= store.revision
        if wanted:
            self.compared = wanted[-1].revision
            assert self.watch.revision >= self.compared
        self.taken = []


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = Model([])
        self.followers: list[Follower] = []

    @initialize(touched=st.lists(touches, min_size=15, max_size=30))
    def begin(self, touched: list[tuple[str, bool]]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.open()
        self.writes_that_fit(touched)

    def open(self) -> None:
        index = lambda key, document: (key, document)  # noqa: E731  attributes that can be checked
        self.store = self.runner.run(Store.open(self.folder, StoreOptions(index=index, window_events=3)))
        self.newest_before = 0  # when its clock last struck

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    def call(self, verb: str, key: str, expected: int) -> Coroutine[Any, Any, StoreRecord]:
        def render(revision: int) -> bytes:
            return f"{verb} {key} {revision}".encode()

        if verb == "create":
            return self.store.create(key, render)
        write: Callable[..., Coroutine[Any, Any, StoreRecord]] = getattr(self.store, verb)
        return write(key, render, expected=expected)

    @rule(touched=st.lists(touches, min_size=1, max_size=5))
    def writes_that_fit(self, touched: list[tuple[str, bool]]) -> None:
        for key, deleting in touched:
            current = self.model.state_at(self.model.revision).get(key)
            verb = "create" if current is None else "delete" if deleting else "update"
            newest = self.store.revision
            record = self.runner.run(self.call(verb, key, current.revision if current else 0))
            assert record.revision > newest
            self.model.add(record, deleted=verb == "delete")

    @rule(verb=st.sampled_from(VERBS), key=keys)
    def a_write_that_is_stale(self, verb: str, key: str) -> None:
        refusal = self.model.refusal_of(verb, key, expected=-1)
        if refusal is not None:
            with pytest.raises(refusal):
                self.runner.run(self.call(verb, key, -1))

    @rule(wanted=wishes)
    def writes_at_once(self, wanted: list[tuple[str, str]]) -> None:
        """All expect the state of now. Those of one key are carried out in the order they came, so a model can judge.

        The watches in hand are followed meanwhile, and cancelled at whatever point they have come to.
        """
        now = self.model.state_at(self.model.revision)
        expected = {key: now[key].revision if key in now else 0 for key in KEYS}

        async def all_at_once() -> list[StoreRecord | BaseException]:
            following = [asyncio.create_task(follower.follow()) for follower in self.followers]
            calls = [self.call(verb, key, expected[key]) for verb, key in wanted]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            return outcomes

        outcomes = self.runner.run(all_at_once())
        for (verb, key), outcome in zip(wanted, outcomes, strict=True):
            refusal = self.model.refusal_of(verb, key, expected[key])
            if refusal is None:
                assert isinstance(outcome, StoreRecord), outcome
                self.model.add(outcome, deleted=verb == "delete")
                # Of this key it is the newest: the revisions keep the order of the calls.
                assert [r.revision for r, _ in self.model.writes if r.key == key][-1] == outcome.revision
            else:
                assert type(outcome) is refusal, outcome

    @rule(prefix=prefixes, back=steps_back, after_key=st.sampled_from(["", *KEYS]), limit=st.integers(0, 3))
    def list_the_past(self, prefix: str, back: int, after_key: str, limit: int) -> None:
        revision = max(0, self.model.revision - back)
        if revision < self.model.compacted:
            with pytest.raises(RevisionCompacted):
                self.runner.run(self.store.list_at(prefix, revision))
            return
        state = self.model.state_at(revision).values()
        wanted = [record for record in state if record.key.startswith(prefix) and record.key > after_key]
        found = self.runner.run(self.store.list_at(prefix, revision, after_key=after_key, limit=limit))
        assert found == wanted[: limit or None]

    @rule(beyond=st.integers(1, 3))
    def the_future_has_not_happened(self, beyond: int) -> None:
        with pytest.raises(RevisionInFuture):
            self.runner.run(self.store.list_at("pods/", self.model.revision + beyond))

    @rule(back=steps_back)
    def compact_history(self, back: int) -> None:
        revision = max(0, self.model.revision - back)
        self.runner.run(compact(self.store, revision))
        self.model.compacted = max(self.model.compacted, revision)

    @rule()
    def the_clock_strikes(self) -> None:
        """What was the newest when it last struck is the oldest now."""
        aged, self.newest_before = self.newest_before, self.model.revision

        async def strike() -> None:
            self.store._strike()
            await compact(self.store, 0)  # waits for its turn behind the one that may have begun

        self.runner.run(strike())
        self.model.compacted = max(self.model.compacted, aged)

    @precondition(lambda self: len(self.followers) < 3)
    @rule(prefix=prefixes, back=steps_back)
    def watch(self, prefix: str, back: int) -> None:
        after = max(0, self.model.revision - back)
        if after < self.model.compacted:
            with pytest.raises(RevisionCompacted):
                self.store.watch(prefix, after=after)
        else:
            self.followers.append(Follower(self.store.watch(prefix, after=after), after))

    @rule()
    def compare_the_watches(self) -> None:
        for follower in self.followers:
            self.runner.run(follower.compare(self.model, self.store))
        self.followers = [follower for follower in self.followers if not follower.overtaken]

    @rule(compacting=st.booleans())
    def close_and_open_again(self, compacting: bool) -> None:
        self.compare_the_watches()
        if compacting:  # up to the newest row, which may be a tombstone and go
            self.compact_history(0)
        self.runner.run(self.store.close())
        for follower in self.followers:
            with pytest.raises(StoreClosed):
                self.runner.run(follower.watch.next_batch())
        self.followers = []
        self.open()

    @invariant()
    def memory_is_the_model(self) -> None:
        if not hasattr(self, "store"):  # nothing has begun
            return
        assert (self.store.revision, self.store.compacted) == (self.model.revision, self.model.compacted)
        state = self.model.state_at(self.model.revision)
        for prefix in PREFIXES:
            wanted = [record for key, record in state.items() if key.startswith(prefix)]
            assert self.store.list(prefix) == wanted
            assert self.store.count(prefix) == len(wanted)
        for key in KEYS:
            record = self.store.get(key)
            assert record == state.get(key)
            assert record is None or record.attributes == (key, record.document)


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=tries(80), stateful_step_count=30, deadline=None)
