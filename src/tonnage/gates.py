"""Feature gates: the one table of what can be switched, and the switches of one running program.

On the class, `Gates.StorageCapacityScoring` is the entry of the table; on an instance, which never changes, it is True
or False. Names, the spelling of `--feature-gates` and the words of its errors are upstream's
(component-base/featuregate), the stages those of Kubernetes 1.36. Three things are ours: every gate is on unless it is
switched off, none is locked, and a name given twice is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Final, NoReturn, Self, overload

from tonnage.errors import TonnageError, closest


class GateStage(StrEnum):
    """How settled a feature is, in the words of upstream's help texts."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


class GateError(TonnageError):
    """A gate that cannot be read or set as asked; `gate` is the name that was given."""

    def __init__(self, message: str, *, gate: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.gate = gate


@dataclass
class Gate:
    """One entry of the table. A gate with a `successor` is its old name: it sets it, and answers what it answers."""

    stage: GateStage
    kep: int
    meaning: str
    default: bool = True
    successor: str = ""
    releases: tuple[tuple[str, str], ...] = ()
    """How it stands in Kubernetes' own servers, by the release in which that changed; none where none has it."""
    name: str = field(default="", init=False)

    def is_on_upstream(self, release: tuple[int, ...]) -> bool:
        """Whether it is on by default in Kubernetes' own programs of a release, (major, minor)."""
        known = [told for since, told in self.releases if tuple(map(int, since.split("."))) <= release]
        return bool(known) and known[-1].endswith("on")

    def __set_name__(self, owner: type[Gates], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, gates: None, owner: type[Gates]) -> Gate: ...
    @overload
    def __get__(self, gates: Gates, owner: type[Gates]) -> bool: ...
    def __get__(self, gates: Gates | None, owner: type[Gates]) -> Gate | bool:
        return self if gates is None else (self.successor or self.name) in gates._on

    def __set__(self, gates: Gates, value: object) -> NoReturn:
        raise AttributeError(f"gates do not change: take gates.with_({self.name}={value})")


# strconv.ParseBool
_BOOLEANS: Final = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)
_COMPONENT: Final = "kube:"
"""Upstream's form `kube:A=true`: gates of the component that all of Kubernetes is."""
# Not gates: each stands for the gates of a stage that are not set by name.
_WHOLE_STAGES: Final = {"AllAlpha": GateStage.ALPHA, "AllBeta": GateStage.BETA}


