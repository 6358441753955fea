"""Which node has which image, under which name."""

from __future__ import annotations

import random

import pytest

from tonnage.objects.core_v1 import ContainerImage
from tonnage.scheduling.cluster.columns import Images, canonical


def image(size: int, *names: str) -> ContainerImage:
    return ContainerImage(names=names, size_bytes=size)


def held(images: Images, name: str) -> dict[int, int]:
    return dict(images.where(name))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("app", "app:latest"),
        ("app:1", "app:1"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:1", "registry:5000/app:1"),
        ("app@sha256:abc", "app@sha256:abc"),
        ("", ":latest"),
    ],
)
def test_a_name_without_a_tag_means_the_latest(name, expected):
    assert canonical(name) == expected


def test_an_image_is_found_under_all_its_names():
    images = Images()
    assert images.replace(2, (), (image(50, "app", "app@sha256:abc"), image(7, "tool:1")))
    assert held(images, "app:latest") == held(images, "app@sha256:abc") == {2: 50}
    assert held(images, "tool:1") == {2: 7} and held(images, "tool:2") == {}


def test_an_image_that_went_is_not_found():
    images = Images()
    before = (image(50, "app"), image(7, "tool:1"))
    images.replace(0, (), before)
    images.replace(1, (), (image(60, "app"),))
    assert images.replace(0, before, (image(7, "tool:1"),))
    assert held(images, "app:latest") == {1: 60}
    assert images.replace(0, (image(7, "tool:1"),), ())
    assert not images.where("tool:1")


def test_the_tick_moves_when_a_node_has_other_images_than_before():
    images = Images()
    before = (image(50, "app"), image(7, "tool:1"))
    images.replace(0, (), before)
    tick = images.tick
    assert not images.replace(0, before, (image(7, "tool:1"), image(50, "app:latest")))  # told in another order
    assert images.tick == tick
    assert images.replace(0, before, (image(51, "app"), image(7, "tool:1")))
    assert images.tick > tick


def test_after_many_changes_everybody_has_what_they_said_last():
    rng, images = random.Random(3), Images()
    said: list[tuple[ContainerImage, ...]] = [()] * 20
    for _ in range(2000):
        row = rng.randrange(20)
        after = tuple(image(rng.randrange(100), f"i{number}") for number in range(5) if rng.random() < 0.4)
        images.replace(row, said[row], after)
        said[row] = after
    for number in range(5):
        name = f"i{number}"
        expected = {row: each.size_bytes for row, told in enumerate(said) for each in told if each.names == (name,)}
        assert held(images, f"{name}:latest") == expected
