"""KEP-4049's stories: the same claim, once for the node with the most room, once for the one with the least."""

from __future__ import annotations

from tonnage.stories.objects import claim, pod
from tonnage.stories.story_runner import StoryRunner


async def most_free_first(runner: StoryRunner) -> None:
    """KEP-4049, story 1: room to grow, so the node with the most free storage"""
    await _placed(runner, "", "node-2", "300Gi are free on node-2, 100Gi on node-1, 120Gi on node-3")


async def least_free_first(runner: StoryRunner) -> None:
    """KEP-4049, story 2: as few nodes as possible, so the fullest that still has room"""
    await _placed(runner, "least-free", "node-1", "100Gi are free on node-1, less than anywhere else")


async def _placed(runner: StoryRunner, profile: str, wanted: str, why: str) -> None:
    docs = (claim("data", "10Gi"), pod("db", ["data"], scheduler=profile))
    answer = await runner.explanation_of(docs[1], *docs)
    scores = {each.name: each.scores.get("VolumeBinding", 0) for each in answer.nodes}
    shown = ", ".join(f"{name} {score}" for name, score in sorted(scores.items()))
    await runner.apply(*docs)
    node = await runner.bound("db")
    runner.check(f"it goes to {wanted}", node == wanted, why)
    runner.check("by the score for free storage", max(scores, key=lambda name: scores[name]) == wanted, shown)
