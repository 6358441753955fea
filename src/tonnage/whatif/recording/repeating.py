"""A recording decided again by the same configuration, and each of its decisions by another one. No I/O but the file's.

`repeated` does to an engine of the recorded configuration and seed what was done to the recorded one: the decisions
are the same ones, or this is another Tonnage than the one that recorded.

`judged` asks another policy at each recorded decision what it would have done in that very state, and then goes on with
what was recorded: a pod counts where it really went. So every decision is judged on the same cluster, and one
difference does not hide the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tonnage.clock import rfc3339
from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.scheduling.configuration.configuration import Configuration, default_configuration, parse
from tonnage.scheduling.configuration.plugin_catalogue import KnownPlugin
from tonnage.scheduling.engine.attempt import Placement
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.scheduling.recording.lines import instant
from tonnage.scheduling.recording.repetition import (
    BrokenRecording,
    Difference,
    RecordedClock,
    RecordedObjects,
    Repetition,
)
from tonnage.whatif.recording.reading import Recording, UnreadableRecording
from tonnage.whatif.shadow.judging import Judge, verdict_of
from tonnage.whatif.shadow.tally import Tally

Stopped = Callable[[], bool]


@dataclass(slots=True)
class Repeated:
    """How a repetition went. `difference` is the first one; nothing was compared after it."""

    decisions: int = 0
    difference: Difference | None = None

    @property
    def equal(self) -> int:
        is_decision = self.difference is not None and self.difference.what == "attempt"
        return self.decisions - is_decision

    def document(self) -> dict[str, Any]:
        found = self.difference
        told: dict[str, Any] | None = None
        if found is not None:
            told = {
                "what": found.what,
                "at": rfc3339(found.at),
                "pod": found.pod,
                "recorded": found.recorded or None,
                "repeated": found.repeated or None,
                **({"explanation": found.explanation.document()} if found.explanation is not None else {}),
            }
        return {"decisions": self.decisions, "equal": self.equal, "firstDifference": told}


@dataclass(slots=True)
class RepeatedRecording:
    """Everything that was asked about one recording."""

    recording: Recording
    repeated: Repeated
    judged: dict[str, Tally] = field(default_factory=dict)
    until: datetime | None = None
    is_partial: bool = False

    def document(self) -> dict[str, Any]:
        """The answer for scripts; see docs/whatif.md."""
        header = self.recording.header
        since = instant(header.now_us)
        runs = {}
        for name, tally in self.judged.items():
            told = tally.document(self.until or since)
            kept = ("decisions", "agreed", "ties", "differences", "differencesLeftOut")
            runs[name] = {each: told[each] for each in kept}
        return {
            "seed": header.seed,
            "since": rfc3339(since),
            "until": rfc3339(self.until or since),
            "ending": self.recording.ending or None,
            "partial": self.is_partial,
            "repeated": self.repeated.document(),
            "runs": runs,
        }


def configuration_of(recording: Recording, foreign: ForeignPlugins) -> Configuration:
    """The configuration that it was recorded with. Raises UnreadableRecording where this Tonnage cannot take it."""
    known = tuple(KnownPlugin.of(plugin) for plugin in foreign.values())
    try:
        gates = Gates.parse(recording.header.feature_gates)
        if not recording.header.configuration:
            return default_configuration(known_plugins=known, gates=gates)
        return parse(recording.header.configuration, source=str(recording.path), known_plugins=known, gates=gates)
    except TonnageError as exc:
        told = f"its configuration cannot be taken by this Tonnage: {exc.message}"
        raise UnreadableRecording(recording.path, 1, told, hint=exc.hint) from exc


def answered(
    recording: Recording,
    others: dict[str, Configuration],
    *,
    foreign: ForeignPlugins,
    is_stopped: Stopped,
    step: Callable[[float], object] = lambda amount: None,
) -> RepeatedRecording:
    """Repeat a recording, and judge it by other configurations; as far as that came when it was stopped."""
    answer = RepeatedRecording(recording, Repeated())
    configuration = configuration_of(recording, foreign)
    answer.is_partial = _repeat(answer, configuration, foreign, is_stopped, None)
    found = answer.repeated.difference
    if found is not None and found.what == "attempt" and not answer.is_partial:
        _repeat(answer, configuration, foreign, is_stopped, answer.repeated.decisions)  # once more, to tell why
    step(1.0)
    for name, other in others.items():
        tally = answer.judged[name] = Tally(instant(recording.header.now_us))
        answer.is_partial |= _judge(answer, tally, other, foreign, is_stopped)
        step(1.0)
    return answer


def _repeat(
    answer: RepeatedRecording,
    configuration: Configuration,
    foreign: ForeignPlugins,
    is_stopped: Stopped,
    explained: int | None,
) -> bool:
    """True when it was stopped before its end."""
    recording = answer.recording
    repetition = Repetition(
        recording.header,
        configuration.profiles,
        foreign=foreign,
        initial_backoff_s=float(configuration.pod_initial_backoff_seconds),
        max_backoff_s=float(configuration.pod_max_backoff_seconds),
        explained_decision=explained,
    )
    answer.repeated = result = Repeated()
    try:
        for line in recording.lines():
            if is_stopped():
                return True
            result.difference = repetition.repeat(line)
            result.decisions, answer.until = repetition.decisions, repetition.clock.now()
            if result.difference is not None:
                return False
    except BrokenRecording as exc:
        raise UnreadableRecording(recording.path, recording.number, exc.message) from exc
    return False


def _judge(
    answer: RepeatedRecording, tally: Tally, configuration: Configuration, foreign: ForeignPlugins, is_stopped: Stopped
) -> bool:
    """True when it was stopped before its end."""
    recording, objects = answer.recording, RecordedObjects()
    header = recording.header
    clock = RecordedClock(header.at, instant(header.now_us))
    implies = header.implies_namespaces
    judge = Judge(configuration.profiles, clock=clock, seed=header.seed, foreign=foreign, implies_namespaces=implies)
    engine = judge.engine
    placements: dict[str, Placement] = {}
    try:
        for line in recording.lines():
            if is_stopped():
                return True
            clock.set(line)
            answer.until = clock.now()
            if line.op in ("add", "update", "delete"):
                old, new = objects.take(line)
                if new is not None:
                    engine.add(new) if old is None else engine.update(old, new)
                elif old is not None:
                    placements.pop(old.uid, None)
                    engine.delete(old)
            elif line.op == "open":
                engine.open()
            elif line.op == "tick":
                engine.tick(line.at)
            elif line.op == "attempt" and (pod := objects.pod(line.key)) is not None:
                verdict = verdict_of(judge.decide(pod), line.node)
                tally.decided(verdict)
                if (placement := judge.follow(pod, verdict)) is not None:
                    placements[line.uid] = placement
            elif line.op == "bindingFinished":
                placements.pop(line.uid, None)
            elif line.op == "withdraw" and (sent := placements.pop(line.uid, None)) is not None:
                judge.let_go(sent, objects.pod(sent.pod.key))
    except BrokenRecording as exc:
        raise UnreadableRecording(recording.path, recording.number, exc.message) from exc
    return False
