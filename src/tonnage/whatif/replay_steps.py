"""The steps of a replay: read from a file, executed one after the other, and shown with their results.

    - schedule: shop/web-0                        decide, reserve, assume
    - apply: [{apiVersion: v1, kind: Pod, …}]     create objects, or replace those of the same name
    - delete: [{kind: Pod, namespace: shop, name: web-0}]
    - fail_binding: shop/web-0                    its last decision is undone
    - advance: 30                                 seconds
    - restart: true                               memory is lost, objects are kept

The whole file is checked before the first step runs: errors name the step, the field, the value and the remedy. What
depends on the state (a pod that is already placed) is an error of the replay.

    step 1: schedule batch/job-0
      does not fit: 0/1 nodes are available: 1 node(s) did not have enough free storage.
      node-a: reserved by batch/job-0 since 2000-01-01T00:00:00Z
    step 2: apply
      CSIStorageCapacity kube-system/node-a configured
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.text import Text

from tonnage.clock import rfc3339
from tonnage.documents.creation import NameGenerator
from tonnage.errors import did_you_mean
from tonnage.objects.meta import Key, Object
from tonnage.printable import assembled, text
from tonnage.scheduling.decision.explain import Explanation
from tonnage.whatif.creation import Creation
from tonnage.whatif.manifest_errors import BrokenManifest, Origin, shown_value
from tonnage.whatif.manifests import READ, GivenText, documents_of, objects_at
from tonnage.whatif.page import Page
from tonnage.whatif.replay import Replay, ReplayError
from tonnage.whatif.sources import Note


@dataclass(frozen=True, slots=True)
class StepTarget:
    """An object by name; `namespace` is empty for cluster-scoped kinds."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Step(NamedTuple):
    """One step: its kind as in the file, and its value: a pod's key, objects, targets, seconds, or True."""

    kind: str
    value: Any


def read_steps(path: Path, creation: Creation, warnings: list[str]) -> list[Step]:
    """The steps of a file, in order. Appends to `warnings`. Raises BrokenManifest."""
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise BrokenManifest(str(path), f"cannot be read: {exc.strerror}", hint="name a file with steps") from exc
    return steps_of(GivenText(str(path), data), creation, warnings)


def steps_of(given: GivenText, creation: Creation, warnings: list[str]) -> list[Step]:
    return _Reader(given.name, creation, warnings).steps(given.data)


class _Reader:
    def __init__(self, file: str, creation: Creation, warnings: list[str]) -> None:
        self._file = file
        self._creation = creation
        self._warnings = warnings
        self._names = NameGenerator(random.Random(0))
        self._number = 0
        self._readers: dict[str, Callable[[str, Any], Any]] = {
            "schedule": self._pod_key,
            "apply": self._applied,
            "delete": self._deleted,
            "fail_binding": self._pod_key,
            "advance": self._seconds,
            "restart": self._true,
        }

    def steps(self, data: bytes) -> list[Step]:
        found = [document for document in documents_of(data, self._file, self._warnings) if document is not None]
        if len(found) > 1:
            raise self._broken(f"expected one list of steps, found {len(found)} documents", hint="leave out the ---")
        if not found or found[0] == []:
            raise self._broken("there is no step in it", hint='write steps such as "- schedule: default/web"')
        if not isinstance(found[0], list):
            raise self._broken(
                f"expected a list of steps, found {shown_value(found[0])}",
                hint='write a dash before each step, such as "- schedule: default/web"',
            )
        steps = []
        for self._number, value in enumerate(found[0], 1):
            steps.append(self._step(value))
        return steps

    def _step(self, value: Any) -> Step:
        kinds = ", ".join(self._readers)
        if not isinstance(value, dict) or not value:
            hint = 'write its kind, a colon and a value, such as "schedule: default/web"'
            raise self._broken(f"{shown_value(value)} is not a step", hint=hint)
        for name in value:
            if name not in self._readers:
                guess = did_you_mean(name, self._readers)
                raise self._broken(f'unknown step "{name}"', field=name, hint=guess or f"a step is one of {kinds}")
        if len(value) > 1:
            told = " and ".join(value)
            raise self._broken(f"a step has exactly one of {kinds}; found {told}", hint="write a dash before each")
        (name, said), *_ = value.items()
        return Step(name, self._readers[name](name, said))

    def _broken(self, problem: str, *, field: str = "", hint: str | None = None) -> BrokenManifest:
        return BrokenManifest(Origin(self._file, self._number, unit="step"), problem, field=field, hint=hint)

    # -- values -------------------------------------------------------------------------------------------------------

    def _pod_key(self, field: str, value: Any) -> Key:
        namespace, _, name = value.rpartition("/") if isinstance(value, str) else ("", "", "")
        if not name or "/" in namespace or value.startswith("/"):
            raise self._broken(
                f"{field}={shown_value(value)} is not a pod's name", field=field, hint="write namespace/name"
            )
        return f"{namespace or 'default'}/{name}"

    def _seconds(self, field: str, value: Any) -> float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or value < 0:
            hint = "write a number such as 30, without a unit; time does not go back"
            raise self._broken(f"{field}={shown_value(value)} is not a number of seconds", field=field, hint=hint)
        return float(value)

    def _true(self, field: str, value: Any) -> bool:
        if value is not True:
            hint = f"write {field}: true, or leave the step out"
            raise self._broken(f"{field}={shown_value(value)} is not true", field=field, hint=hint)
        return True

    def _items(self, field: str, value: Any) -> Iterator[tuple[str, Any]]:
        """The items of a list with their places, such as `apply[0]`."""
        if not isinstance(value, list) or not value:
            problem = f"{field}={shown_value(value)} is not a list of objects"
            raise self._broken(problem, field=field, hint="write a dash before each of them")
        return ((f"{field}[{idx}]", item) for idx, item in enumerate(value))

    def _applied(self, field: str, value: Any) -> tuple[Object, ...]:
        made: list[Object] = []
        for place, item in self._items(field, value):
            origin = Origin(self._file, self._number, place, unit="step")
            for manifest in objects_at(origin, {} if item is None else item, self._names, self._warnings):
                made.append(self._creation.of(manifest, self._warnings))
        return tuple(made)

    def _deleted(self, field: str, value: Any) -> tuple[StepTarget, ...]:
        found = tuple(self._reference(place, item) for place, item in self._items(field, value))
        for step_target in found:
            self._creation.forget(step_target.kind, step_target.name)
        return found

    def _reference(self, place: str, value: Any) -> StepTarget:
        names = ("kind", "namespace", "name")
        if not isinstance(value, dict):
            hint = "write {kind: Pod, namespace: default, name: web}"
            raise self._broken(f"{place}={shown_value(value)} does not name an object", field=place, hint=hint)
        for name, said in value.items():
            if name not in names:
                hint = did_you_mean(name, names) or "an object is named by kind, namespace and name"
                raise self._broken(f'{place}: unknown field "{name}"', field=f"{place}.{name}", hint=hint)
            if not isinstance(said, str):
                problem = f"{place}.{name}={shown_value(said)} is not text"
                raise self._broken(problem, field=f"{place}.{name}", hint='write text such as "a"')
        for name in ("kind", "name"):
            if not value.get(name):
                raise self._broken(
                    f"{place}.{name} is not set", field=f"{place}.{name}", hint=f"write {name}: beside the others"
                )
        kind, namespace, name = value["kind"], value.get("namespace", ""), value["name"]
        kinds = {known: resource for (_, known), resource in READ.items()}
        if kind not in kinds:
            hint = did_you_mean(kind, kinds) or f"scheduling reads {', '.join(sorted(kinds))}"
            problem = f'{place}.kind="{kind}" is not a kind that scheduling reads'
            raise self._broken(problem, field=f"{place}.kind", hint=hint)
        if kinds[kind].namespaced:
            return StepTarget(kind, namespace or "default", name)
        if namespace:
            problem = f'{place}.namespace="{namespace}": a {kind} is in no namespace'
            raise self._broken(problem, field=f"{place}.namespace", hint="leave it out")
        return StepTarget(kind, "", name)


