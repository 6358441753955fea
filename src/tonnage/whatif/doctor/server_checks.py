"""The API server: its version, its gates as far as they show, what could not be read."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.gates import Gates
from tonnage.whatif.doctor.facts import FactAnswer, Facts
from tonnage.whatif.doctor.findings import CATALOGUE, Finding

_OLDEST = (1, 24)
"""The first with storage.k8s.io/v1 CSIStorageCapacity."""
_WORDS = {FactAnswer.YES: "on", FactAnswer.NO: "off", FactAnswer.UNKNOWN: "unknown"}


def server_findings(facts: Facts) -> Iterator[Finding]:
    server = facts.server
    if server is not None:
        yield from _version(facts)
        if server.gates:
            yield _gates(facts)
        yield from _beyond(facts)
    for kind, why in facts.unlisted.items():
        yield CATALOGUE["kind-not-listed"].about(
            kind,
            f"objects of this kind count as none: {why}",
            f'allow "list" and "watch" of {kind} objects to the user of this kubeconfig',
        )


def _version(facts: Facts) -> Iterator[Finding]:
    server = facts.server
    if server is None or not server.version:
        return
    about = f"Server {facts.source}"
    yield CATALOGUE["api-server-version"].about(about, f"it is Kubernetes {server.version}", "nothing has to be done")
    if (0, 0) < (server.major, server.minor) < _OLDEST:
        yield CATALOGUE["api-server-too-old"].about(
            about,
            f"Kubernetes {server.version} has no storage.k8s.io/v1 CSIStorageCapacity, and no capacity is known",
            f"upgrade to Kubernetes {_OLDEST[0]}.{_OLDEST[1]} or later",
        )


def _gates(facts: Facts) -> Finding:
    server = facts.server
    gates = server.gates if server is not None else {}
    by_state: dict[FactAnswer, list[str]] = {}
    for name, sign in sorted(gates.items()):
        by_state.setdefault(sign.is_on, []).append(name)
    told = "; ".join(f"{_WORDS[state]}: {', '.join(names)}" for state, names in sorted(by_state.items(), reverse=True))
    remedy = "nothing has to be done: what the server drops, Tonnage keeps in annotations"
    if facts.is_on("MutablePVNodeAffinity") is not FactAnswer.YES:
        remedy += "; volumes are rebuilt elsewhere only with MutablePVNodeAffinity=true on the API server"
    return CATALOGUE["feature-gates"].about(f"Server {facts.source}", told, remedy)


def _beyond(facts: Facts) -> Iterator[Finding]:
    """The gates of `tonnage scheduler` by which its placements differ from those of this cluster's kube-scheduler."""
    server = facts.server
    if server is None or (server.major, server.minor) == (0, 0):
        return
    beyond = Gates().on_beyond((server.major, server.minor))
    release = f"{server.major}.{server.minor}"
    told = f"on by default in Tonnage and off in kube-scheduler {release}: {', '.join(beyond)}"
    if "StorageCapacityScoring" in beyond:
        told += "; StorageCapacityScoring ranks nodes by their free storage, so that pods go to other nodes than before"
    off = ",".join(f"{gate}=false" for gate in beyond)
    remedy = f"nothing has to be done; to place pods as before: tonnage scheduler --feature-gates {off}"
    yield CATALOGUE["gates-beyond-kube-scheduler"].about(f"Server {facts.source}", told, remedy)
