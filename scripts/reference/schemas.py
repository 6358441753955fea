"""JSON Schema (2020-12) of every JSON answer, made from the classes of `answers/`."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import msgspec

from reference.answers.beside import Recording, Shadow
from reference.answers.doctor import Doctor
from reference.answers.drain_preview import DrainPreview
from reference.answers.explain import Explanation
from reference.answers.fit import Fit
from reference.answers.simulate import Simulation
from reference.answers.status import Status, Troubles, Version


class Schema(NamedTuple):
    """One file of docs/reference/schemas/."""

    command: str
    type: Any
    about: str


SCHEMAS: Final = {
    "explain": Schema("tonnage explain --pod NS/NAME -o json", Explanation, "one pod"),
    "explain-list": Schema(
        "tonnage explain (several --pod, --workload, --pending, -f alone) -o json; tonnage replay -o json",
        list[Explanation],
        "where several pods may be meant",
    ),
    "fit": Schema("tonnage fit -o json", Fit, "how many more replicas fit"),
    "drain-preview": Schema("tonnage drain-preview -o json", DrainPreview, "what a drain would do"),
    "simulate": Schema("tonnage simulate --scenario FILE -o json", Simulation, "a scenario on virtual time"),
    "simulate-recording": Schema("tonnage simulate --recording FILE -o json", Recording, "a recording, decided again"),
    "doctor": Schema("tonnage doctor -o json", Doctor, "what Tonnage can use of a cluster"),
    "shadow": Schema("tonnage shadow -o json", Shadow, "beside another scheduler"),
    "status": Schema("tonnage status -o json", Troubles, "what is wrong with a cluster now"),
    "status-programs": Schema("tonnage status --data-dir DIR -o json", Status, "a running `tonnage up`"),
    "version": Schema("tonnage version -o json", Version, "what runs"),
}
"""By name of the file."""


def schema(name: str) -> str:
    """The file as it is written."""
    entry = SCHEMAS[name]
    found = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": entry.command,
        **msgspec.json.schema(entry.type),
    }
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
