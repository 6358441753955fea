"""Which reclassified claims people were told of: once a claim and node that is out of use, not once an attempt.

A pod whose volume has to be rebuilt may be tried often before it fits anywhere. What was told is forgotten when the
claim is gone or has another selected node in the API, so that as much is kept as there are claims that wait.
"""

from __future__ import annotations

from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.cluster import Cluster


class ToldRebuilds:
    """Claims by key, with the uid and the selected node they were told of with: `cluster.index(ToldRebuilds)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._storage = cluster.storage
        self._told: dict[Key, tuple[str, str]] = {}
        self._storage.on_change(PersistentVolumeClaim, self._claim_changed)

    def __len__(self) -> int:
        return len(self._told)

    def has(self, claim: PersistentVolumeClaim) -> bool:
        """Whether it was told that this claim's volume has to leave the node that is selected."""
        return self._told.get(claim.key) == _state_of(claim)

    def add(self, claim: PersistentVolumeClaim) -> None:
        self._told[claim.key] = _state_of(claim)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        known = new or old
        if known is not None and known.key in self._told:
            # What is only assumed may be taken back.
            told = self._storage.claims.api(known.key)
            if told is None or self._told[known.key] != _state_of(told):
                del self._told[known.key]


def _state_of(claim: PersistentVolumeClaim) -> tuple[str, str]:
    return claim.uid, claim.selected_node
