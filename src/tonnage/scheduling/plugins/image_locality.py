"""ImageLocality: a node that has the images already starts the pod sooner.

    sum    = over the pod's images: size on this node * (nodes that have it) / (all nodes)
    score  = 100 * (clamp(sum, low, high) - low) / (high - low),  low = 23 MB, high = 1000 MB a container

The share of nodes damps the score of an image that only one node has. Upstream takes an image's size from the first
node it saw it on; we take each node's own. Scores of the latest few combinations are kept until an image changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

import numpy as np

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Rows
from tonnage.scheduling.framework import MAX_SCORE, Cycle, ScorePlugin

_MB = 1024 * 1024
_LOW = 23 * _MB
_HIGH_PER_CONTAINER = 1000 * _MB
_REMEMBERED = 64


class ImageLocality(ScorePlugin):
    """Not row-local: how many nodes have an image is a fact about all of them."""

    name = "ImageLocality"

    def __init__(self) -> None:
        self._ready: OrderedDict[tuple[str, ...], tuple[Hashable, Ints]] = OrderedDict()

    def score(self, cycle: Cycle, rows: Rows) -> Ints | None:
        cluster, images = cycle.cluster, cycle.pod.images
        if cluster.images.are_unknown or not any(cluster.images.where(image) for image in images):
            return None
        as_of = (id(cluster), cluster.count, cluster.capacity, *map(cluster.images.version_of, images))
        found = self._ready.get(images)
        if found is None or found[0] != as_of:
            found = self._ready[images] = (as_of, _scores(cluster, images))
            if len(self._ready) > _REMEMBERED:
                self._ready.popitem(last=False)
        self._ready.move_to_end(images)
        return found[1][rows]


def _scores(cluster: Cluster, images: tuple[str, ...]) -> Ints:
    """By row, for a pod whose containers run these images."""
    total = np.zeros(cluster.capacity, dtype=np.int64)
    for image in images:
        if sizes := cluster.images.where(image):
            here = np.fromiter(sizes.values(), np.int64, len(sizes))
            total[list(sizes)] += (here * (len(sizes) / cluster.count)).astype(np.int64)
    high = _HIGH_PER_CONTAINER * len(images)
    found: Ints = MAX_SCORE * (np.clip(total, _LOW, high) - _LOW) // (high - _LOW)
    return found