class Gates:
    """Which features are on; `Gates()` is every default."""

    CSIStorageCapacityV2 = Gate(
        GateStage.ALPHA, 5925, "several pools per node, joint packing, reservations, rebuilding volumes elsewhere"
    )
    StorageCapacityScoring = Gate(
        GateStage.ALPHA, 4049, "rank nodes by their free storage", releases=(("1.33", "alpha, off"),)
    )
    # Its default follows StorageCapacityScoring's, being only another name for it; upstream no longer knows it.
    VolumeCapacityPriority = Gate(
        GateStage.DEPRECATED, 4049, "old name of StorageCapacityScoring", successor="StorageCapacityScoring"
    )
    NominatedNodeNameForExpectation = Gate(
        GateStage.BETA,
        5278,
        "show the chosen node in status.nominatedNodeName before binding",
        releases=(("1.34", "alpha, off"), ("1.35", "beta, on")),
    )
    ClearingNominatedNodeNameAfterBinding = Gate(
        GateStage.BETA,
        5278,
        "the API server empties status.nominatedNodeName when a pod is bound",
        releases=(("1.34", "alpha, off"), ("1.35", "beta, on")),
    )
    MutableCSINodeAllocatableCount = Gate(
        GateStage.GA,
        4876,
        "attach limits in CSINode may change and follow the driver",
        releases=(("1.33", "alpha, off"), ("1.34", "beta, off"), ("1.35", "beta, on"), ("1.36", "GA, always on")),
    )
    MutablePVNodeAffinity = Gate(
        GateStage.ALPHA, 5381, "a volume's node affinity may change", releases=(("1.35", "alpha, off"),)
    )
    VolumeLimitScaling = Gate(
        GateStage.ALPHA,
        5030,
        "a node where the CSI driver is not yet registered takes no pods that need it",
        releases=(("1.35", "alpha, off"),),
    )

    __slots__ = ("_on", "_warnings")

    def __init__(self) -> None:
        self._on = frozenset(name for name, gate in self.table().items() if gate.default)
        self._warnings: tuple[str, ...] = ()

    @classmethod
    @cache
    def table(cls) -> Mapping[str, Gate]:
        """Every gate by its name, in alphabetical order."""
        entries = {name: entry for owner in reversed(cls.__mro__) for name, entry in vars(owner).items()}
        return {name: entry for name, entry in sorted(entries.items()) if isinstance(entry, Gate)}

    @classmethod
    def known(cls) -> list[str]:
        """One line a gate, for help texts."""
        return [
            *(f"{name}=true|false (every {stage} gate not set by name)" for name, stage in _WHOLE_STAGES.items()),
            *(
                f"{gate.name}=true|false ({gate.stage} - default={_spelled(gate.default)}) "
                f"{gate.meaning} (KEP-{gate.kep})"
                for gate in cls.table().values()
            ),
        ]

    @classmethod
    def parse(cls, text: str) -> Self:
        """The gates of `--feature-gates`: `A=true,B=false`; raises GateError."""
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
        return cls().with_settings(settings)

    def with_(self, **settings: bool) -> Self:
        return self.with_settings(settings)

    def with_settings(self, settings: Mapping[str, bool]) -> Self:
        """These gates with some of them set; a name wins over its stage, a gate over its old name."""
        by_stage = {stage: settings[name] for name, stage in _WHOLE_STAGES.items() if name in settings}
        by_name = {name: value for name, value in settings.items() if name not in _WHOLE_STAGES}
        by_old_name: dict[str, bool] = {}
        warnings = list(self._warnings)
        for name, value in by_name.items():
            gate = self._find(name)
            if gate.successor:
                by_old_name[gate.successor] = value
            if warning := _warning(gate, value, by_name):
                warnings.append(warning)

        def is_on(gate: Gate) -> bool:
            if gate.name in by_name:
                return by_name[gate.name]
            if gate.name in by_old_name:
                return by_old_name[gate.name]
            if gate.stage in by_stage:
                return by_stage[gate.stage]
            return gate.name in self._on

        other = type(self)()
        other._on = frozenset(name for name, gate in self.table().items() if is_on(gate))
        other._warnings = tuple(warnings)
        return other

    def enabled(self, name: str) -> bool:
        """Whether a gate is on; a name that is not in the table is a GateError."""
        return (self._find(name).successor or name) in self._on

    def on_beyond(self, release: tuple[int, ...]) -> list[str]:
        """The gates that are on here and off by default in Kubernetes of a release: what differs for who moves over."""
        present = (gate for gate in self.table().values() if not gate.successor)
        return [gate.name for gate in present if self.enabled(gate.name) and not gate.is_on_upstream(release)]

    @property
    def warnings(self) -> list[str]:
        """A sentence for each gate that was set and need not or should not be."""
        return list(self._warnings)

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

    def __eq__(self, other: object) -> bool:
        return self._answers() == other._answers() if isinstance(other, Gates) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._answers())

    def __str__(self) -> str:
        """The settings in full, as `--feature-gates` reads them."""
        return ",".join(f"{name}={_spelled(on)}" for name, on in self._answers())

    def __repr__(self) -> str:
        return f"Gates({str(self)!r})"

    def _answers(self) -> tuple[tuple[str, bool], ...]:
        return tuple((gate.name, self.enabled(gate.name)) for gate in self.table().values() if not gate.successor)


@cache
def upstream_gates() -> frozenset[str]:
    """Gates of Kubernetes 1.36 that Tonnage does not have: whoever brings one over is told that it means nothing."""
    return frozenset(resources.files("tonnage").joinpath("upstream-gates.txt").read_text(encoding="ascii").split())


def _spelled(value: bool) -> str:
    return "true" if value else "false"


def _warning(gate: Gate, value: bool, by_name: Mapping[str, bool]) -> str:
    setting = f"{gate.name}={_spelled(value)}"
    if gate.successor in by_name:
        return f"setting deprecated feature gate {setting} has no effect beside {gate.successor}. Leave it out."
    if gate.successor:
        return (
            f"setting deprecated feature gate {setting}. It will be removed in a future release; "
            f"set {gate.successor}={_spelled(value)} instead."
        )
    if gate.stage in (GateStage.GA, GateStage.DEPRECATED):
        stage = gate.stage if gate.stage is GateStage.GA else gate.stage.lower()
        return f"setting {stage} feature gate {setting}. It will be removed in a future release."
    return ""
