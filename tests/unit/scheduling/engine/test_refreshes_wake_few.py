"""A refresh wakes the pods that it can help, and nobody is lost for that: attempts are counted on virtual time."""

from __future__ import annotations

import random

import pytest
from capacity_play import CapacityPlay

MODES = ("Object", "Ledger")


@pytest.mark.parametrize("reservation", MODES)
def test_400_pods_on_30_nodes_take_about_as_many_attempts_as_are_of_use(reservation: str):
    play = CapacityPlay(nodes=30, free_gi=100, reservation=reservation)
    play.add_pods(400, size_gi=20)
    play.run(60)
    # 30 nodes x 100 / 20 = 150 fit. Each pod is tried once when it comes, and those that are placed later once more.
    assert len(play.placed) == 150
    assert play.attempts <= 400 + 150
    assert play.fitting() == []


@pytest.mark.parametrize("reservation", MODES)
def test_room_that_comes_back_is_given_to_as_many_as_it_holds(reservation: str):
    play = CapacityPlay(nodes=10, free_gi=100, reservation=reservation)
    play.add_pods(200, size_gi=20)
    play.run(40)
    assert len(play.placed) == 50
    before = play.attempts
    for name in list(play.placed)[:10]:
        play.delete_pod(name)
    play.run(40)
    assert len(play.placed) == 50 and play.fitting() == []
    assert play.attempts - before == 10


@pytest.mark.parametrize("reservation", (*MODES, "None"))
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))])
def test_whatever_happens_no_pod_is_left_waiting_that_a_node_would_take(reservation: str, seed: int):
    rng = random.Random(seed)
    play = CapacityPlay(nodes=rng.randint(1, 4), free_gi=rng.choice((30, 100)), seed=seed, reservation=reservation)
    for _ in range(40):
        match rng.choice(("add", "add", "delete", "delete", "slow", "quick", "run", "refresh")):
            case "add":
                play.add_pods(rng.randint(1, 6), size_gi=rng.choice((5, 10, 20, 60)))
            case "delete" if play.waiting or play.placed:
                play.delete_pod(rng.choice([*play.waiting, *play.placed]))
            case "slow":
                play.driver_is_slow = True
            case "quick":
                play.driver_is_slow = False
            case "refresh":
                play.publish(rng.choice(sorted(play.free_gi)))
            case _:
                play.run(rng.randint(1, 3))
        play.try_all()
        assert play.fitting() == [], "tried all, and yet"
    play.driver_is_slow = False
    play.run(90)
    assert play.fitting() == []
