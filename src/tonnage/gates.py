"""Feature gates: the one table of gates, and the settings of one running program.

Names, the syntax of `--feature-gates` and its errors are upstream's (component-base/featuregate), the stages those of
Kubernetes 1.36. Three things are ours: every gate is on by default, none is locked, and a name given twice is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any, Final, Self

from tonnage.errors import TonnageError, closest


class GateStage(StrEnum):
    """The maturity of a feature, in the words of upstream's help texts."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


class GateError(TonnageError):
    """A gate that cannot be read or set as asked; `gate` is the given name."""

    def __init__(self, message: str, *, gate: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.gate = gate


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate. A gate with a `successor` is the successor's old name: it sets and reads the successor."""

    stage: GateStage
    kep: int
    meaning: str
    successor: str = ""
    releases: tuple[tuple[str, str], ...] = ()
    """(release, stage and default) in Kubernetes' own servers, one entry per change; empty if upstream never had it."""

    def is_on_upstream(self, release: tuple[int, ...]) -> bool:
        """True if the gate is on by default upstream in this release, (major, minor)."""
        known = [told for since, told in self.releases if tuple(map(int, since.split("."))) <= release]
        return bool(known) and known[-1].endswith("on")


# strconv.ParseBool
_BOOLEANS: Final = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)
_COMPONENT: Final = "kube:"
"""Upstream's form `kube:A=true`: gates of the component `kube`, which is all of Kubernetes."""
# Not gates: they set all gates of a stage that are not set by name.
_WHOLE_STAGES: Final = {"AllAlpha": GateStage.ALPHA, "AllBeta": GateStage.BETA}


def _gate(stage: GateStage, kep: int, meaning: str, **more: Any) -> bool:
    on: bool = field(default=True, metadata={"gate": Gate(stage, kep, meaning, **more)})
    return on


