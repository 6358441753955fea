"""The state in the browser is the server's, in whatever portions it was told; the page counts as `tonnage top` does.

Rows are drawn from a seed, with the server's own collections and followers between them and the browser's State.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from dashboard_window import Window

from tonnage.dashboard.terminal.lines_view import bytes_text, percent_text
from tonnage.dashboard.terminal.map_page import storage_of_nodes
from tonnage.dashboard.wire import (
    COLLECTIONS,
    AttachSlots,
    CapacityRow,
    ClassRow,
    Collections,
    FaultRow,
    LaneRow,
    NodeRow,
    NoticeRow,
    PodRow,
    PoolRow,
    ReservedRow,
    Row,
    VolumeRow,
)

GI = 1 << 30
START = datetime(2026, 1, 1, tzinfo=UTC)

REPLAYED = """async given => {
    const {State, COLLECTIONS} = await import("/js/state.js");
    const told = state => Object.fromEntries(COLLECTIONS.map(name => [name, Object.fromEntries(state[name])]));
    const found = [];
    for (const messages of given) {
        const state = new State();
        const [before, undone] = [[], []];
        for (const message of messages) {
            before.push(JSON.stringify(sorted(told(state))));
            undone.push(state.apply(message));
        }
        const end = told(state);
        const revision = state.revision;
        let wrong = "";
        while (undone.length) {
            state.apply(undone.pop());
            if (JSON.stringify(sorted(told(state))) !== before.pop()) wrong ||= `undoing message ${undone.length}`;
        }
        found.push({end, revision, wrong});
    }
    return found;
    function sorted(value) {
        if (Array.isArray(value) || typeof value !== "object" || value === null) return value;
        return Object.fromEntries(Object.keys(value).sort().map(key => [key, sorted(value[key])]));
    }
}"""

COUNTED = """async given => {
    const {State} = await import("/js/state.js");
    const {Facts} = await import("/js/map/facts.js");
    const {bytes, percent} = await import("/js/format.js");
    const counted = message => {
        const state = new State();
        state.apply(message);
        const facts = new Facts(state);
        return facts.names().sort().map(name => {
            const {free, used, kept, fullness} = facts.of(name);
            const least = Math.min(kept, free ?? 0);
            return [name, used, free ?? 0, least, fullness === null ? "" : percent(fullness), bytes(free ?? 0)];
        });
    };
    return [given.states.map(counted), given.amounts.map(bytes), given.shares.map(each => percent(each[0] / each[1]))];
}"""


class Told:
    """Rows of few keys."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.any = self.rng.choice

    def row(self, collection: str, key: str) -> Row:
        nodes, claims, size = ("n1", "n2", "n3"), ("ns/v1", "ns/v2", "ns/v3"), self.any((1, 7 * GI, 80 * GI, 123456789))
        made: dict[str, Any] = {
            "nodes": lambda: NodeRow(
                name=key,
                zone=self.any(("", "z")),
                slots=(AttachSlots(driver="d", used=3, limit=self.any((None, 0, 3))),),
                pools=self.any(
                    ((), (PoolRow(size=300 * GI, free=self.any((0, 220 * GI, 1)), volumes=(self.any(claims),)),))
                ),
            ),
            "capacities": lambda: CapacityRow(
                storage_class=self.any(("c1", "c2")),
                nodes=(self.any(nodes),),
                node_count=self.any((1, 1, 1, 2)),
                pools=self.any(((), (size,), (size, 60 * GI))),
                tells_pools=self.any((True, False)),
                reserved=tuple(
                    ReservedRow(
                        mode=self.any(("Ledger", "Ledger", "Object")),
                        pod="ns/p",
                        claims=(claim,),
                        bytes=size,
                        since=START,
                        storage_class=self.any(("", "c2")),
                    )
                    for claim in self.rng.sample(claims, self.any((0, 0, 1, 2)))
                ),
            ),
            "volumes": lambda: VolumeRow(
                claim=key,
                bytes=size,
                state=self.any(("waiting", "making", "bound", "moving", "lost", "released", "available")),
                node=self.any(("", *nodes)),
            ),
            "pods": lambda: PodRow(uid=self.any(("u1", "u2")), node=self.any(("", *nodes))),
            "classes": lambda: ClassRow(driver="d", group=self.any(("", "g"))),
            "lanes": lambda: LaneRow(pod="ns/p", done=self.any((True, False))),
            "faults": lambda: FaultRow(kind="slow", value=self.any((0.5, 2.0))),
            "notices": lambda: NoticeRow(text=self.any(("one", "another"))),
        }
        found: Row = made[collection]()
        return found

    def change(self, state: Collections) -> None:
        name = self.any(tuple(COLLECTIONS))
        key = self.any(("n1", "n2", "n3") if name == "nodes" else ("ns/v1", "ns/v2", "constructor", "7", "c1", "c2"))
        if self.any((True, True, False)):
            state.put(name, key, self.row(name, key))
        else:
            state.remove(name, key)


