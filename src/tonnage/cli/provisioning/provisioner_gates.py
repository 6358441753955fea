"""`--feature-gates` of the provisioner: ours, and the few that external-provisioner alone has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

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


class ProvisionerGatesType(click.ParamType[ProvisionerGates]):
    """`A=true,B=false`; an unknown gate is wrong usage."""

    name = "gates"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ProvisionerGates:
        if isinstance(value, ProvisionerGates):
            return value
        pairs = [pair.strip() for pair in str(value).split(",") if pair.strip()]
        own = dict(_OWN_GATES)
        rest: list[str] = []
        for pair in pairs:
            name, equals, said = pair.partition("=")
            if name not in _OWN_GATES or not equals:
                rest.append(pair)
                continue
            own[name] = click.BOOL.convert(said, param, ctx)
            if name == "CrossNamespaceVolumeDataSource" and own[name]:
                self.fail(f"{name} is not supported: data sources are in the claim's own namespace", param, ctx)
        try:
            return ProvisionerGates(Gates.parse(",".join(rest)), own)
        except GateError as exc:
            self.fail(f"{exc.message}; {exc.hint}" if exc.hint else exc.message, param, ctx)
