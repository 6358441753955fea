"""Questions about the whole cluster, answered like the commands: pending pods, drain previews, fits.

The answer about pending pods is kept up to date while somebody looks. The first request is answered within FIRST_S,
partially if need be. Later requests get the last answer at once and start a new one if the cluster has changed: at most
every PAUSE_S, and after a pause as long as the last one took. After DECIDE_S and TRY_S an answer stays partial. Changes
that no row shows (a taint, a label) count after RENEW_S at the latest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import msgspec

from tonnage.clock import rfc3339
from tonnage.dashboard.model.shown_cluster import ShownCluster
from tonnage.dashboard.questions.asking import MOST_S, Asking, QuestionLimit
from tonnage.errors import TonnageError
from tonnage.objects.meta import Object
from tonnage.whatif.drain.preview import Preview, known_nodes
from tonnage.whatif.drain.rehearsal import Scene
from tonnage.whatif.fit import MOST, fitting
from tonnage.whatif.manifests import GivenText
from tonnage.whatif.pending.pending import PendingQuestion, summary
from tonnage.whatif.simulate.played_cluster import PlayedCluster
from tonnage.whatif.simulate.world_state import WorldSettings
from tonnage.whatif.sources import ClusterState, OutOfTime, Step
from tonnage.whatif.workloads import is_workload

FIRST_S: Final = 1.0
DECIDE_S: Final = 20.0
TRY_S: Final = 20.0
PAUSE_S: Final = 2.0
RENEW_S: Final = 10.0


class PendingAnswers:
    def __init__(self, cluster: ShownCluster, asking: Asking) -> None:
        self._cluster, self._asking = cluster, asking
        self._latest: dict[str, Any] | None = None
        self._failure: Exception | None = None
        self._work: asyncio.Task[None] | None = None
        self._is_told = asyncio.Event()
        self._began_at = self._ended_at = 0.0

    async def latest(self) -> bytes:
        """The newest answer. Its `working` says that a newer one is being computed. Raises TonnageError."""
        if self._is_due():
            self._failure = None
            self._is_told.clear()
            self._began_at = self._cluster.clock.monotonic()
            self._work = asyncio.create_task(self._work_out(), name="what waits")
        if self._latest is None:
            await self._is_told.wait()
        if self._failure is not None:
            raise self._failure
        return msgspec.json.encode({**(self._latest or {}), "working": self._is_working})

    async def whole(self) -> bytes:
        """Every pending pod node by node, as the command answers. Raises TonnageError after the time limit."""
        state = await self._cluster.state(with_workloads=True)
        return await self._asking.answer(lambda limit: self._all_of(state, limit))

    @property
    def _is_working(self) -> bool:
        return self._work is not None and not self._work.done()

    def _is_due(self) -> bool:
        if self._is_working:
            return False
        if self._latest is None or self._failure is not None:
            return True
        now = self._cluster.clock.monotonic()
        if now - self._ended_at < max(PAUSE_S, self._ended_at - self._began_at):
            return False
        return self._latest["revision"] != self._cluster.collections.revision or now - self._ended_at > RENEW_S

    async def _work_out(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            revision = self._cluster.collections.revision
            state = await self._cluster.state(with_workloads=True)
            # Show a complete older answer rather than a newer one that grows, unless nothing was pending then.
            early = self._tell if self._latest is None or not self._latest["count"] else None
            tell = (lambda found: loop.call_soon_threadsafe(early, found)) if early is not None else None
            self._tell(await self._asking.keep(lambda limit: self._worked_out(state, revision, tell, limit)))
        except Exception as exc:
            self._failure = exc
            self._is_told.set()
        finally:
            self._ended_at = self._cluster.clock.monotonic()

    def _tell(self, found: dict[str, Any]) -> None:
        self._latest = found
        self._is_told.set()

    # -- in a thread --------------------------------------------------------------------------------------------------

    def _worked_out(
        self, state: ClusterState, revision: int, tell: Callable[[dict[str, Any]], object] | None, limit: QuestionLimit
    ) -> dict[str, Any]:
        notes = [*self._asking.configuration.notes, *state.warnings, *state.notes]
        question = PendingQuestion(state, self._asking.sequence(state, notes.append))
        count, began_at = question.count, self._cluster.clock.monotonic()
        pause_s = FIRST_S

        def told() -> dict[str, Any]:
            found = summary(question.answer())
            found["partial"] = found["partial"] or found["decided"] < count
            for name in ("groups", "wouldHelp"):
                found[name] = msgspec.Raw(msgspec.json.encode(found[name]))
            head = {"revision": revision, "at": rfc3339(state.clock.now()), "source": state.source, "count": count}
            return {**head, "notes": list(notes), **found}

        def step(amount: float) -> None:
            nonlocal pause_s
            limit.check()
            if tell is not None and self._cluster.clock.monotonic() - began_at >= pause_s:
                pause_s *= 2
                tell(told())

        with suppress(OutOfTime):
            limit.begin(DECIDE_S)
            question.decide(step)
        if tell is not None:
            tell(told())
        with suppress(OutOfTime):
            limit.begin(TRY_S)
            question.try_changes(step)
        return told()

    def _all_of(self, state: ClusterState, limit: QuestionLimit) -> bytes:
        question = PendingQuestion(state, self._asking.sequence(state, lambda sentence: None), explains_all=True)
        try:
            question.decide(limit.check)
            question.try_changes(limit.check)
        except OutOfTime as exc:
            raise TonnageError(
                f"the {question.count} pending pods could not all be explained within {MOST_S:g} s",
                hint="use the command, which has no time limit: tonnage explain --pending -o json",
            ) from exc
        return msgspec.json.encode(question.answer().document())


TEMPLATE: Final = "the template"
"""The name of a pasted template in errors, instead of a file name."""


def drained(
    state: ClusterState, asking: Asking, limit: QuestionLimit, nodes: Sequence[str], *, is_one_by_one: bool
) -> dict[str, Any]:
    """What draining these nodes would do. Raises TonnageError for an unknown node, or if time ends without a result."""
    names = known_nodes(nodes, state)
    follows_limits = asking.gates.MutableCSINodeAllocatableCount
    settings = WorldSettings(takes_any_pod=asking.takes_any_pod, updates_attach_limits=follows_limits)
    scene = Scene(state, asking.configuration.profiles, settings, limit.check)
    preview = Preview(scene, names, is_one_by_one=is_one_by_one)
    try:
        preview.run(limit.check)
    except OutOfTime as exc:
        if not preview.is_drained:
            raise TonnageError(
                f"the drain could not be simulated within {MOST_S:g} s",
                hint="ask for fewer nodes, or use the command, which has no time limit: tonnage drain-preview",
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
    """How many more replicas fit. Raises TonnageError for an unknown workload or an invalid template."""
    creation = asking.creation()
    creation.know(state.objects, state.rules)
    if template:
        asked = fitting.asked_template(state, creation, GivenText(TEMPLATE, template.encode()))
    else:
        asked = fitting.asked_workload(state, creation, workload, "default")

    profiles, takes_any_pod = asking.configuration.profiles, asking.takes_any_pod
    fresh = partial(PlayedCluster, state, profiles, takes_any_pod=takes_any_pod, is_stopped=limit.check)

    @contextmanager
    def phase(name: str) -> Iterator[Step]:
        yield limit.check

    return fitting.fitted(asked, fresh, most=most, phase=phase).document()


def workloads_of(objects: Sequence[Object]) -> list[str]:
    """The workloads as `KIND/NAMESPACE/NAME`; those that another workload controls are left out."""
    return sorted(
        f"{type(each).__name__}/{each.key}"
        for each in objects
        if is_workload(each) and each.metadata.controller is None
    )
