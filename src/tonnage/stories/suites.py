"""Which stories run on which cluster."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, Protocol

from tonnage.stories import enhancements
from tonnage.stories.story_runner import StoryRunner


class Story(Protocol):
    """An async function: its name is the story's, its docstring the title."""

    __name__: str

    async def __call__(self, runner: StoryRunner, /) -> None: ...


PROFILES = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 1000, burst: 2000}
profiles:
- schedulerName: default-scheduler
- schedulerName: least-free
  pluginConfig:
  - name: VolumeBinding
    args:
      shape:
      - {utilization: 0, score: 0}
      - {utilization: 100, score: 10}
- schedulerName: by-the-letter
  pluginConfig:
  - name: StorageCapacity
    args: {apiVersion: tonnage.dev/v1alpha1, kind: StorageCapacityArgs, reservation: Object, legacyPools: Strict}
"""
"""The default profile prefers the most free storage and counts bytes; the second prefers the least storage that is
enough; the third reserves whole capacity objects, as KEP-5925 is written."""


@dataclass(frozen=True, slots=True)
class Suite:
    title: str
    gates: str
    stories: tuple[Story, ...]
    nodes: int = 3
    node_pools: tuple[str, ...] = ("node-1=100Gi", "node-2=3x100Gi", "node-3=2x60Gi")
    max_volumes: tuple[str, ...] = ("16", f"node-2={enhancements.LIMIT}")

    def only(self, names: Collection[str]) -> Suite:
        """The suite with its stories of these names; with all of them if no name is given."""
        chosen = (story for story in self.stories if not names or name_of(story) in names)
        return replace(self, stories=tuple(chosen))


SUITES: tuple[Suite, ...] = (
    Suite(
        "with all four enhancements",
        "",
        (
            enhancements.claims_are_packed_jointly,
            enhancements.old_figures_are_not_used_twice,
            enhancements.old_figures_are_not_used_twice_by_the_letter,
            enhancements.a_drained_node_gives_its_volumes_away,
            enhancements.most_free_first,
            enhancements.least_free_first,
            enhancements.the_decision_is_seen_and_survives,
            enhancements.others_may_propose,
            enhancements.limits_follow_reality,
            enhancements.a_refused_attachment_corrects_the_limit,
        ),
    ),
    Suite(
        "without: the gates of KEP-5925 and KEP-4876 are off",
        "CSIStorageCapacityV2=false,MutableCSINodeAllocatableCount=false",
        (
            enhancements.claims_are_looked_at_one_by_one,
            enhancements.old_figures_are_used_again_and_again,
            enhancements.a_drained_node_sends_its_pods_anywhere,
            enhancements.limits_stay_what_they_were,
        ),
    ),
)


def name_of(story: Story) -> str:
    """The name by which `tonnage demo --only` knows a story."""
    return story.__name__.replace("_", "-")


def title_of(story: Story) -> str:
    return (story.__doc__ or "").strip()


STORIES: Final = {name_of(story): story for suite in SUITES for story in suite.stories}