@dataclass(frozen=True)
class Gates:
    """Which features are on; `Gates()` is every default."""

    CSIStorageCapacityV2: bool = _gate(
        GateStage.ALPHA, 5925, "several pools per node, joint packing, reservations, rebuilding volumes elsewhere"
    )
    StorageCapacityScoring: bool = _gate(
        GateStage.ALPHA, 4049, "rank nodes by their free storage", releases=(("1.33", "alpha, off"),)
    )
    # Only another name for StorageCapacityScoring, so its default follows it; upstream has dropped it.
    VolumeCapacityPriority: bool = _gate(
        GateStage.DEPRECATED, 4049, "old name of StorageCapacityScoring", successor="StorageCapacityScoring"
    )
    NominatedNodeNameForExpectation: bool = _gate(
        GateStage.BETA,
        5278,
        "show the chosen node in status.nominatedNodeName before binding",
        releases=(("1.34", "alpha, off"), ("1.35", "beta, on")),
    )
    ClearingNominatedNodeNameAfterBinding: bool = _gate(
        GateStage.BETA,
        5278,
        "the API server empties status.nominatedNodeName when a pod is bound",
        releases=(("1.34", "alpha, off"), ("1.35", "beta, on")),
    )
    MutableCSINodeAllocatableCount: bool = _gate(
        GateStage.GA,
        4876,
        "attach limits in CSINode may change and follow the driver",
        releases=(("1.33", "alpha, off"), ("1.34", "beta, off"), ("1.35", "beta, on"), ("1.36", "GA, always on")),
    )
    MutablePVNodeAffinity: bool = _gate(
        GateStage.ALPHA, 5381, "a volume's node affinity may change", releases=(("1.35", "alpha, off"),)
    )
    VolumeLimitScaling: bool = _gate(
        GateStage.ALPHA,
        5030,
        "a node where the CSI driver is not yet registered takes no pods that need it",
        releases=(("1.35", "alpha, off"),),
    )

    warnings: tuple[str, ...] = field(default=(), compare=False)
    """One sentence for each gate that need not or should not be set."""

    @classmethod
    @cache
    def table(cls) -> Mapping[str, Gate]:
        """Every gate by name, sorted by name."""
        gates = {each.name: each.metadata["gate"] for each in fields(cls) if "gate" in each.metadata}
        return dict(sorted(gates.items()))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The gates of `--feature-gates`: `A=true,B=false`. Raises GateError."""
        settings: dict[str, bool] = {}
        for pair in filter(str.strip, text.split(",")):
            name, equals, value = (part.strip() for part in pair.partition("="))
            if not equals:
                raise GateError(f"missing bool value for {name}; write {name}=true or {name}=false", gate=name)
            if value not in _BOOLEANS:
                raise GateError(f"invalid value of {name}={value}; write {name}=true or {name}=false", gate=name)
            name = name.removeprefix(_COMPONENT)
            if name in settings:
                raise GateError(f"feature gate {name} is set more than once; leave one of them", gate=name)
            settings[name] = _BOOLEANS[value]
        return cls().with_(**settings)

    def with_(self, **settings: bool) -> Self:
        """A copy with these settings; a gate's name wins over its stage, the new name over the old."""
        by_stage = {stage: settings[name] for name, stage in _WHOLE_STAGES.items() if name in settings}
        by_name = {name: value for name, value in settings.items() if name not in _WHOLE_STAGES}
        found = {name: by_stage[gate.stage] for name, gate in self.table().items() if gate.stage in by_stage}
        gates = {name: self._find(name) for name in by_name}
        found |= {gate.successor: by_name[name] for name, gate in gates.items() if gate.successor}
        found |= by_name
        for name, gate in self.table().items():
            if gate.successor:
                found[name] = found.get(gate.successor, getattr(self, gate.successor))
        warnings = filter(None, (_warning(name, gate, by_name) for name, gate in gates.items()))
        return replace(self, **found, warnings=(*self.warnings, *warnings))

    def enabled(self, name: str) -> bool:
        """Raises GateError for an unknown name."""
        self._find(name)
        return bool(getattr(self, name))

    def on_beyond(self, release: tuple[int, ...]) -> list[str]:
        """The gates that are on here and off by default in this Kubernetes release."""
        present = ((name, gate) for name, gate in self.table().items() if not gate.successor)
        return [name for name, gate in present if getattr(self, name) and not gate.is_on_upstream(release)]

    @classmethod
    def _find(cls, name: str) -> Gate:
        table = cls.table()
        if name in table:
            return table[name]
        if name in upstream_gates():
            raise GateError(
                f"feature gate {name} is one of Kubernetes' own, and Tonnage does not have what it switches",
                gate=name,
                hint="leave it out; docs/guides/beside-kube-scheduler.md tells what differs from kube-scheduler",
            )
        known = [*_WHOLE_STAGES, *table]
        close = closest(name, known)
        raise GateError(
            f"unrecognized feature gate: {name}" + (f"; did you mean {close[0]}?" if close else ""),
            gate=name,
            hint=f"the known gates are {', '.join(known)}",
        )

    def __str__(self) -> str:
        """All settings, in the syntax of `--feature-gates`."""
        present = (name for name, gate in self.table().items() if not gate.successor)
        return ",".join(f"{name}={_spelled(getattr(self, name))}" for name in present)


@cache
def upstream_gates() -> frozenset[str]:
    """Gates of Kubernetes 1.36 that Tonnage does not have: setting one gives a warning."""
    return frozenset(resources.files("tonnage").joinpath("upstream-gates.txt").read_text(encoding="ascii").split())


def _spelled(value: bool) -> str:
    return "true" if value else "false"


def _warning(name: str, gate: Gate, by_name: Mapping[str, bool]) -> str:
    setting = f"{name}={_spelled(by_name[name])}"
    if gate.successor in by_name:
        return f"setting deprecated feature gate {setting} has no effect beside {gate.successor}. Leave it out."
    if gate.successor:
        return (
            f"setting deprecated feature gate {setting}. It will be removed in a future release; "
            f"set {gate.successor}={_spelled(by_name[name])} instead."
        )
    if gate.stage is GateStage.GA:
        return f"setting GA feature gate {setting}. It will be removed in a future release."
    return ""
