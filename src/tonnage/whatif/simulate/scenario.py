"""A scenario: what happens to a cluster, when, and how its storage behaves.

    apiVersion: tonnage.dev/v1alpha1
    kind: Scenario
    duration: 2h                                  else until nothing more is going to happen
    storage: {pick: random, refreshDelay: 30s}    see `DriverSettings`; `drivers` by name where one differs
    events:
    - {at: 0s, arrive: StatefulSet/shop/db}       its pods and claims, as its controller makes them
    - {from: 0s, until: 1h, rate: 12/min, arrive: Deployment/shop/web, lifetime: {mean: 10m}}
    - {at: 30m, drain: node-3}
    - {at: 40m, uncordon: node-3}
    - {at: 50m, join: {like: node-1, names: [node-9]}}

Every other event: `apply`, `delete` (objects), `cordon`, `fail`, `outOfService`, `recover`, `remove` (nodes), and
`arrivals`, a list of `{at, workload, lifetime}` that somebody recorded.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from tonnage.clock import parse_duration
from tonnage.errors import TonnageError, did_you_mean
from tonnage.objects.document import Doc
from tonnage.objects.names import dns_subdomain
from tonnage.quantity import InvalidQuantity, Quantity
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.whatif.manifest_errors import shown_value
from tonnage.whatif.manifests import GivenText, documents_of
from tonnage.whatif.simulate.disks import PICK_POLICIES, DriverSettings, StorageSettings

T = TypeVar("T")
D = TypeVar("D")
API_VERSION: Final = "tonnage.dev/v1alpha1"
KIND: Final = "Scenario"
NODE_EVENTS: Final = {
    **{each: each for each in ("cordon", "uncordon", "drain", "fail", "recover", "remove")},
    "outOfService": "out_of_service",
}
"""Events of nodes, each with its method of `NodeEvents`."""


class BrokenScenario(TonnageError):
    """A scenario that cannot be run; `field` says where it is wrong."""

    def __init__(self, file: str, field: str, problem: str, hint: str | None = None) -> None:
        self.file = file
        self.field = field
        super().__init__(f"{file}: {field}{' ' if field else ''}{problem}", hint=hint)


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long a pod runs: a fixed time, or random with this mean. With neither, for ever."""

    exactly_s: float | None = None
    mean_s: float | None = None


@dataclass(frozen=True, slots=True)
class Arrive:
    """Pods of a workload arrive: all at one instant, at equal intervals, or at a random rate for a span."""

    workload: str
    at_s: float = 0.0
    replicas: int | None = None
    every_s: float = 0.0
    until_s: float | None = None
    rate_per_s: float | None = None
    lifetime: Lifetime = Lifetime()
    field: str = "arrive"
    """Its place in the file; likewise in the other events."""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    at_s: float
    what: str
    node: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class Join:
    """Nodes that copy an existing one, with its CSINode and its capacity objects, empty."""

    at_s: float
    like: str
    names: tuple[str, ...]
    field: str = "join"


@dataclass(frozen=True, slots=True)
class Apply:
    at_s: float
    objects: tuple[Doc, ...]
    """Documents, to be created as an API server would."""
    field: str


@dataclass(frozen=True, slots=True)
class Delete:
    at_s: float
    objects: tuple[tuple[str, str, str], ...]
    """(kind, namespace, name) of each."""


Event = Arrive | NodeEvent | Join | Apply | Delete


@dataclass(frozen=True, slots=True)
class Scenario:
    """The events in the order of the file. `duration_s` is None if the run ends when nothing more happens."""

    file: str
    events: tuple[Event, ...]
    storage: StorageSettings
    duration_s: float | None = None


MOST_ARRIVALS: Final = 1_000_000
"""Limit of one event: more is a typing error."""
LONGEST_S: Final = 8760 * 3600.0
MOST_FACTOR: Final = 1000
_RATE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)/(s|min|h)")
_PER_S: Final = {"s": 1.0, "min": 60.0, "h": 3600.0}


def read_scenario(path: Path) -> Scenario:
    """Read a scenario. Raises BrokenScenario, or TonnageError for a file that cannot be opened or is no YAML."""
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise TonnageError(f"{path}: cannot be read: {exc.strerror}", hint="name a scenario with --scenario") from exc
    return scenario_of(GivenText(str(path), data))


