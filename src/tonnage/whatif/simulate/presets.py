"""Named scheduler configurations of simulations, for comparisons without a file.

kube-scheduler   1.36's rules: none of our enhancements, claims judged one by one, nothing kept back
kep              KEP-5925 to the letter: a capacity object is kept back whole, one without pools is one pool
default          ours: promised bytes are kept in a ledger, what runs today is not turned away
guaranteed       default, and a node must hold the volumes whichever pools its driver picks
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.gates import Gates


@dataclass(frozen=True, slots=True)
class Preset:
    """The configuration file that a name stands for, and the gates it sets besides the given ones."""

    args: str
    gates: dict[str, bool]

    def text(self) -> str:
        from tonnage.scheduling.configuration.plugin_args import GROUP_VERSION  # loads numpy; help needs none

        head = f"apiVersion: {GROUP_VERSION}\nkind: KubeSchedulerConfiguration\n"
        if not self.args:
            return head
        kind = "apiVersion: tonnage.dev/v1alpha1, kind: StorageCapacityArgs"
        entry = f"{{name: StorageCapacity, args: {{{kind}, {self.args}}}}}"
        return f"{head}profiles:\n- pluginConfig:\n  - {entry}\n"


_SCHEDULER_GATES: Final = (
    "CSIStorageCapacityV2",
    "StorageCapacityScoring",
    "NominatedNodeNameForExpectation",
    "VolumeLimitScaling",
)
"""The gates that change a scheduler's decisions; others concern the API server, nodes and drivers."""

PRESETS: Final = {
    "kube-scheduler": Preset("", dict.fromkeys(_SCHEDULER_GATES, False)),
    "kep": Preset("reservation: Object, legacyPools: Strict, poolFit: Possible", {}),
    "default": Preset("", {}),
    "guaranteed": Preset("poolFit: Guaranteed", {}),
}


def preset_gates(preset: Preset, gates: Gates) -> Gates:
    return gates.with_(**preset.gates) if preset.gates else gates
