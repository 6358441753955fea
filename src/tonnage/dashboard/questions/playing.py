"""Replays of files as frames: one per replay step, or one per interval of a scenario's virtual time.

`Film` makes frames with the model of the live dashboard; a page plays them forwards and backwards. The first frame's
message is a state, every later one a difference (`wire.py`). Assumed pods are shown as the scheduler sees them. A frame
describes its step and, for a decision, the node and the reason in the words of `tonnage replay` and `tonnage explain`;
a scenario's frame lists what happened since the previous one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from tonnage.clock import format_duration, rfc3339
from tonnage.dashboard.model.cluster_model import ClusterModel
from tonnage.dashboard.questions.asking import MOST_S, Asking, QuestionLimit
from tonnage.dashboard.questions.given_files import GivenFiles, captions
from tonnage.dashboard.wire import Collections
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Condition, Key, Object
from tonnage.scheduler.configuration_file import installed_plugins
from tonnage.scheduler.debug_pages import DebugPages
from tonnage.scheduling.configuration.configuration import Configuration, parse
from tonnage.scheduling.decision.explain import Explanation, NodeAnswer
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.volumes.explain.account_entries import NodeAccount
from tonnage.whatif import explain_report, sources
from tonnage.whatif.replay import Replay
from tonnage.whatif.replay_steps import MAX_LINES, StepResult, misses, steps_of, taken
from tonnage.whatif.scheduler_memory import memory_from
from tonnage.whatif.simulate.measures import Measures
from tonnage.whatif.simulate.play import Player, Run
from tonnage.whatif.simulate.scenario import Apply, Arrive, Delete, Event, Join, NodeEvent, Scenario, scenario_of

MOST_FRAMES: Final = 2000
MOST_BYTES: Final = 32 * 1024 * 1024
"""Limit of all messages together: a page takes that much without a pause."""

Place = tuple[str, Key]


class Film:
    """Frames of one cluster. `check` is called for every frame and may raise."""

    def __init__(self, check: Callable[[], object] = lambda: None) -> None:
        self.cut = ""
        """Why the film was cut; empty if it is complete."""
        self._check = check
        self._frames: list[dict[str, Any]] = []
        self._collections = Collections()
        self._model = ClusterModel(self._collections)
        self._follower = self._collections.follow()
        self._shown: dict[Place, Object] = {}
        self._refused: dict[str, Pod] = {}
        self._bytes = 0

    def shoot(
        self,
        objects: Iterable[Object],
        engine: Engine,
        now: datetime,
        *,
        title: str,
        lines: Sequence[str] = (),
        waits: Mapping[str, str] | None = None,
        **told: Any,
    ) -> None:
        """Add a frame with the fields `told`. `waits`: why pods wait, by uid. Raises _IsFull when no more fit."""
        self._check()
        self._follow(objects, engine, waits or {})
        pages = DebugPages(engine)
        self._model.remember(memory_from("the replay", pages.reservations(), pages.assumed(), pages.nominations()))
        self._model.settle(now)
        message = self._follower.take()
        self._bytes += len(message)
        if self._bytes > MOST_BYTES:
            self.cut = f"the rest is left out: more than {MOST_BYTES // (1024 * 1024)} MiB of changes"
            raise _IsFull
        self._frames.append(
            {
                "number": len(self._frames),
                "title": title,
                "lines": list(lines),
                "at": rfc3339(now),
                "message": msgspec.Raw(message),
                **told,
            }
        )
        if len(self._frames) >= MOST_FRAMES:
            self.cut = f"the rest is left out: at most {MOST_FRAMES:,} frames are played"
            raise _IsFull

    def document(self) -> dict[str, Any]:
        return {"frames": self._frames, "cut": self.cut}

    def _follow(self, objects: Iterable[Object], engine: Engine, waits: Mapping[str, str]) -> None:
        """Pass the objects that changed since the last frame to the model."""
        storage, seen = engine.cluster.storage, dict[Place, Object]()
        for each in objects:
            shown: Object = each
            if isinstance(each, PersistentVolumeClaim):
                shown = storage.claims.get(each.key) or each
            elif isinstance(each, PersistentVolume):
                shown = storage.volumes.get(each.name) or each
            elif isinstance(each, Pod) and each.uid in waits and not each.spec.node_name:
                shown = self._waiting(each, waits[each.uid])
            seen[type(each).__name__, each.key] = shown
        for place, gone in self._shown.items():
            if place not in seen:
                self._model.remove(gone)
        for place, each in seen.items():
            if self._shown.get(place) is not each:
                self._model.put(each)
        self._shown = seen

    def _waiting(self, pod: Pod, why: str) -> Pod:
        """The pod with the condition that the scheduler would write. Returns the same object while nothing changes."""
        known = self._refused.get(pod.uid)
        if known is None or known.metadata != pod.metadata or _why(known) != why:
            told = Condition(type="PodScheduled", status="False", reason="Unschedulable", message=why)
            others = [condition for condition in pod.status.conditions if condition.type != "PodScheduled"]
            status = msgspec.structs.replace(pod.status, conditions=(*others, told))
            known = self._refused[pod.uid] = msgspec.structs.replace(pod, status=status)
        return known


def _why(pod: Pod) -> str:
    condition = pod.condition("PodScheduled")
    return condition.message if condition is not None else ""


BEGIN: Final = "the cluster at the beginning"
MOST_COMING: Final = 100_000
"""Limit of a scenario's pods and nodes: some hundred MiB."""
_TOLD: Final = 12
"""How many decisions a scenario's frame lists one by one."""
_TAIL: Final = "the rest is left out: the time limit was reached"


