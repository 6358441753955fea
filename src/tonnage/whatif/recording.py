"""`simulate --recording`: repeat what a live scheduler recorded with --record, also with other policies.

`_repeat` feeds an engine with the recorded configuration, seed and input: it makes the same decisions, unless this is
another version of Tonnage. `_judge` asks another policy at every recorded decision, and continues with the recorded
one, so that one difference does not hide the next.

A file whose last line is cut off comes from a scheduler that was killed or still runs: it is read up to there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from tonnage.clock import VirtualClock, rfc3339
from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.printable import text
from tonnage.scheduling.configuration.configuration import Configuration, default_configuration, parse
from tonnage.scheduling.configuration.profile_plugins import KnownPlugin
from tonnage.scheduling.decision.explain import NodeAnswer
from tonnage.scheduling.engine.attempt import Placement
from tonnage.scheduling.recording.recording_engine import (
    VERSION,
    Header,
    LatchedClock,
    RecordedLine,
    read_header,
    read_line,
    time_of,
)
from tonnage.scheduling.recording.repetition import BrokenRecording, Difference, RecordedObjects, Repetition
from tonnage.whatif.page import WHOLE, Axis, FittedTable, Page, count_text
from tonnage.whatif.shadow.judging import NOWHERE, Judge, Tally, show_differences, verdict_of


class UnreadableRecording(TonnageError):
    """A file that is no recording, or cannot be repeated."""

    def __init__(self, path: Path, line: int, problem: str, *, hint: str | None = None) -> None:
        self.path, self.line = path, line
        super().__init__(f"{path}: line {line}: {problem}" if line else f"{path}: {problem}", hint=hint)


@dataclass(slots=True)
class Recording:
    """A recording file. `lines` reads it from the start; `number` is the current line."""

    path: Path
    header: Header
    number: int = 1
    ending: str = ""
    """How the file ends, once it is read; empty if the scheduler stopped in order."""

    def lines(self) -> Iterator[RecordedLine]:
        """Raises UnreadableRecording for an invalid line."""
        self.number, self.ending = 1, "its scheduler was killed, or runs still"
        with _opened(self.path) as file:
            file.readline()
            for text in file:
                if not text.endswith(b"\n"):
                    return  # cut off
                self.number += 1
                try:
                    line = read_line(text)
                except msgspec.MsgspecError as exc:
                    raise UnreadableRecording(
                        self.path, self.number, f"this is not a line of a recording: {exc}"
                    ) from exc
                if line.op in ("end", "stopped"):
                    self.ending = line.why
                    return
                yield line


def open_recording(path: Path) -> Recording:
    """Raises UnreadableRecording for a file that is no recording or of another version."""
    hint = "give a file that `tonnage scheduler --record FILE` has written"
    with _opened(path) as file:
        first = file.readline()
    try:
        header = read_header(first)
    except msgspec.MsgspecError as exc:
        raise UnreadableRecording(path, 1, f"this is not a recording: {exc}", hint=hint) from exc
    if header.recording != VERSION:
        told = f"it is a recording of version {header.recording}; this Tonnage reads version {VERSION}"
        raise UnreadableRecording(path, 1, told, hint=f"repeat it with Tonnage {header.tonnage}")
    return Recording(path, header)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as exc:
        raise UnreadableRecording(path, 0, f"the file cannot be read: {exc.strerror}") from exc


Stopped = Callable[[], bool]


@dataclass(slots=True)
class Repeated:
    """The result of a repetition. Nothing is compared after the first `difference`."""

    decisions: int = 0
    difference: Difference | None = None

    @property
    def equal(self) -> int:
        is_decision = self.difference is not None and self.difference.what == "attempt"
        return self.decisions - is_decision

    def document(self) -> dict[str, Any]:
        difference = self.difference
        told: dict[str, Any] | None = None
        if difference is not None:
            told = {
                "what": difference.what,
                "at": rfc3339(difference.at),
                "pod": difference.pod,
                "recorded": difference.recorded or None,
                "repeated": difference.repeated or None,
                **({"explanation": difference.explanation.document()} if difference.explanation is not None else {}),
            }
        return {"decisions": self.decisions, "equal": self.equal, "firstDifference": told}


@dataclass(slots=True)
class RepeatedRecording:
    recording: Recording
    repeated: Repeated
    judged: dict[str, Tally] = field(default_factory=dict)
    until: datetime | None = None
    is_partial: bool = False

    def document(self) -> dict[str, Any]:
        """The answer for scripts; see docs/reference/json.md."""
        header = self.recording.header
        since = time_of(header)[0]
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


def configuration_of(recording: Recording, known: Sequence[KnownPlugin]) -> Configuration:
    """The recorded configuration. Raises UnreadableRecording if this version cannot load it."""
    try:
        gates = Gates.parse(recording.header.feature_gates)
        if not recording.header.configuration:
            return default_configuration(known_plugins=known, gates=gates)
        return parse(recording.header.configuration, source=str(recording.path), known_plugins=known, gates=gates)
    except TonnageError as exc:
        told = f"this Tonnage cannot use its configuration: {exc.message}"
        raise UnreadableRecording(recording.path, 1, told, hint=exc.hint) from exc


def answered(
    recording: Recording,
    others: dict[str, Configuration],
    known_plugins: Sequence[KnownPlugin],
    *,
    is_stopped: Stopped,
    step: Callable[[float], object] = lambda amount: None,
) -> RepeatedRecording:
    """Repeat a recording, and judge it by other configurations. The answer is partial when stopped."""
    answer = RepeatedRecording(recording, Repeated())
    configuration = configuration_of(recording, known_plugins)
    answer.is_partial = _repeat(answer, configuration, is_stopped, None)
    difference = answer.repeated.difference
    if difference is not None and difference.what == "attempt" and not answer.is_partial:
        _repeat(answer, configuration, is_stopped, answer.repeated.decisions)  # again, to explain it
    step(1.0)
    for name, other in others.items():
        tally = answer.judged[name] = Tally(time_of(recording.header)[0])
        answer.is_partial |= _judge(answer, tally, other, is_stopped)
        step(1.0)
    return answer


def _repeat(
    answer: RepeatedRecording,
    configuration: Configuration,
    is_stopped: Stopped,
    explained: int | None,
) -> bool:
    """Returns True if stopped before the end."""
    recording = answer.recording
    repetition = Repetition(
        recording.header,
        configuration.profiles,
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


def _judge(answer: RepeatedRecording, tally: Tally, configuration: Configuration, is_stopped: Stopped) -> bool:
    """Returns True if stopped before the end."""
    recording, objects = answer.recording, RecordedObjects()
    header = recording.header
    clock = LatchedClock(VirtualClock(), time_of(header))
    implies = header.implies_namespaces
    judge = Judge(configuration.profiles, clock=clock, seed=header.seed, implies_namespaces=implies)
    engine = judge.engine
    placements: dict[str, Placement] = {}
    try:
        for line in recording.lines():
            if is_stopped():
                return True
            clock.held = time_of(line)
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


_MOST_NODES = 40


def show(answer: RepeatedRecording, page: Page) -> None:
    repeated = answer.repeated
    decisions = count_text(repeated.decisions, "decision")
    page.title(f"Repeated: {decisions} of a live scheduler", is_partial=answer.is_partial)
    page.say(text(headline(repeated), style="bold"))
    if answer.recording.ending:
        page.say(text(f"the recording ends early: {answer.recording.ending}"))
    if why := _why(repeated):
        page.say(text(why))
    if page.has_room:
        _show_more(answer, page)
    for name, tally in answer.judged.items():
        told = f"{name}: {tally.decisions:,} decisions, {tally.agreed:,} as recorded"
        if tally.ties:
            told += f", {tally.ties:,} of them between nodes that are equally good"
        page.part(text(f"{told}; {tally.differing:,} differ", style="bold"))
        if tally.differences:
            page.blank()
            show_differences(tally, page, ("RECORDED", name), "")


def _show_more(answer: RepeatedRecording, page: Page) -> None:
    """What was recorded, how nodes are judged where a decision differs, and how much is decided alike."""
    header, difference = answer.recording.header, answer.repeated.difference
    since = time_of(header)[0]
    page.say(text(f"recorded from {rfc3339(since)} to {rfc3339(answer.until or since)}, seed {header.seed}"))
    page.section("repeated", "Decided again")
    bars = [("decided again", answer.repeated.equal), *((name, each.agreed) for name, each in answer.judged.items())]
    page.bar_chart("agreed-bars", "Decisions that come out as recorded", bars, Axis("decisions", WHOLE))
    if difference is not None and difference.explanation is not None:
        nodes = difference.explanation.nodes
        rows = [(each.name, _judged(each)) for each in nodes[:_MOST_NODES]]
        page.table(FittedTable(("NODE", "JUDGED NOW"), "nw", rows))
        page.more(len(nodes) - len(rows))
    page.section("differences", "By other policies")


def _judged(node: NodeAnswer) -> str:
    return f"scores {node.total:,}" if node.feasible else f"{node.rejected_by}: {', '.join(node.reasons)}"


def headline(repeated: Repeated) -> str:
    difference = repeated.difference
    if difference is None:
        return f"{repeated.decisions:,} decisions repeated, all equal"
    told = f"{repeated.equal:,} decisions repeated; the next one, at {rfc3339(difference.at)}, differs:"
    if difference.what == "pop":
        return f"{told} {difference.recorded or 'no pod'} was tried, and now it is {difference.repeated or 'none'}"
    what = "went to" if difference.what == "attempt" else "was to make room on"
    return f"{told} {difference.pod} {what} {difference.recorded or NOWHERE}, and now {difference.repeated or NOWHERE}"


def _why(repeated: Repeated) -> str:
    difference = repeated.difference
    if difference is None or difference.explanation is None:
        return ""
    return verdict_of(difference.explanation, difference.recorded).why or difference.explanation.message
