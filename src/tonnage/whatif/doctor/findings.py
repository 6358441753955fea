"""A finding of doctor's: its name, its severity, the object, a message and a remedy.

    finding("capacity-says-nothing", capacity, driver="disks.example")

`findings.toml` is the table of all of them, with their texts. A name has one severity.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Any, Final, NamedTuple

from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIDriver
from tonnage.whatif.page import named


class Severity(StrEnum):
    ERROR = "error"
    """Affected pods cannot be placed correctly, or data is out of reach."""
    WARNING = "warning"
    """Something is wrong or will be, though pods run."""
    INFO = "info"


NOTHING: Final = "nothing has to be done"
WEAKER: Final = "which weakens the promise that volumes fit"
"""Accompanies every remedy that weakens checks."""
WORST_FIRST: Final = (Severity.ERROR, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    severity: Severity
    object: str
    message: str
    remedy: str
    driver: str = ""

    def document(self) -> dict[str, Any]:
        found = {
            "name": self.name,
            "severity": self.severity.value,
            "object": self.object,
            "message": self.message,
            "remedy": self.remedy,
        }
        return {**found, **({"driver": self.driver} if self.driver else {})}


class FindingKind(NamedTuple):
    severity: Severity
    texts: Mapping[str, Any]
    """Its meaning, message and remedy; by the name of a variant, those of the variant."""


def _catalogue() -> Mapping[str, FindingKind]:
    table = tomllib.loads(resources.files(__package__).joinpath("findings.toml").read_text(encoding="utf-8"))
    return {name: FindingKind(Severity(kind), texts) for kind in table for name, texts in table[kind].items()}


CATALOGUE: Final = _catalogue()


def finding(name: str, about: Object | str, *, driver: str = "", variant: str = "", **facts: object) -> Finding:
    """A finding about an object, with the facts that its texts name; of many names in a list some are told. For a
    CSIDriver object `driver` is that driver."""
    kind = CATALOGUE[name]
    texts = {**kind.texts, **kind.texts.get(variant, {})}
    driver = driver or (about.name if isinstance(about, CSIDriver) else "")
    told = {key: named(fact) if isinstance(fact, list) else fact for key, fact in facts.items()}
    told |= {"about": about, "driver": driver, "weaker": WEAKER, "nothing": NOTHING}
    what = about
    if isinstance(about, Object):
        what, told["quoted"] = f"{type(about).__name__} {about.key}", shlex.quote(about.name)
    message, remedy = (texts[text].format_map(told) for text in ("message", "remedy"))
    return Finding(name, kind.severity, str(what), message, remedy, driver)
