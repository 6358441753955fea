"""Thirteen claims against a thousand objects that are nearly full: a decision searches so much, and says so."""

from __future__ import annotations

import io
import random
import time

from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.columns import SEARCH_ENDED
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.volumes.packing.pool_fits import MOST_STEPS_A_DECISION
from tonnage.scheduling.volumes.volume_fit import NOT_ENOUGH_SPACE
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class
from tonnage.whatif import explain_report
from tonnage.whatif.page import TextPage
from tonnage.whatif.replay import Replay

SIZES = [211, 199, 193, 181, 173, 167, 157, 151, 149, 139, 137, 131, 127]


def objects(nodes: int, seed: int) -> list[Object]:
    """Nodes with five pools each, no two alike, that have exactly as much room as the claims of pod x take.

    What was searched once is remembered, so that each test has a seed of its own.
    """
    rng = random.Random(seed)
    found: list[Object] = [driver(), storage_class()]
    for place in range(nodes):
        pools = [sum(SIZES) // 5 + rng.randrange(-9, 10) for _ in range(5)]
        pools[-1] += sum(SIZES) - sum(pools)
        found += [node(f"n{place}"), capacity(node=f"n{place}", pools=[f"{size}Gi" for size in pools])]
    names = [f"c{place}" for place, _ in enumerate(SIZES)]
    found += [claim(name, f"{size}Gi") for name, size in zip(names, SIZES, strict=True)]
    return [*found, pod_with("x", *names)]


def test_a_decision_against_a_thousand_tight_objects_ends_and_tells_that_it_did_not_search_all() -> None:
    replay = Replay(objects(1_000, seed=7), default_configuration().profiles)
    started_at = time.thread_time()
    answer = replay.schedule("default/x")
    assert time.thread_time() - started_at < 4.0  # it took 7.3 s for the filter alone
    assert not answer.node
    assert SEARCH_ENDED in answer.message
    told = {each["grade"] for volumes in answer.document()["volumes"].values() for each in volumes}
    assert "unknown" in told
    misses = [each.miss.told for each in answer.nodes if each.miss is not None]
    ended = f"the search ended after {MOST_STEPS_A_DECISION} steps, and goes on when the pod is tried again"
    assert any(ended in each for each in misses)


def test_tried_again_it_gets_to_the_end() -> None:
    replay = Replay(objects(600, seed=8), default_configuration().profiles)
    messages: list[str] = []
    while not messages or SEARCH_ENDED in messages[-1]:
        messages.append(replay.schedule("default/x").message)
        assert len(messages) < 20
    assert len(messages) > 1
    assert messages[-1] == f"0/600 nodes are available: 600 {NOT_ENOUGH_SPACE}."


def test_a_hundred_thousand_pools_are_told_in_a_line_that_ends() -> None:
    """The table had every pool of every claim in it: megabytes, and minutes to lay them out."""
    pools = [str(10**9 + number) for number in range(100_000)]
    found = [driver(), storage_class(), node("n0"), capacity(node="n0", pools=pools), claim("c", "5Gi")]
    replay = Replay([*found, pod_with("x", "c")], default_configuration().profiles)
    answer = replay.schedule("default/x")
    out = io.StringIO()
    explain_report.print_explanation(answer, {}, TextPage(out))
    assert "and 99,960 more" in out.getvalue() and len(out.getvalue()) < 10_000
    assert len(answer.document()["volumes"]["n0"][0]["pools"]) == 100_000, "scripts have them all"