def told_to_three(seed: int) -> tuple[Collections, list[list[Any]]]:
    """Messages to a follower that takes each change, to a slow one, and to one whose connection was lost."""
    told, state = Told(seed), Collections()
    fast, slow, cut = state.follow(), state.follow(), state.follow()
    messages: list[list[Any]] = [[], [], []]
    for step in range(60):
        told.change(state)
        messages[0].append(json.loads(fast.take()))
        if step % 7 == 0:
            messages[1].append(json.loads(slow.take()))
        if step % 3 == 0:
            messages[2].append(json.loads(cut.take()))
        if step == 40:
            cut.close()
            cut = state.follow()
    messages[1].append(json.loads(slow.take()))
    messages[2].append(json.loads(cut.take()))
    return state, messages


async def test_every_follower_ends_with_the_servers_state_and_undoing_leads_back_to_the_first(window: Window):
    for seed in range(6):
        state, messages = told_to_three(seed)
        expected = json.loads(state.state())
        for found in await window.page.evaluate(REPLAYED, messages):
            assert (found["end"], found["revision"], found["wrong"]) == (expected["set"], expected["revision"], ""), (
                seed
            )


async def counted_alike(window: Window, seeds: range) -> None:
    states: list[Collections] = []
    rng = Random(seeds.start)
    for seed in seeds:
        told, state = Told(seed), Collections()
        for _ in range(60):
            told.change(state)
        states.append(state)
    amounts = [0, 1, 1023, 1024, 1025, 100 * GI - 1, 1024**4 - 1]
    amounts += [rng.randrange(1 << rng.randrange(1, 62)) for _ in range(300)]
    shares = [(80, 300), (29, 100), (57, 100), (299, 300), *((rng.randrange(1000), 1000) for _ in range(100))]
    given = {"states": [json.loads(each.state()) for each in states], "amounts": amounts, "shares": shares}
    found, texts, percents = await window.page.evaluate(COUNTED, given)
    for state, rows in zip(states, found, strict=True):
        top, _ = storage_of_nodes(state)
        assert rows == [
            [
                name,
                each.used,
                each.free,
                each.promised,
                percent_text(each.fill_ratio).replace("%", " %") if each.is_known and each.size > 0 else "",
                bytes_text(each.free),
            ]
            for name, each in sorted(top.items())
        ]
    assert texts == [bytes_text(each) for each in amounts]
    assert percents == [percent_text(part / whole).replace("%", " %") for part, whole in shares]
    assert percents[:2] == ["26 %", "29 %"]


async def test_the_page_and_top_count_and_write_alike(window: Window):
    await counted_alike(window, range(30))


@pytest.mark.slow
async def test_the_page_and_top_count_alike_in_many_clusters(window: Window):
    await counted_alike(window, range(1000, 1500))