class _IsFull(Exception):
    """The film has reached its size limit."""


def played(given: GivenFiles, asking: Asking, limit: QuestionLimit, *, seed: int = 0) -> dict[str, Any]:
    """The frames of a replay or of a scenario, with notes. Raises TonnageError."""
    configuration, notes = _configuration(given, asking), list[str]()
    notes += configuration.notes
    notes += [f"{each} is ignored: it is neither YAML nor JSON" for each in given.passed_over]
    film = Film(limit.check)
    try:
        if given.steps is not None:
            _replay(given, asking, configuration, film, notes)
        else:
            _simulate(given, asking, configuration, film, notes, limit, seed)
    except _IsFull:
        pass
    except sources.OutOfTime:
        if not film.document()["frames"]:
            raise TonnageError(
                f"these files were not played within {MOST_S:g} s",
                hint="play a smaller cluster, or ask the command: tonnage replay, tonnage simulate",
            ) from None
        film.cut = film.cut or _TAIL
    kind = "replay" if given.steps is not None else "simulate"
    return {"kind": kind, "name": str(given.steps or given.scenario), "notes": notes, **film.document()}


def _configuration(given: GivenFiles, asking: Asking) -> Configuration:
    if given.config is None:
        return asking.configuration
    text = given.config.data.decode(errors="replace")
    return parse(text, source=str(given.config), known_plugins=installed_plugins(), gates=asking.gates)


def _replay(given: GivenFiles, asking: Asking, configuration: Configuration, film: Film, notes: list[str]) -> None:
    creation = asking.creation()
    state = sources.from_files(given.manifests, creation)
    assert given.steps is not None
    warnings: list[str] = []
    steps = steps_of(given.steps, creation, warnings)
    notes += [*state.warnings, *state.notes, *warnings]
    takes_any_pod = asking.takes_any_pod if given.config is None else False
    run = Replay(state.objects, configuration.profiles, takes_any_pod=takes_any_pod)
    words = captions(given.steps, len(steps))
    waits: dict[str, str] = {}
    film.shoot(run, run.engine, run.clock.now(), title=BEGIN, caption="", answer=None)
    for result, caption in zip(taken(run, steps, str(given.steps), notes.append), words, strict=True):
        if result.answer is not None:
            uid = run.pod(result.answer.pod).uid
            waits.pop(uid, None)
            if not result.answer.schedulable:
                waits[uid] = result.answer.message
        more = len(result.lines) - MAX_LINES
        film.shoot(
            run,
            run.engine,
            run.clock.now(),
            title=_title(result),
            lines=[*result.lines[:MAX_LINES], *([f"… and {more:,} more"] if more > 0 else [])],
            waits=waits,
            caption=caption,
            answer=_answer(result.answer) if result.answer is not None else None,
        )


def _title(result: StepResult) -> str:
    """A step's title. An apply or delete step names the first of its objects."""
    if result.title not in ("apply", "delete") or not result.lines:
        return result.title
    more = f" and {len(result.lines) - 1} more" if len(result.lines) > 1 else ""
    return f"{result.title} {result.lines[0].rpartition(' ')[0]}{more}"


def _answer(answer: Explanation) -> dict[str, Any]:
    reasons: Counter[str] = Counter()
    for node in answer.nodes:
        reasons.update(set(node.reasons))
    account = answer.volumes.get(answer.node) if answer.node else None
    return {
        "pod": answer.pod,
        "node": answer.node if answer.schedulable else "",
        "message": f"not tried: {answer.held_back}" if answer.held_back else answer.message,
        "why": list(_why_there(answer)),
        "claims": list(explain_report.claim_sentences(account)) if isinstance(account, NodeAccount) else [],
        "reasons": [{"reason": reason, "nodes": nodes} for reason, nodes in reasons.most_common()],
        "misses": list(misses(answer)),
    }