def scenario_of(given: GivenText) -> Scenario:
    path, data = given.name, given.data
    twice: list[str] = []
    documents = [document for document in documents_of(data, path, twice) if document is not None]
    if twice:
        told = twice[0].removeprefix(f"{path}, ").removesuffix("; the last counts")
        raise BrokenScenario(path, "", told, "write it once")
    if len(documents) != 1:
        found = f"holds {len(documents)} documents" if documents else "is empty"
        hint = f"a scenario is one document: apiVersion: {API_VERSION}, kind: {KIND}, events: […]"
        raise BrokenScenario(path, "the file", found, hint)
    return _Reader(path).scenario(documents[0])


class _Reader:
    """Reads the scenario of one file. Methods take a value's field for error messages."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._driver_fields: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
            "pick": ("pick", self._pick),
            "overstates": ("overstates", self._factor),
            "attachSlots": ("attach_slots", self._count),
            "rebuildRate": ("rebuild_bytes_per_s", self._bytes),
            "createLatency": ("create_latency_s", self._span),
            "attachLatency": ("attach_latency_s", self._span),
            "deleteLatency": ("delete_latency_s", self._span),
            "refreshDelay": ("refresh_delay_s", self._span),
        }

    def scenario(self, doc: Any) -> Scenario:
        found = self._map("", doc, ("apiVersion", "kind", "metadata", "duration", "storage", "events"))
        for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
            if found.get(name) != wanted:
                raise self._broken(name, f"is {shown_value(found.get(name))}", f"write {name}: {wanted}")
        events = self._list("events", found.get("events", []), "write a dash before each event")
        read = [each for at, event in enumerate(events) for each in self._event(f"events[{at}]", event)]
        duration_s = self._span("duration", found["duration"]) if "duration" in found else None
        return Scenario(self._file, tuple(read), self._storage(found.get("storage", {})), duration_s)

    # -- events -------------------------------------------------------------------------------------------------------

    def _event(self, place: str, value: Any) -> list[Event]:
        whats = ("arrive", "arrivals", "join", "apply", "delete", *NODE_EVENTS)
        fields = ("at", "from", "until", "rate", "replicas", "every", "lifetime", *whats)
        found = self._map(place, value, fields)
        said = [name for name in whats if name in found]
        if len(said) != 1:
            told = f"says {' and '.join(said)}" if said else "does not say what happens"
            raise self._broken(place, told, f"write one of {', '.join(whats)}")
        what = said[0]
        if what == "arrivals":
            self._only(place, found, ("arrivals",))
            return self._recorded(f"{place}.arrivals", found["arrivals"])
        if what == "arrive":
            return [self._arrive(place, found)]
        self._only(place, found, ("at", what))
        self._need(place, found, "at", "write when, such as at: 10m")
        at_s, field, objects = self._span(f"{place}.at", found["at"]), f"{place}.{what}", found[what]
        if what in NODE_EVENTS:
            names = objects if isinstance(objects, list) else [objects]
            if not names:
                raise self._broken(field, "names no node", f"write {what}: node-1, or a list of nodes")
            return [NodeEvent(at_s, what, self._text(field, name), field) for name in names]
        if what == "join":
            return [self._join(at_s, field, objects)]
        if not isinstance(objects, list) or not objects:
            told = f"is {shown_value(objects)}, not a list of objects"
            raise self._broken(field, told, "write a dash before each of them")
        if what == "delete":
            return [Delete(at_s, tuple(self._reference(f"{field}[{at}]", each) for at, each in enumerate(objects)))]
        for at, each in enumerate(objects):
            if not isinstance(each, dict):
                told = f"is {shown_value(each)}, not an object"
                raise self._broken(f"{field}[{at}]", told, "write it as a manifest")
        return [Apply(at_s, tuple(objects), field)]

    def _arrive(self, place: str, found: dict[str, Any]) -> Arrive:
        workload = self._text(f"{place}.arrive", found["arrive"])
        lifetime = self._given(place, found, "lifetime", self._lifetime, Lifetime())
        if "rate" not in found:
            self._only(place, found, ("arrive", "at", "replicas", "every", "lifetime"))
            return Arrive(
                workload,
                self._span(f"{place}.at", found.get("at", "0s")),
                self._given(place, found, "replicas", self._count, None),
                self._given(place, found, "every", self._span, 0.0),
                lifetime=lifetime,
                field=f"{place}.arrive",
            )
        self._only(place, found, ("arrive", "from", "until", "rate", "lifetime"))
        self._need(place, found, "until", "a rate has an end; write until: 1h")
        from_s = self._span(f"{place}.from", found.get("from", "0s"))
        until_s = self._span(f"{place}.until", found["until"])
        if until_s < from_s:
            told = f"is {shown_value(found['until'])}, before from"
            raise self._broken(f"{place}.until", told, "write a later time")
        text, field = found["rate"], f"{place}.rate"
        parts = _RATE.fullmatch(text) if isinstance(text, str) else None
        if parts is None or not float(parts[1]):
            raise self._broken(field, f"is {shown_value(text)}", "write pods for a span: 12/min, 0.5/s or 30/h")
        rate = float(parts[1]) / _PER_S[parts[2]]
        most = (until_s - from_s) * rate
        if most > MOST_ARRIVALS:
            hint = f"at most {MOST_ARRIVALS:,} are simulated; write a lower rate or an earlier end"
            raise self._broken(field, f"is {shown_value(text)}, which are about {most:,.0f} pods", hint)
        return Arrive(workload, from_s, until_s=until_s, rate_per_s=rate, lifetime=lifetime, field=f"{place}.arrive")

    def _recorded(self, place: str, value: Any) -> list[Event]:
        read: list[Event] = []
        for number, each in enumerate(self._list(place, value, "write a dash before each arrival")):
            at = f"{place}[{number}]"
            found = self._map(at, each, ("at", "workload", "lifetime"))
            for name in ("at", "workload"):
                self._need(at, found, name, "an arrival has a time and a workload")
            lifetime = self._given(at, found, "lifetime", self._lifetime, Lifetime())
            workload, at_s = self._text(f"{at}.workload", found["workload"]), self._span(f"{at}.at", found["at"])
            read.append(Arrive(workload, at_s, 1, lifetime=lifetime, field=f"{at}.workload"))
        return read

    def _join(self, at_s: float, place: str, value: Any) -> Join:
        found = self._map(place, value, ("like", "names", "count"))
        self._need(place, found, "like", "write like: NODE, a node that is there")
        like = self._text(f"{place}.like", found["like"])
        if ("names" in found) == ("count" in found):
            raise self._broken(place, "needs names or a count", "write names: [node-9], or count: 1")
        if "count" in found:
            count = self._count(f"{place}.count", found["count"])
            return Join(at_s, like, tuple(f"{like}-joined-{number}" for number in range(1, count + 1)), place)
        field, names = f"{place}.names", found["names"]
        if not isinstance(names, list) or not names:
            raise self._broken(field, f"is {shown_value(names)}, not a list of names", "write names: [node-9]")
        read = tuple(self._text(f"{field}[{at}]", each) for at, each in enumerate(names))
        for number, each in enumerate(read):
            if problems := dns_subdomain(each):
                raise self._broken(f"{field}[{number}]", f"is {shown_value(each)}: {problems[0]}")
        if len(set(read)) < len(read):
            raise self._broken(field, "names a node twice", "write each name once")
        return Join(at_s, like, read, place)

    def _reference(self, place: str, value: Any) -> tuple[str, str, str]:
        found = self._map(place, value, ("kind", "namespace", "name"))
        for name in ("kind", "name"):
            self._need(place, found, name, "write {kind: Pod, namespace: shop, name: db-0}")
        kind, name = (self._text(f"{place}.{each}", found[each]) for each in ("kind", "name"))
        return kind, self._given(place, found, "namespace", self._text, ""), name

    # -- storage ------------------------------------------------------------------------------------------------------

    def _storage(self, value: Any) -> StorageSettings:
        found = self._map("storage", value, (*self._driver_fields, "drivers"))
        drivers = found.pop("drivers", {})
        rest = self._driver("storage", found, DriverSettings())
        if not isinstance(drivers, dict):
            told = f"is {shown_value(drivers)}"
            raise self._broken("storage.drivers", told, "write NAME: {pick: random} for each driver")
        return StorageSettings(
            rest, {name: self._driver(f"storage.drivers.{name}", said, rest) for name, said in drivers.items()}
        )

    def _driver(self, place: str, value: Any, before: DriverSettings) -> DriverSettings:
        changes = {}
        for name, said in self._map(place, value, tuple(self._driver_fields)).items():
            attribute, read = self._driver_fields[name]
            changes[attribute] = read(f"{place}.{name}", said)
        return dataclasses.replace(before, **changes)

    def _pick(self, field: str, value: Any) -> PoolPolicy:
        if not isinstance(value, str) or value not in PICK_POLICIES:
            raise self._broken(field, f"is {shown_value(value)}", f"a driver picks by {', '.join(PICK_POLICIES)}")
        return PoolPolicy(value)

    def _factor(self, field: str, value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= MOST_FACTOR:
            raise self._broken(field, f"is {shown_value(value)}", "write a factor, such as 1.2")
        return float(value)

    # -- values -------------------------------------------------------------------------------------------------------

    def _map(self, place: str, value: Any, fields: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._broken(place or "the scenario", f"is {shown_value(value)}, not a map", "write field: value")
        for name in value:
            if name not in fields:
                at = f"{place}.{name}" if place else str(name)
                hint = did_you_mean(str(name), fields) or f"the fields are {', '.join(fields)}"
                raise self._broken(at, "is not a field of a scenario here", hint)
        empty = next((name for name, said in value.items() if said is None), None)
        if empty is not None:
            at = f"{place}.{empty}" if place else str(empty)
            raise self._broken(at, "has no value", "write one, or leave the field out")
        return dict(value)

    def _list(self, field: str, value: Any, hint: str) -> list[Any]:
        if not isinstance(value, list):
            raise self._broken(field, f"is {shown_value(value)}, not a list", hint)
        return value

    def _only(self, place: str, found: dict[str, Any], fields: tuple[str, ...]) -> None:
        for name in found:
            if name not in fields:
                raise self._broken(f"{place}.{name}", "means nothing here", f"beside it stand {', '.join(fields)}")

    def _need(self, place: str, found: dict[str, Any], name: str, hint: str) -> None:
        if name not in found:
            raise self._broken(f"{place}.{name}", "is not set", hint)

    def _given(self, place: str, found: dict[str, Any], name: str, read: Callable[[str, Any], T], default: D) -> T | D:
        return read(f"{place}.{name}", found[name]) if name in found else default

    def _span(self, field: str, value: Any) -> float:
        found = parse_duration(value) if isinstance(value, str) else None
        if value == 0 and not isinstance(value, bool):
            found = 0.0
        if found is None or found < 0:
            raise self._broken(field, f"is {shown_value(value)}, not a span of time", "write 30s, 5m or 1h30m")
        if found > LONGEST_S:
            raise self._broken(field, f"is {shown_value(value)}", "at most 8760h (a year) are simulated")
        return found

    def _count(self, field: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._broken(field, f"is {shown_value(value)}, not a count", "write a whole number")
        if value > MOST_ARRIVALS:
            raise self._broken(field, f"is {shown_value(value)}", f"write at most {MOST_ARRIVALS:,}")
        return value

    def _bytes(self, field: str, value: Any) -> float:
        try:
            found = Quantity.of(value, field=field).value()
        except InvalidQuantity as exc:
            raise self._broken(field, f"is {shown_value(value)}", "write bytes a second, such as 200Mi") from exc
        if found <= 0:
            raise self._broken(field, f"is {shown_value(value)}", "write more than nothing, such as 200Mi")
        return float(found)

    def _text(self, field: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise self._broken(field, f"is {shown_value(value)}, not a name", "write a name")
        return value

    def _lifetime(self, field: str, value: Any) -> Lifetime:
        if isinstance(value, dict):
            found = self._map(field, value, ("mean",))
            self._need(field, found, "mean", "write lifetime: 10m, or lifetime: {mean: 10m}")
            return Lifetime(mean_s=self._span(f"{field}.mean", found["mean"]))
        return Lifetime(exactly_s=self._span(field, value))

    def _broken(self, field: str, problem: str, hint: str | None = None) -> BrokenScenario:
        return BrokenScenario(self._file, field, problem, hint)
