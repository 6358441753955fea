"""The settings of ours: how storage capacity is packed and reserved.

They stand in a pluginConfig entry of their own, which the volume plugins read; there is no plugin of that name, so that
kube-scheduler ignores the entry and one file can serve both:

    pluginConfig:
    - name: StorageCapacity
      args:
        apiVersion: tonnage.dev/v1alpha1
        kind: StorageCapacityArgs
        reservation: Object
        legacyPools: Strict
        poolFit: Possible

These three are the letter of KEP-5925. The defaults are `Ledger`, `Bounded` and `Prefer`: they wait for no refresh,
turn nothing away that runs today, and send pods where their volumes fit most surely (docs/decisions/004 and 005).
"""

from __future__ import annotations

from enum import StrEnum

from tonnage.gates import Gates
from tonnage.objects.field_errors import Errors, invalid
from tonnage.scheduling.configuration.plugin_args import PluginArgs
from tonnage.scheduling.configuration.strict_decoding import Int64


class Reservation(StrEnum):
    """What is kept back for pods that are on their way (KEP-5925)."""

    OBJECT = "Object"
    """The whole capacity object until it is refreshed: the KEP."""
    LEDGER = "Ledger"
    """The bytes promised, claim by claim, until they are seen in the object."""
    NONE = "None"


class PoolFit(StrEnum):
    """How sure it must be that a pod's volumes find room, given that the driver picks the pools."""

    PREFER = "Prefer"
    """A node with a better grade goes before any other, whatever their scores."""
    POSSIBLE = "Possible"
    """Scores alone decide, as in KEP-5925; of equally good nodes the one with the better grade is taken."""
    GUARANTEED = "Guaranteed"
    """Only nodes where every order of the claims and every choice of pools ends well."""


class LegacyPools(StrEnum):
    """How a capacity object without pools is read: one pool of its maximum, bounded by its sum, or claim by claim."""

    STRICT = "Strict"
    BOUNDED = "Bounded"
    INDEPENDENT = "Independent"


class StorageCapacityArgs(PluginArgs):
    """A capacity held for bound claims is let go after `reservation_timeout_seconds`, refreshed or not."""

    plugin = "StorageCapacity"
    api_version = "tonnage.dev/v1alpha1"

    reservation: Reservation = Reservation.LEDGER
    reservation_timeout_seconds: Int64 = 60
    pool_fit: PoolFit = PoolFit.PREFER
    legacy_pools: LegacyPools = LegacyPools.BOUNDED

    def errors(self, path: str, gates: Gates) -> Errors:
        if self.reservation_timeout_seconds >= 0:
            return []
        told = "must be greater than or equal to 0"
        return [invalid(f"{path}.reservationTimeoutSeconds", self.reservation_timeout_seconds, told)]
