"""ImageLocality: a node that has the images already starts the pod sooner.

    sum    = over the pod's images: size on this node * (nodes that have it) / (all nodes)
    score  = 100 * (clamp(sum, low, high) - low) / (high - low),  low = 23 MB, high = 1000 MB a container

The share of nodes damps the score of an image that only one node has, lest all pods run there. Upstream takes an
image's size from the first node it saw it on; we take each node's own.
"""

from __future__ import annotations

import numpy as np

from tonnage.scheduling.columns import Ints, Rows
from tonnage.scheduling.framework import MAX_SCORE, SKIP, Cycle, PreScorePlugin, ScorePlugin, Status

_MB = 1024 * 1024
_LOW = 23 * _MB
_HIGH_PER_CONTAINER = 1000 * _MB


class ImageLocality(PreScorePlugin, ScorePlugin):
    """Not row-local: how many nodes have an image is a fact about all of them."""

    name = "ImageLocality"

    def pre_score(self, cycle: Cycle) -> Status | None:
        known = any(cycle.cluster.images.where(container.image) for container in cycle.pod.all_containers)
        return None if known else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        cluster, containers = cycle.cluster, cycle.pod.all_containers
        total = np.zeros(cluster.size, dtype=np.int64)
        for container in containers:
            where = cluster.images.where(container.image)
            if where:
                share = len(where) / cluster.count
                on = np.fromiter(where.keys(), np.intp, len(where))
                sizes = np.fromiter(where.values(), np.int64, len(where))
                total[on] += (sizes * share).astype(np.int64)
        high = _HIGH_PER_CONTAINER * max(1, len(containers))
        bounded = np.clip(total[rows], _LOW, high)
        found: Ints = MAX_SCORE * (bounded - _LOW) // (high - _LOW)
        return found