def _why_there(answer: Explanation) -> Iterator[str]:
    if not answer.schedulable:
        return
    fitting = [node for node in answer.nodes if node.feasible]
    chosen = next((each for each in fitting if each.name == answer.node), None)
    others = sorted((each for each in fitting if each is not chosen), key=lambda each: -each.total)
    if chosen is None:
        return
    if not others:
        yield "it is the only node that fits"
        return
    best = others[0]
    if not chosen.scores:
        yield f"{len(others):,} other {'node fits' if len(others) == 1 else 'nodes fit'} too"
    elif best.total == chosen.total:
        alike = [each.name for each in others if each.total == chosen.total]
        more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        yield f"{chosen.total} points, as many as {alike[0]}{more}: one is drawn at random"
    else:
        yield f"{chosen.total} points; the next is {best.name} with {best.total}{_telling(chosen, best)}"


def _telling(chosen: NodeAnswer, other: NodeAnswer) -> str:
    """The score with the largest difference between two nodes."""
    apart = {name: score - other.scores.get(name, 0) for name, score in chosen.scores.items()}
    name = max(apart, key=lambda each: apart[each], default="")
    return f" ({name}: {chosen.scores[name]} to {other.scores.get(name, 0)})" if name and apart[name] > 0 else ""


def _simulate(
    given: GivenFiles,
    asking: Asking,
    configuration: Configuration,
    film: Film,
    notes: list[str],
    limit: QuestionLimit,
    seed: int,
) -> None:
    assert given.scenario is not None
    scenario = scenario_of(given.scenario)
    state = sources.from_files(given.manifests, asking.creation(), with_workloads=True)
    notes += [*state.warnings, *state.notes]
    shots = _Shots(film, scenario)
    player = Player(
        state,
        scenario,
        asking.creation,
        updates_attach_limits=asking.gates.MutableCSINodeAllocatableCount,
        is_stopped=limit.check,
        on_sample=shots.take,
        most=MOST_COMING,
    )
    takes_any_pod = asking.takes_any_pod if given.config is None else False
    player.play(Run("default", configuration.profiles, seed, takes_any_pod))
    notes += player.warnings


class _Shots:
    """Frames of a run, one per sample, with what happened since the previous sample."""

    def __init__(self, film: Film, scenario: Scenario) -> None:
        self._film = film
        self._events = sorted(scenario.events, key=lambda event: event.at_s)
        self._decisions = self._failures = 0
        self._at_s = -1.0

    def take(self, measures: Measures) -> None:
        world = measures.world
        now_s, sample = world.agenda.now_s, measures.samples[world.agenda.now_s]
        if now_s == self._at_s:  # a run always samples its end, also right after a regular sample
            return
        self._at_s = now_s
        decisions, failures = measures.decisions[self._decisions :], measures.failures[self._failures :]
        self._decisions, self._failures = len(measures.decisions), len(measures.failures)
        events = []
        while self._events and self._events[0].at_s <= now_s:
            events.append(_told_event(self._events.pop(0)))
        placed = [decision for decision in decisions if decision.node]
        lines = [*events, *(f"{each.pod} goes to {each.node}" for each in placed[:_TOLD])]
        if len(placed) > _TOLD:
            lines.append(f"… and {len(placed) - _TOLD:,} more are placed")
        lines += [f"{pod} no longer goes to {node}: {why}" for _, pod, node, why in failures[:_TOLD]]
        lines += [f"{len(pods):,} wait: {reason}" for reason, pods in measures.waiting_groups()[:3]]
        full = sample["usedBytes"] / sample["totalBytes"] if sample["totalBytes"] else 0.0
        count = f"{sample['running']:,} run, {sample['waiting']:,} wait, {full:.0%} full"
        told = f"{'; '.join(events)}; " if events else ""
        self._film.shoot(
            world,
            world.engine,
            world.clock.now(),
            title=f"{format_duration(round(now_s))}: {told}{count}",
            lines=lines,
            waits=world.scheduler.why,
            caption="",
            answer=None,
        )


def _told_event(event: Event) -> str:
    match event:
        case NodeEvent(what=what, node=node):
            return f"{what} {node}"
        case Join(names=names):
            return f"join {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
        case Arrive(workload=workload, rate_per_s=rate):
            return f"{workload} arrives" if rate is None else f"{workload} begins to arrive"
        case Apply(objects=objects):
            return f"{len(objects)} objects are applied"
        case Delete(objects=objects):
            return f"{len(objects)} objects are deleted"
