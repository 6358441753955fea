"""The map's arithmetic, in the browser that it runs in: layout, bars, arrangement, and facts kept up to date.

What runs there is in map_modules.js.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dashboard_window import Window

SCRIPTS = Path(__file__).with_name("map_modules.js").read_text()


async def found_by(window: Window, name: str, *given: object) -> Any:
    """What one of the scripts gives back."""
    return await window.page.evaluate(f"given => (\n{SCRIPTS}\n).{name}(...given)", list(given))


async def test_layout_bars_arrangement_and_facts(window: Window):
    found = await found_by(window, "layout")
    # header 30 + 10, shared 50 + 10, nodes of 20 and 40; a3 goes below a1 (100 + 20 + 10), beside the rest of a2; then
    # 150 + 30 + 10 and 190 + 30 + 10: a collapsed group has its header alone.
    assert found["rows"] == [
        ["header", "", 0, 30],
        ["shared", "", 40, 50],
        ["nodes", "a1,a2", 100, 40],
        ["nodes", "a3", 130, 20],
        ["header", "", 160, 30],
        ["header", "", 200, 30],
        ["nodes", "c1,c2", 240, 20],
    ]
    assert found["height"] == 260
    assert found["places"] == {"a1": [0, 100], "a2": [1, 100], "a3": [0, 130], "c1": [0, 240], "c2": [1, 240]}
    assert found["seen"] == [[0, 1], [2, 4], [7, 7]]
    assert found["moves"] == ["a3", "c2", "c1", "a2", None, "a1", "c2"]
    assert found["columns"] == [{"perRow": 3, "width": 30}, {"perRow": 1, "width": 10}]

    found = await found_by(window, "bars")
    in_pool = [["claim", "s/a", 0, 30], ["leaving", "s/b", 30, 20], ["other", "", 50, 10]]  # 100 - 40 - 50 is not named
    ghosts = [["making", "s/new"], ["coming", "s/in"], ["kept", ""]]
    assert found["one"] == [
        ["pool", 100, [*in_pool, ["making", "s/new", 60, 5], ["coming", "s/in", 65, 7], ["kept", "", 72, 10]]]
    ]
    assert found["two"][0] == ["pool", 100, in_pool]
    assert [each[:2] for each in found["two"][2][2]] == ghosts, "nobody tells in which of two pools"
    (whole,) = found["outside"]  # one number for the class: 30 + 20 of claims, and 40 free behind them
    assert whole[:2] == ["free", 90] and whole[2][:2] == in_pool[:2]
    assert [each[:2] for each in whole[2][2:]] == ghosts
    assert [bar[:2] for bar in found["several"]] == [["claims", 50], ["free", 40], ["free", 9], ["kept", 22]]
    assert found["object"][0][2][-1] == ["kept", "", 60, 40], "mode Object keeps all that is free"
    assert [bar[2][-1] for bar in found["objects"]] == [["kept", "", 60, 40], ["kept", "", 0, 50]], "of each pool"
    assert found["group"][2] == [["kept", "", 0, 10]], "objects of one group tell the same promise"
    # What is rebuilt into a pool already is drawn there; what is kept back for it is not drawn once more.
    assert ["coming", "s/in", 50, 7] in found["landed"][0][2]
    assert [bar[0] for bar in found["landed"]] == ["pool", "pool", "kept"]
    assert [each[:2] for each in found["landed"][2][2]] == [["making", "s/new"]]
    assert found[
        "beside"
    ] == [  # pools that show one driver's volumes, and the claims and free room of another beside them
        ["pool", 100, 40, "", ["s/a", "s/b", "other", "kept"]],
        ["nvme: claims", 10, None, "", ["s/fast"]],
        ["nvme 0", 90, 90, "old", []],
        ["nvme 1", 80, 80, "old", []],
    ]
    assert found["slivers"] == [["small", 8, 8], ["claim", 1, 1]]

    found = await found_by(window, "arranged")
    assert found["byName"] == ["a: n-0,n-1", "b: n-9,n-10", ": lost"]
    assert found["trouble"] == ["a: n-1,n-0", "b: n-9,n-10", ": lost"]
    assert found["fullest"] == ["all: n-10,n-0,n-1,n-9,lost"]
    assert found["cordoned"] == ["b: n-9"]
    assert found["troubled"] == ["a: n-1"]
    assert found["class"] == ["a: n-0"]
    assert found["pod"] == found["volume"] == [["n-0"], ["shop/cart"], []]
    assert found["ofClass"] == [["n-0"], ["shop/cart", "shop/late"], ["shop/late"]]
    assert found["node"] == [["n-10"], [], []]
    assert found["none"] is None
    assert found["ninth"] == [0, 1]
    assert found["bytes"] == ["0", "1023 bytes", "1.5Ki", "1023Gi", "5Gi"]

    for seed in (1, 7, 42):
        assert await found_by(window, "facts", seed) == ""


@pytest.mark.slow
async def test_facts_that_are_kept_up_to_date_are_those_worked_out_anew(window: Window):
    for seed in range(100, 160):
        assert await found_by(window, "facts", seed) == "", seed


ARRIVED = """async () => {
    const {State} = await import("/js/state.js");
    const {Facts} = await import("/js/map/facts.js");
    const {stateWords} = await import("/js/map/words.js");
    const state = new State();
    const row = {claim: "s/a", bytes: 5, state: "moving", node: "b", target: "b"};
    state.apply({set: {nodes: {b: {name: "b", pools: [{size: 9, free: 4, volumes: ["s/a"]}]}}, volumes: {"s/a": row}}});
    const facts = new Facts(state);
    const {leaving, coming, claims, signs} = facts.of("b");
    return [leaving, coming, claims, signs.map(sign => sign.kind), [...facts.moving], stateWords(row)];
}"""


async def test_a_volume_that_its_driver_has_on_its_target_is_not_shown_on_its_way_to_where_it_is(window: Window):
    words = "has arrived on b; its node affinity is not set yet"
    assert await window.page.evaluate(ARRIVED) == [[], [], ["s/a"], [], [], words]
