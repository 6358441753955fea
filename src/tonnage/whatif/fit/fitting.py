"""One question of `fit`, asked: counted, then what stops the next one, and what would let it in.

answer = fitted(asked, fresh, most=10_000, phase=phase)
answer.document()

`phase(name)` is a context manager that gives a `step`, which is called for every replica: for bars, and for whoever
wants to end it. Ctrl-C and OutOfTime leave what is known by then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice

from tonnage.errors import TonnageError
from tonnage.objects.meta import Object
from tonnage.whatif.disk_documents import disks_of_objects
from tonnage.whatif.expansion import Replica
from tonnage.whatif.fit.answer import FitAnswer
from tonnage.whatif.fit.asking import FitQuestion
from tonnage.whatif.fit.counting import FitCluster, count
from tonnage.whatif.fit.growth import MOST_PODS, nodes_needed
from tonnage.whatif.fit.remedies import Remedies
from tonnage.whatif.interruptions import INTERRUPTIONS

Step = Callable[[float], object]
Phase = Callable[[str], AbstractContextManager[Step]]


def fitted(
    asked: FitQuestion,
    fresh: Callable[[], FitCluster],
    *,
    most: int,
    phase: Phase,
    with_disks: bool = True,
    node_template: Sequence[Object] | None = None,
) -> FitAnswer:
    """The whole answer; `fresh` makes the cluster, with what the workload brings along. Raises TonnageError."""
    needed, replicas = None, asked.replicas
    if node_template is not None:
        if asked.wanted > MOST_PODS:
            raise TonnageError(
                f"{asked.name} asks for {asked.wanted:,} more pods, and nodes are counted for {MOST_PODS:,} at most",
                hint="write fewer replicas, or leave out --nodes-needed to count how many fit",
            )
        wanted = list(islice(asked.replicas, asked.wanted))
        with phase("adding nodes"):
            needed = nodes_needed(fresh, wanted, node_template)
        replicas = chain(wanted, asked.replicas)
    answer = _counted(asked.name, replicas, fresh(), most, phase, with_disks=with_disks)
    return dataclasses.replace(answer, needed=needed)


def _counted(
    name: str, replicas: Iterator[Replica], cluster: FitCluster, most: int, phase: Phase, *, with_disks: bool
) -> FitAnswer:
    with phase(f"placing replicas of {name}") as step:
        counted = count(cluster, replicas, most, step)
    disks = disks_of_objects(cluster.replay.objects, cluster.replay.engine.held) if with_disks else []
    answer = FitAnswer(name, counted, disks=disks)
    if counted.refusal is None or counted.refused is None:
        return answer
    pod = cluster.replay.pod(counted.refused.pod.key)
    try:
        with phase("looking for what would let the next one in") as step:
            found = Remedies(cluster, pod, counted.refusal, step).found()
            return dataclasses.replace(answer, remedies=tuple(found))
    except INTERRUPTIONS:
        counted.is_interrupted = True
        return answer