MAX_LINES = 8
"""How many objects of one step are listed."""
MAX_MISSES = 3
"""How many nodes are listed with their nearest miss."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step and its result; `answer` is the explanation of a `schedule`."""

    number: int
    title: str
    lines: Sequence[str] = ()
    answer: Explanation | None = None


def take(run: Replay, number: int, step: Step) -> StepResult:
    """Execute one step. Raises ReplayError if it is impossible now."""
    kind, value = step
    match kind:
        case "schedule":
            return StepResult(number, f"schedule {value}", answer=run.schedule(value))
        case "fail_binding":
            told = [f"it is not on its way to {run.fail_binding(value)} any more"]
            return StepResult(number, f"fail_binding {value}", told)
        case "apply":
            told = [f"{type(each).__name__} {each.key} {run.apply(each)}" for each in value]
        case "delete":
            for each in value:
                run.delete(each.kind, each.namespace, each.name)
            told = [f"{each} deleted" for each in value]
        case "advance":
            return StepResult(number, f"advance {value:g} s", [f"it is {rfc3339(run.advance(value))}"])
        case _:
            told = [f"forgotten: {pod} on its way to {node}" for pod, node in run.restart()]
            told = told or ["no pod was on its way"]
    return StepResult(number, kind, told)


def taken(run: Replay, steps: Iterable[Step], file: str, note: Note) -> Iterator[StepResult]:
    """Execute the steps of a file and yield their results. Raises BrokenManifest for an impossible step.

    Calls `note` once for every scheduler name that pods ask for and no profile has.
    """
    foreign_names: set[str] = set()
    names = {profile.scheduler_name for profile in run.profiles}
    for number, step in enumerate(steps, 1):
        try:
            result = take(run, number, step)
        except ReplayError as exc:
            raise BrokenManifest(Origin(file, number, unit="step"), exc.message, hint=exc.hint) from exc
        if step.kind == "schedule":
            wanted = run.pod(step.value).spec.scheduler_name
            if wanted not in names | foreign_names:
                foreign_names.add(wanted)
                note(f"{step.value} asks for schedulerName {wanted}; this is what the default plugins decide")
        yield result


def show(results: Iterable[StepResult], page: Page) -> None:
    for result in results:
        page.say(assembled((f"step {result.number}", "bold"), f": {result.title}"))
        if result.answer is not None:
            page.say(_told(result.answer), indent=2)
            for line in misses(result.answer):
                page.say(text(line), indent=2)
        for line in result.lines[:MAX_LINES]:
            page.say(text(line), indent=2)
        page.more(len(result.lines) - MAX_LINES, indent=2)


def _told(answer: Explanation) -> Text:
    if answer.held_back:
        return assembled(("is not tried", "bold yellow"), f": {answer.held_back}")
    if answer.node:
        return assembled("goes to ", (answer.node, "bold green"), f"; {answer.message}")
    return assembled(("does not fit", "bold red"), f": {answer.message}")


def misses(answer: Explanation) -> Iterable[str]:
    """The nodes that were refused for storage, the nearest first."""
    if answer.node:
        return
    found = sorted((miss, node.name) for node in answer.nodes if (miss := node.miss) is not None)
    for miss, name in found[:MAX_MISSES]:
        yield f"{name}: {miss.told}"
    if len(found) > MAX_MISSES:
        yield f"… and {len(found) - MAX_MISSES:,} more nodes"
