"""A scenario: what happens to a cluster, when, and how its storage behaves. `scenario_reading.py` reads it from a file.

    apiVersion: tonnage.dev/v1alpha1
    kind: Scenario
    duration: 2h                                  else until nothing more is going to happen
    storage: {pick: random, refreshDelay: 30s}    see `storage_settings`; `drivers` by name where one differs
    events:
    - {at: 0s, arrive: StatefulSet/shop/db}       its pods and claims, as its controller makes them
    - {from: 0s, until: 1h, rate: 12/min, arrive: Deployment/shop/web, lifetime: {mean: 10m}}
    - {at: 30m, drain: node-3}
    - {at: 40m, uncordon: node-3}
    - {at: 50m, join: {like: node-1, names: [node-9]}}

Every other event: `apply`, `delete` (objects, as in a replay), `cordon`, `fail`, `outOfService`, `recover`, `remove`
(nodes), and `arrivals`, a list of `{at, workload, lifetime}` that somebody recorded. Whatever is wrong is told with the
file, the field, the value and what to write instead, before anything is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.errors import TonnageError
from tonnage.objects.document import Doc
from tonnage.whatif.simulate.storage_settings import StorageSettings

API_VERSION: Final = "tonnage.dev/v1alpha1"
KIND: Final = "Scenario"
NODE_EVENTS: Final = {
    **{each: each for each in ("cordon", "uncordon", "drain", "fail", "recover", "remove")},
    "outOfService": "out_of_service",
}
"""What befalls nodes, each with the method of `NodeEvents` that does it."""


class BrokenScenario(TonnageError):
    """A scenario that cannot be run; `field` says where it is wrong."""

    def __init__(self, file: str, field: str, problem: str, hint: str | None = None) -> None:
        self.file = file
        self.field = field
        super().__init__(f"{file}: {field}{' ' if field else ''}{problem}", hint=hint)


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long a pod runs: so long exactly, or drawn with this mean. None of both: for ever."""

    exactly_s: float | None = None
    mean_s: float | None = None


@dataclass(frozen=True, slots=True)
class Arrive:
    """Pods of a workload come: all at an instant, one every so often, or at a random rate for a span."""

    workload: str
    at_s: float = 0.0
    replicas: int | None = None
    every_s: float = 0.0
    until_s: float | None = None
    rate_per_s: float | None = None
    lifetime: Lifetime = Lifetime()
    field: str = "arrive"
    """Where it stands in the file, for what is found wrong with it later; the same below."""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    at_s: float
    what: str
    node: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class Join:
    """Nodes come that are like one that is there, with its CSINode and its capacity objects, empty."""

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
    """What happens, in the order of the file; `duration_s` is None where the end is when nothing more happens."""

    file: str
    events: tuple[Event, ...]
    storage: StorageSettings
    duration_s: float | None = None
