"""Pods of one workload come one after another and ask for the same: what was derived for the first serves the others.

    web-0 ── derived ──► requests, ports, images, signature …
    web-1 ── asks for the same as web-0 ──► has them

Pods are alike when all that the shared attributes are derived from is equal; names, labels, volumes and how containers
mount them may differ, as they do in a StatefulSet. Comparing costs a third of deriving. One pod is kept to compare
with, the last that was unlike the one before it. Pods that are bound come in between those that wait, and are alike but
for their node: they have what does not tell of it, and do not take the place of one that waits.
"""

from __future__ import annotations

from tonnage.objects.core_v1 import Container, Pod


def are_alike(one: Pod, other: Pod) -> bool:
    """Whether two pods ask for the same, and nothing is known yet of what a node holds for either.

    The nodes they are on may differ.
    """
    mine, theirs = one.spec, other.spec
    return (
        _all_alike(mine.containers, theirs.containers)
        and mine.node_selector == theirs.node_selector
        and mine.affinity == theirs.affinity
        and mine.tolerations == theirs.tolerations
        and mine.overhead == theirs.overhead
        and mine.resources == theirs.resources
        and _all_alike(mine.init_containers, theirs.init_containers)
        and not _is_held(one)
        and not _is_held(other)
    )


def _all_alike(mine: tuple[Container, ...], theirs: tuple[Container, ...]) -> bool:
    if len(mine) != len(theirs):
        return False
    for one, other in zip(mine, theirs, strict=True) if mine else ():
        if one.resources != other.resources or one.image != other.image or one.ports != other.ports:
            return False
        if one.restart_policy != other.restart_policy:
            return False
    return True


def _is_held(pod: Pod) -> bool:
    """A node has said what it holds for the pod, which may be more than the pod asks for (`amounts.py`)."""
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses or status.resources is not None)
