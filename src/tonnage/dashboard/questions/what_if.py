"""Drain previews and fits, asked from the page: the answers are those of the commands, word for word.

document = drained(state, asking, limit, ["node-1"], is_one_by_one=False)     # tonnage drain-preview -o json
document = fits(state, asking, limit, workload="sts/shop/db")                 # tonnage fit -o json
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tonnage.dashboard.questions.asking import Asking, QuestionLimit
from tonnage.errors import TonnageError
from tonnage.objects.meta import Object
from tonnage.whatif.drain.preview import Preview, known_nodes
from tonnage.whatif.drain.rehearsal import Scene
from tonnage.whatif.fit import MOST
from tonnage.whatif.fit.counting import FitCluster
from tonnage.whatif.fit.fitting import Step, asked_template, asked_workload, fitted
from tonnage.whatif.manifest_errors import GivenText
from tonnage.whatif.sources import ClusterState, OutOfTime
from tonnage.whatif.workloads import is_workload

TEMPLATE: Final = "the template"
"""How a pasted template is called in errors, where a file has its name."""


def drained(
    state: ClusterState, asking: Asking, limit: QuestionLimit, nodes: Sequence[str], *, is_one_by_one: bool
) -> dict[str, Any]:
    """What draining these nodes would do. Raises TonnageError for a node that is not there, or when time is over
    before anything is known.
    """
    names = known_nodes(nodes, state.objects, state.source)
    scene = Scene(
        state,
        asking.configuration.profiles,
        foreign=asking.foreign,
        takes_any_pod=asking.takes_any_pod,
        updates_attach_limits=asking.gates.MutableCSINodeAllocatableCount,
        is_stopped=limit.check,
    )
    preview = Preview(scene, names, is_one_by_one=is_one_by_one)
    try:
        preview.run(limit.check)
    except OutOfTime as exc:
        if not preview.is_drained:
            raise TonnageError(
                f"the drain was not rehearsed to its end within {asking.most_s:g} s",
                hint="ask for fewer nodes, or ask the command, which takes the time it needs: tonnage drain-preview",
            ) from exc
    return preview.document()


def fits(
    state: ClusterState,
    asking: Asking,
    limit: QuestionLimit,
    *,
    workload: str = "",
    template: str = "",
    most: int = MOST,
) -> dict[str, Any]:
    """How many more replicas fit. Raises TonnageError for a workload that is not there, or a template that is wrong."""
    creation = asking.creation()
    creation.know(state.objects)
    if template:
        asked = asked_template(state, creation, GivenText(TEMPLATE, template.encode()))
    else:
        asked = asked_workload(state, creation, workload, "default")

    def fresh() -> FitCluster:
        made = FitCluster(
            state.objects,
            asking.configuration.profiles,
            foreign=asking.foreign,
            takes_any_pod=asking.takes_any_pod,
        )
        made.apply(asked.made)
        return made

    @contextmanager
    def phase(name: str) -> Iterator[Step]:
        yield limit.check

    return fitted(asked, fresh, most=most, phase=phase).document()


def workloads_of(objects: Sequence[Object]) -> list[str]:
    """What may be asked about, as `KIND/NAMESPACE/NAME`; a set that another workload has made stands behind that."""
    return sorted(
        f"{type(each).__name__}/{each.key}"
        for each in objects
        if is_workload(each) and each.metadata.controller is None
    )
