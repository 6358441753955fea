"""`--feature-gates` of the provisioner: ours, and the few that external-provisioner alone has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from tonnage.gates import GateError, Gates

_OWN_GATES: Final = {
    "Topology": True,
    "VolumeAttributesClass": True,
    "ReleaseLeaderElectionOnExit": True,
    "CrossNamespaceVolumeDataSource": False,
}
"""Gates that external-provisioner has and Kubernetes has not, as they are here when nobody sets them."""


@dataclass(frozen=True, slots=True)
class ProvisionerGates:
    """The gates of --feature-gates: ours, and those of external-provisioner alone."""

    ours: Gates
    own: dict[str, bool]


def parse_gates(text: str) -> ProvisionerGates:
    """`A=true,B=false`. Raises GateError for a gate that is unknown, or cannot be had."""
    own = dict(_OWN_GATES)
    rest: list[str] = []
    for pair in (each.strip() for each in text.split(",") if each.strip()):
        name, equals, said = pair.partition("=")
        if name not in _OWN_GATES or not equals:
            rest.append(pair)
            continue
        own[name] = _switched(name, said)
        if name == "CrossNamespaceVolumeDataSource" and own[name]:
            raise GateError(f"{name} is not supported: data sources are in the claim's own namespace", gate=name)
    return ProvisionerGates(Gates.parse(",".join(rest)), own)


def _switched(name: str, said: str) -> bool:
    try:
        return click.BOOL.convert(said, None, None)
    except click.BadParameter as exc:
        raise GateError(
            f"invalid value of {name}={said}", gate=name, hint=f"write {name}=true or {name}=false"
        ) from exc
