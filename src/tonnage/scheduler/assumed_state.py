"""What decisions take to be true and the API does not show yet, for people and for `explain`: /debug/assumed.

    {"pods": [{"pod", "uid", "node"}], "claims": [{"claim", "uid", "annotations": {key: value}}],
     "volumes": [{"volume", "uid", "claim", "claimUid"}], "failedNodes": [{"uid", "node", "times", "why", "until"}]}

A pod is listed from its decision until the informer shows it bound; a claim with the annotations, and a volume with the
claim, that a binding cycle is about to write or has just written. A failed node is passed over for a while, for the pod
or for the pods of the controller that has this uid.
"""

from __future__ import annotations

from typing import Any

from tonnage.clock import rfc3339
from tonnage.scheduling.engine.engine import Engine


class AssumedState:
    """Everything one scheduler assumes, as a report."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def listed(self) -> dict[str, list[dict[str, Any]]]:
        """What /debug/assumed shows, each list by name."""
        storage = self._engine.cluster.storage
        pods = [{"pod": info.key, "uid": info.uid, "node": node} for info, node in self._engine.assumed.listed()]
        claims = []
        for claim in storage.claims.assumed():
            known = storage.claims.api(claim.key)
            before = known.metadata.annotations if known is not None else {}
            news = {key: value for key, value in claim.metadata.annotations.items() if before.get(key) != value}
            claims.append({"claim": claim.key, "uid": claim.uid, "annotations": news})
        volumes = []
        for volume in storage.volumes.assumed():
            owner = volume.spec.claim_ref
            if owner is not None:
                named = {"claim": f"{owner.namespace}/{owner.name}", "claimUid": owner.uid}
                volumes.append({"volume": volume.name, "uid": volume.uid, **named})
        failed = [
            {"uid": uid, "node": node, "times": each.times, "why": each.why, "until": rfc3339(each.until)}
            for uid, node, each in self._engine.nominations.failed_nodes.listed()
        ]
        return {
            "failedNodes": sorted(failed, key=lambda each: (each["uid"], each["node"])),
            "pods": sorted(pods, key=lambda each: each["pod"]),
            "claims": sorted(claims, key=lambda each: str(each["claim"])),
            "volumes": sorted(volumes, key=lambda each: each["volume"]),
        }
