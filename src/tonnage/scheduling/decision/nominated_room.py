"""Pods that are nominated to nodes, counted in on all of their nodes at once.

A row is judged as if the pods that are nominated to it were there. Putting them there and asking every filter anew
costs a tenth of a millisecond a row, and after a burst of preemptions there are thousands. But most filters do not mind
most pods (`FilterPlugin.minds`): one without a host port is nothing to NodePorts. Where nobody minds the pods of a row
but the one filter that sums decide, the row is a matter of arithmetic:

    left[r] = allocatable[r] - requested[r] - nominated[r]          refused where it is less than the pod asks for

The others are judged one by one (`Decider._judge_with_nominated`), with the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tonnage.scheduling.cluster.amounts import CPU, MEMORY, PODS
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import LARGE, Ints
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.diagnosis import Diagnosis
from tonnage.scheduling.decision.filter_results import NARROWED, NOBODY
from tonnage.scheduling.framework import Cycle, FilterPlugin, Judgement, Minds, minds_everybody

_NATIVE = ((CPU, 0), (MEMORY, 1))
"""Resources that every node has from its first day, with their places in `Cluster.allocatable`."""


def judge_by_sums(
    filters: Sequence[FilterPlugin], cycle: Cycle, diagnosis: Diagnosis, held: Mapping[int, Sequence[PodInfo]]
) -> Mapping[int, Sequence[PodInfo]]:
    """Hold against rows what the pods nominated to them leave too little of; the rows that sums do not decide.

    What others hold against a row stands: they would say the same with those pods there.
    """
    cluster = cycle.cluster
    summing = [(position, each) for position, each in enumerate(filters) if each.sums(cycle.pod) is not None]
    if not held or len(summing) != 1 or cluster.counts_large:
        return held
    ((position, fit),) = summing
    sums = fit.sums(cycle.pod)
    if sums is None or fit.name in cycle.skip_filter:
        return held
    minding = minders(filters, cycle, fit)
    if minds_everybody in minding:
        return held
    node_of, allocatable = cluster.node_of, cluster.allocatable
    added = [(row, pod) for row, pods in held.items() for pod in pods if node_of(pod.uid) is None]
    rows = np.array([row for row, _ in added], dtype=np.intp)
    asked = [pod.requests for _, pod in added]
    if any(amount >= LARGE for each in asked for amount in each.values()):
        return held
    amounts = {name: np.array([each.get(name, 0) for each in asked], dtype=np.int64) for name in (CPU, MEMORY)}
    may_come = np.ones(len(rows), dtype=np.bool_)  # as `not_yet_counted` has it
    for name, number in _NATIVE:
        may_come &= amounts[name] <= allocatable[number, rows]
    coming = [each for each, comes in zip(added, may_come.tolist(), strict=True) if comes]
    left = {row for row, pod in coming if any(minds(pod) for minds in minding)} if minding else set()
    if left:
        may_come &= ~np.isin(rows, list(left))
    distinct, place = np.unique(rows[may_come], return_inverse=True)
    taken: dict[str, Ints] = {}
    for name, _ in sums.amounts:
        of_pods = amounts.get(name)
        if of_pods is None:
            of_pods = np.array([1 if name == PODS else each.get(name, 0) for each in asked], dtype=np.int64)
        taken[name] = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(taken[name], place, of_pods[may_come])
    judgement = fit.filter_beside(cycle, distinct, taken)
    if judgement is not None:
        _hold_against(diagnosis, position, judgement, distinct, held)
    return {row: held[row] for row in left}


def _hold_against(
    diagnosis: Diagnosis,
    position: int,
    judgement: Judgement,
    rows: np.ndarray[tuple[int], np.dtype[np.intp]],
    held: Mapping[int, Sequence[PodInfo]],
) -> None:
    """Enter a refusal with nominated pods in place of what is held against the rows without them."""
    first = diagnosis.first[rows]
    # A filter before this one refuses with the same words; what one after it says is not told any more.
    refused = (judgement.bits != 0) & (first >= position) & (first != NARROWED)
    if not refused.any():
        return
    for row in rows[refused & (first == NOBODY)].tolist():
        diagnosis.held_by[row] = tuple(not_yet_counted(diagnosis.cluster, row, held[row]))
    diagnosis.clear(rows[refused])
    final = judgement.unresolvable
    told = Judgement(judgement.bits[refused], judgement.reasons, final if isinstance(final, bool) else final[refused])
    diagnosis.add(position, told, rows[refused])


def minders(filters: Iterable[FilterPlugin], cycle: Cycle, but_for: FilterPlugin) -> list[Minds]:
    """Who of the filters minds which pods on a row, but for one of them."""
    found = [_minds(plugin, cycle) for plugin in filters if plugin is not but_for]
    return [each for each in found if each is not None]


def _minds(plugin: FilterPlugin, cycle: Cycle) -> Minds | None:
    """What a plugin says; a class that judges in its own way and does not say whom it minds is not taken at the word of
    the class it is made from.
    """
    for kind in type(plugin).__mro__:
        if "minds" in vars(kind):
            break
        if not plugin.node_only and ("filter" in vars(kind) or "pre_filter" in vars(kind)):
            return minds_everybody
    return plugin.minds(cycle)


def not_yet_counted(cluster: Cluster, row: int, expected: Iterable[PodInfo]) -> list[PodInfo]:
    """The pods expected on a row that are not counted anywhere yet.

    One that asks for more than the whole node has will never be there: it must not keep others out.
    """
    return [
        pod
        for pod in expected
        if cluster.node_of(pod.uid) is None
        and all(pod.requests.get(name, 0) <= cluster.allocatable.item(number, row) for name, number in _NATIVE)
    ]
